"""Losses over the nodes of the graphs in a batch: a mean over another number on every process."""

from __future__ import annotations

import pytest
from scripts import convert, script

NETWORK = """
class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(8, 3)

    def forward(self, {parameters}):
        x = self.conv(x, edges).relu()
        return {gives}
"""


def said(
    forward: str = "loss = F.cross_entropy(model(data.x, data.edge_index), data.y)",
    gives: str = "x",
    parameters: str = "x, edges",
    home: str = "torch_geometric.loader",
    model: str = "Graph()",
    follow: str = "",
) -> list[str]:
    """The codes of the findings about the loss of a script that trains on graphs."""
    imports = (
        f"from {home} import DataLoader\nfrom torch_geometric.datasets import PPI\nfrom torch_geometric.nn import *"
    )
    result = convert(
        script(
            from_imports=imports.replace("import *", "import GCNConv, GCN, global_mean_pool"),
            definitions=NETWORK.format(parameters=parameters, gives=gives),
            data="data = PPI('data')",
            loader=f"loader = DataLoader(data, batch_size=2, shuffle=True{follow})",
            model=f"model = {model}.to(device)",
            loop="for data in loader:",
            move="data = data.to(device)",
            forward=f"optimizer.zero_grad()\n{forward}",
        )
    )
    assert result.plan is not None and "accelerator.backward(loss" in result.diff, result.diff
    return [f.code for f in result.plan.findings if f.code.startswith("LOSS-")]


@pytest.mark.parametrize(
    "forward",
    [
        "loss = F.cross_entropy(model(data.x, data.edge_index), data.y)",
        "out = model(data.x, data.edge_index)\nloss = nn.BCEWithLogitsLoss()(out, data.y)",
        "out = model(data.x, data.edge_index)\nloss = F.mse_loss(out[data.edge_index[0]], data.edge_attr)",
    ],
)
@pytest.mark.parametrize("home", ["torch_geometric.loader", "torch_geometric.data"])
def test_a_mean_over_nodes_or_edges_is_one_over_another_number(forward: str, home: str) -> None:
    assert said(forward, home=home) == ["LOSS-MASKMEAN"]


@pytest.mark.parametrize(
    ("owners", "codes"), [("data.x_s_batch", []), ("data.x_s_ptr", []), ("data.x_s", ["LOSS-MASKMEAN"])]
)
def test_further_nodes_have_owners_of_their_own(owners: str, codes: list[str]) -> None:
    forward = f"loss = F.cross_entropy(model(data.x_s, data.edge_index, {owners}), data.y)"
    told = said(forward, "global_mean_pool(x, of)", "x, edges, of", follow=", follow_batch=['x_s']")
    assert told == codes


def test_a_mean_over_graphs_is_not() -> None:
    pooled = {"gives": "global_mean_pool(x, graphs)", "parameters": "x, edges, graphs"}
    assert said("loss = F.cross_entropy(model(data.x, data.edge_index, data.batch), data.y)", **pooled) == []
    whole = "global_mean_pool(data.x, data.batch)"
    assert said("loss = F.cross_entropy(model(data, None), data.y)", whole, "data, edges, x=None") == []


def test_nothing_is_said_where_it_cannot_be_told() -> None:
    assert said(home="torch.utils.data") == []  # another loader
    assert said(model="GCN(8, 8, 2, 3)") == []  # a network of a library may pool
    assert said("loss = F.mse_loss(model(data.x, data.edge_index), data.y, reduction='sum')") == []


GRAPHS = """
class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = dgl.nn.GraphConv(8, 3)

    def forward(self, g, x):
        return {gives}


def collate(graphs):
    return dgl.batch(graphs)
"""


def of_dgl(collate: str, gives: str = "self.conv(g, x)", model: str = "Graph()", imports: str = "") -> list[str]:
    """The codes of the findings about the loss of a script that trains on graphs of DGL."""
    text = script(
        from_imports=f"import dgl\nfrom dgl.data import PPIDataset\n{imports}",
        definitions=GRAPHS.format(gives=gives),
        data="data = PPIDataset('train')",
        loader=f"loader = DataLoader(data, batch_size=2, shuffle=True, collate_fn={collate})",
        model=f"model = {model}.to(device)",
        loop="for g in loader:",
        move="g = g.to(device)",
        forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(g, g.ndata['feat']), g.ndata['label'])",
    )
    result = convert(text)
    assert result.plan is not None and "accelerator.backward(loss" in result.diff, result.diff
    return [f.code for f in result.plan.findings if f.code.startswith("LOSS-")]


@pytest.mark.parametrize("collate", ["dgl.batch", "collate", "lambda graphs: dgl.batch(graphs)"])
def test_a_mean_over_the_nodes_of_graphs_that_a_loader_of_torch_joins(collate: str) -> None:
    assert of_dgl(collate) == ["LOSS-MASKMEAN"]


@pytest.mark.parametrize("gives", ["dgl.mean_nodes(g, 'h')", "dgl.nn.AvgPooling()(g, self.conv(g, x))"])
def test_who_asks_whose_the_nodes_are_may_give_a_row_for_each_graph(gives: str) -> None:
    assert "LOSS-MASKMEAN" not in of_dgl("collate", gives)


@pytest.mark.parametrize(
    ("collate", "codes"),
    [
        ("helpers.collate", ["LOSS-UNKNOWN"]),
        ("helpers.Collator(8)", ["LOSS-UNKNOWN"]),
        ("torch.utils.data.default_collate", []),
        ("transformers.DataCollatorWithPadding(None)", []),
        ("lambda samples: torch.utils.data.default_collate(samples)", []),
    ],
)
def test_batches_that_are_collated_by_something_unknown_may_have_any_number_of_rows(
    collate: str, codes: list[str]
) -> None:
    text = script(
        from_imports="import helpers\nimport transformers",
        loader=f"loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn={collate})",
    )
    result = convert(text)
    assert result.plan is not None
    assert [f.code for f in result.plan.findings if f.code.startswith("LOSS-")] == codes
