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
            loader="loader = DataLoader(data, batch_size=2, shuffle=True)",
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


def test_a_mean_over_graphs_is_not() -> None:
    pooled = {"gives": "global_mean_pool(x, graphs)", "parameters": "x, edges, graphs"}
    assert said("loss = F.cross_entropy(model(data.x, data.edge_index, data.batch), data.y)", **pooled) == []
    whole = "global_mean_pool(data.x, data.batch)"
    assert said("loss = F.cross_entropy(model(data, None), data.y)", whole, "data, edges, x=None") == []


def test_nothing_is_said_where_it_cannot_be_told() -> None:
    assert said(home="torch.utils.data") == []  # another loader
    assert said(model="GCN(8, 8, 2, 3)") == []  # a network of a library may pool
    assert said("loss = F.mse_loss(model(data.x, data.edge_index), data.y, reduction='sum')") == []
