"""BATCHSIZE and SPLIT: what a process makes of its share of a batch, and of the whole data."""

from __future__ import annotations

import textwrap

import pytest
from scripts import converted, findings, lifted, script

SIZED = {"setup": "batch_size = 16", "loader": "loader = DataLoader(data, batch_size=batch_size, shuffle=True)"}
SHARE = "batch_size // accelerator.num_processes"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("real = torch.ones(batch_size, 1)", f"real = torch.ones({SHARE}, 1)"),
        ("noise = torch.randn((batch_size, 8))", f"noise = torch.randn(({SHARE}, 8))"),
        ("fake = torch.full((batch_size,), 0.0)", f"fake = torch.full(({SHARE},), 0.0)"),
        ("flat = x.view(batch_size, -1)", f"flat = x.view({SHARE}, -1)"),
        ("rows = [x[i] for i in range(batch_size)]", f"rows = [x[i] for i in range({SHARE})]"),
        ("for i in range(batch_size):\n    row = x[i]", f"for i in range({SHARE}):\n    row = x[i]"),
    ],
)
def test_a_number_of_rows_is_that_of_the_share(before: str, after: str) -> None:
    assert converted(script(**SIZED, batch_end=before)) == lifted(**SIZED, batch_end=after)


def test_a_number_of_rows_in_a_function_that_the_loop_calls() -> None:
    labels = "def labels():\n    return torch.ones({}, 1)"
    before = script(**SIZED, definitions=labels.format("batch_size"), batch_end="real = labels()")
    assert converted(before) == lifted(**SIZED, definitions=labels.format(SHARE), batch_end="real = labels()")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("", "torch.save(labels(), 'all.pt')", True),
        ("fixed = labels()", "torch.save(fixed, 'all.pt')", True),
        ("real = labels()", "", False),  # for the training loop
        ("", "for x, y in loader:\n    more = labels()", False),  # shares, too
        ("def unused():\n    return labels()", "", False),
    ],
)
def test_a_number_of_rows_that_means_a_whole_batch_elsewhere(before: str, after: str, told: bool) -> None:
    text = script(
        **{**SIZED, "setup": "batch_size = 16\nreal = 1"},
        definitions="def labels():\n    return torch.ones(batch_size, 1)",
        before=before,
        batch_end="made = labels() * real",
        after=after,
    )
    assert ("BATCH-MIXED" in findings(text)) == told
    assert (SHARE in converted(text)) != told


UNSAID = """\
def labels(size=None):
    {}
    return torch.ones(size, 1){}
"""


@pytest.mark.parametrize(
    "line",
    [
        "size = {} if size is None else size",
        "size = size if size is not None else {}",
        "size = size if size else {}",
        "size = size or {}",
        "if size is None:\n        size = {}",
        "if not size:\n        size = {}",
    ],
)
def test_a_number_of_rows_where_none_is_said(line: str) -> None:
    slots = {**SIZED, "batch_end": "real = labels()\nmore = labels(36)"}
    found = converted(script(**slots, definitions=UNSAID.format(line.format("batch_size"), "")))
    assert found.replace(f"({SHARE})", SHARE) == lifted(**slots, definitions=UNSAID.format(line.format(SHARE), ""))


@pytest.mark.parametrize(
    ("line", "more", "codes"),
    [
        ("size = batch_size if size is None else size", " / size", ["BATCH-MIXED"]),
        ("if size is None:\n        size = batch_size", ".sum() / size", ["BATCH-MIXED"]),
        ("size = 3 if size is None else size", "", []),
        ("size = batch_size - 1 if size is None else size", "", []),
        ("if len(loader) > 3:\n        size = 5", "", []),
    ],
)
def test_other_numbers_where_none_is_said_stay(line: str, more: str, codes: list[str]) -> None:
    slots = {**SIZED, "definitions": UNSAID.format(line, more), "batch_end": "real = labels()"}
    assert converted(script(**slots)) == lifted(**slots)
    assert [code for code in findings(script(**slots)) if code.startswith("BATCH")] == codes


TAKEN = "def labels(size=None):\n    return torch.ones({}, 1)"


@pytest.mark.parametrize("rows", ["size or {}", "size if size else {}", "{} if not size else 1"])
def test_a_number_of_rows_that_a_call_takes_where_none_is_said(rows: str) -> None:
    slots = {**SIZED, "batch_end": "real = labels()\nmore = labels(36)"}
    found = converted(script(**slots, definitions=TAKEN.format(rows.format("batch_size"))))
    assert found == lifted(**slots, definitions=TAKEN.format(rows.format(f"({SHARE})")))
    outside = script(**slots, definitions=TAKEN.format(rows.format("batch_size")), after="print(labels())")
    assert SHARE not in converted(outside) and "BATCH-MIXED" in findings(outside)


@pytest.mark.parametrize("rows", ["size or 3", "size or batch_size - 1", "size or len(loader)"])
def test_another_number_that_a_call_takes_stays(rows: str) -> None:
    slots = {**SIZED, "definitions": TAKEN.format(rows), "batch_end": "real = labels()"}
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize("given", ["", "x", "epoch"])
def test_a_function_that_the_loop_calls_for_its_own_sake(given: str) -> None:
    """It has to do with the share only if it is given it."""
    show = "def show(rows=None):\n    noise = torch.randn({0}, 8)\n    model(noise).view({0}, -1)"
    share = SHARE if given == "x" else "batch_size"
    slots = {**SIZED, "batch_end": f"show({given})"}
    assert converted(script(**slots, definitions=show.format("batch_size"))) == lifted(
        **slots, definitions=show.format(share)
    )


@pytest.mark.parametrize(
    ("setup", "size"),
    [
        ("settings = {'rows': 16, 'columns': 3}", "settings['rows']"),
        ("rows = 16\nsettings = {'rows': rows, 'columns': 3}", "settings['rows']"),
        ("import json\nsettings = json.load(open('settings.json'))", "settings['rows']"),
    ],
)
def test_an_entry_of_a_dict_that_holds_the_batch_size(setup: str, size: str) -> None:
    slots = {"setup": setup, "loader": f"loader = DataLoader(data, batch_size={size}, shuffle=True)"}
    before = script(**slots, batch_end=f"real = torch.ones({size}, 1)\nother = torch.ones(settings['columns'], 1)")
    output = converted(before)
    assert f"torch.ones({size} // accelerator.num_processes, 1)" in output
    assert "torch.ones(settings['columns'], 1)" in output


def test_an_entry_that_is_set_again_may_be_another_number() -> None:
    setup = "rows = 16\nsettings = {'rows': rows}\nsettings['rows'] = 8"
    slots = {"setup": setup, "loader": "loader = DataLoader(data, batch_size=rows, shuffle=True)"}
    before = script(**slots, batch_end="real = torch.ones(settings['rows'], 1)")
    assert "num_processes" not in converted(before)


def test_a_batch_size_that_the_maker_of_the_loader_is_handed() -> None:
    definitions = "def make(data, rows):\n    return DataLoader(data, batch_size=rows, shuffle=True)"
    slots = {"setup": "batch_size = 16", "definitions": definitions, "loader": "loader = make(data, batch_size)"}
    assert f"torch.ones({SHARE}, 1)" in converted(script(**slots, batch_end="real = torch.ones(batch_size, 1)"))
    other = {**slots, "after": "rest = make(data, 7)"}
    assert "num_processes" not in converted(script(**other, batch_end="real = torch.ones(batch_size, 1)"))


def test_an_option_that_holds_the_batch_size() -> None:
    slots = {
        "imports": "import argparse",
        "setup": 'parser = argparse.ArgumentParser()\nparser.add_argument("--rows", type=int)\n'
        'parser.add_argument("--batch-size", type=int)\nargs = parser.parse_args()',
        "loader": "loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)",
    }
    other = "table = torch.ones(args.rows, 1)"
    before = script(**slots, batch_end=f"real = torch.ones(args.batch_size, 1)\n{other}")
    share = "args.batch_size // accelerator.num_processes"
    assert converted(before) == lifted(**slots, batch_end=f"real = torch.ones({share}, 1)\n{other}")


@pytest.mark.parametrize(
    "slots",
    [
        {"batch_end": "real = torch.ones(len(x), 1)"},
        {"batch_end": "real = torch.ones(x.size(0), 1)"},
        {"batch_end": "seen = epoch * batch_size"},
        {"batch_end": "rate = 0.1 * batch_size / 256"},
        {"batch_end": "real = torch.ones(16, 1)"},
        {"batch_end": "grid = torch.ones(rows, 1)", "before": "rows = 16"},
        {"batch_end": 'text = "torch.ones(batch_size, 1)"'},
        {"batch_end": "settings = dict(batch_size=batch_size)"},
        {"epoch": "grid = torch.ones(batch_size, 1)"},  # not the number of rows of a batch
        {
            "definitions": "def labels(batch_size):\n    return torch.ones(batch_size, 1)",
            "batch_end": "real = labels(len(x))",
        },
    ],
)
def test_other_numbers_stay(slots: dict[str, str]) -> None:
    assert converted(script(**SIZED, **slots)) == lifted(**SIZED, **slots)


def test_whole_batches_for_every_process_keep_their_size() -> None:
    end = "real = torch.ones(batch_size, 1)"
    after = lifted(
        **SIZED, batch_end=end, accelerate="from accelift import Accelerator", device="accelerator = Accelerator()"
    )
    assert converted(script(**SIZED, batch_end=end), batch="per-process") == after


# ---- random splits

TORCH = {"from_imports": "from torch.utils.data import random_split"}
DATA = "data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)\n"
SKLEARN = {"imports": "import numpy as np\nfrom sklearn.model_selection import train_test_split"}


@pytest.mark.parametrize(
    "slots",
    [
        {**TORCH, "data": DATA + "data, rest = random_split(data, [48, 16])"},
        {"data": DATA + "data, rest = torch.utils.data.random_split(data, [48, 16])"},
        {**SKLEARN, "data": DATA + "keep, rest = train_test_split(np.arange(64))"},
        {**SKLEARN, "data": DATA + "keep, rest = train_test_split(np.arange(64), test_size=0.2, shuffle=True)"},
    ],
)
def test_a_split_without_a_seed_is_reported(slots: dict[str, str]) -> None:
    text = script(**slots)
    assert converted(text) == lifted(**slots)
    assert findings(text) == ["DATA-SPLIT-UNSEEDED"]


@pytest.mark.parametrize(
    "slots",
    [
        {**TORCH, "data": f"torch.manual_seed(0)\n{DATA}data, rest = random_split(data, [48, 16])"},
        {
            **TORCH,
            "data": DATA + "data, rest = random_split(data, [48, 16], generator=torch.Generator().manual_seed(1))",
        },
        {**TORCH, "data": DATA + "data, rest = random_split(data, [48, 16], torch.Generator().manual_seed(1))"},
        {
            **TORCH,
            "definitions": "def set_seed(seed):\n    torch.manual_seed(seed)",
            "setup": "set_seed(3)",
            "data": DATA + "data, rest = random_split(data, [48, 16])",
        },
        {**SKLEARN, "data": DATA + "keep, rest = train_test_split(np.arange(64), random_state=1)"},
        {**SKLEARN, "data": DATA + "keep, rest = train_test_split(np.arange(64), shuffle=False)"},
        {**SKLEARN, "data": f"np.random.seed(0)\n{DATA}keep, rest = train_test_split(np.arange(64))"},
        {
            "definitions": "def random_split(data, sizes):\n    return data, data",
            "data": DATA + "data, rest = random_split(data, [48, 16])",
        },
        {"data": DATA + "data, rest = data, torch.utils.data.Subset(data, range(16))"},
    ],
)
def test_a_split_that_every_process_makes_alike_is_not(slots: dict[str, str]) -> None:
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == []


RANDOM = "data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))"
APART = "x = torch.randn(64, 8)\ny = (x[:, 0] > 0).long()\ndata = TensorDataset(x, y)"


@pytest.mark.parametrize("data", [RANDOM, APART])
@pytest.mark.parametrize("seed", ["", "torch.manual_seed(0)"])
def test_made_up_data_needs_a_seed(data: str, seed: str) -> None:
    assert converted(script(setup=seed, data=data)) == lifted(setup=seed, data=data)
    assert findings(script(setup=seed, data=data)) == ([] if seed else ["DATA-UNSEEDED"])


DRAWN = "import random\nimport numpy as np\nfrom sklearn.datasets import make_regression\n"
TENSORS = "data = TensorDataset(torch.tensor(x), torch.arange(64) % 3)"
OWN_GENERATOR = "generator = np.random.default_rng({})\nx = generator.normal(size=(64, 8))"


@pytest.mark.parametrize(
    ("drawn", "seed"),
    [
        ("x = np.random.random((64, 8))", "np.random.seed(0)"),
        ("x = np.random.uniform(-1, 1, size=(64, 8))", "np.random.seed(0)"),
        ("x = torch.empty(64, 8).uniform_(-1, 1)", "torch.manual_seed(0)"),
        ("x = torch.bernoulli(torch.full((64, 8), 0.5))", "torch.manual_seed(0)"),
        ("x = [[random.gauss(0, 1) for _ in range(8)] for _ in range(64)]", "random.seed(0)"),
        ("x = []\nfor _ in range(64):\n    x.append(np.random.standard_normal(8))", "np.random.seed(0)"),
        ("x, _ = make_regression(64, 8)", "np.random.seed(0)"),
    ],
)
def test_whatever_draws_made_up_data_needs_a_seed(drawn: str, seed: str) -> None:
    slots = {"imports": DRAWN, "data": f"{drawn}\n{TENSORS}"}
    assert findings(script(**slots)) == ["DATA-UNSEEDED"]
    assert findings(script(**slots, setup=seed)) == []


def test_generators_of_a_script_s_own_need_one() -> None:
    for seed, expected in (("", ["DATA-UNSEEDED"]), ("7", [])):
        text = script(imports=DRAWN, data=f"{OWN_GENERATOR.format(seed)}\n{TENSORS}")
        assert findings(text) == expected
    told = f"x, _ = make_regression(64, 8, random_state=3)\n{TENSORS}"
    assert findings(script(imports=DRAWN, data=told)) == []


@pytest.mark.parametrize("start", ["torch.randn(3)", "np.random.random(3)", "torch.empty(3).normal_()"])
def test_random_numbers_that_are_no_data_need_none(start: str) -> None:
    assert findings(script(imports=DRAWN, before=f"start = {start}")) == []


SAMPLES = """\
class Samples(torch.utils.data.Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], i % 3


def pick(x):
    index = np.arange(len(x))
    {}
    return x[index[:32]]


def make(x):
    return Samples(pick(x))
"""
FLOW = {"imports": "import numpy as np", "data": "data = make(torch.arange(512.0).view(64, 8))"}


@pytest.mark.parametrize(
    ("setup", "line", "codes"),
    [
        ("", "np.random.shuffle(index)", ["DATA-SAMPLER-RNG"]),
        ("np.random.seed(1)", "np.random.shuffle(index)", []),
        ("", "print(np.random.permutation(3))", []),
        ("", "x = x + torch.randn(64, 8)", ["DATA-UNSEEDED"]),
        ("torch.manual_seed(0)", "x = x + torch.randn(64, 8)", []),
    ],
)
def test_chance_that_reaches_the_data_through_functions(setup: str, line: str, codes: list[str]) -> None:
    text = script(setup=setup, definitions=SAMPLES.format(line), **FLOW)
    assert [code for code in findings(text) if code.startswith("DATA")] == codes


@pytest.mark.parametrize(
    ("made", "share"),
    [
        ("torch.tensor([0] * batch_size)", "torch.tensor([0] * (batch_size // accelerator.num_processes))"),
        ("torch.tensor(batch_size * [0, 1])", "torch.tensor((batch_size // accelerator.num_processes) * [0, 1])"),
        ("torch.tensor(batch_size)", "torch.tensor(batch_size)"),  # the number itself
        ("torch.tensor([batch_size])", "torch.tensor([batch_size])"),
    ],
)
def test_lists_that_are_repeated_for_each_sample(made: str, share: str) -> None:
    slots = {"setup": "batch_size = 16", "loader": "loader = DataLoader(data, batch_size=batch_size, shuffle=True)"}
    assert f"flags = {share}" in converted(script(**slots, batch_end=f"flags = {made}"))


PERMUTED = "def permuted(x):\n    {}return x[order]"
VISION = "import numpy as np\nfrom torchvision import datasets, transforms"
BY_ORDER = 'data = datasets.MNIST("d", transform=transforms.Compose([transforms.Lambda(permuted)]))'
SHUFFLED = "data = TensorDataset(torch.arange(512.0).view(64, 8)[order], (torch.arange(64) % 3)[order])"


@pytest.mark.parametrize(
    ("setup", "drawn", "data", "codes"),
    [
        ("order = np.arange(8)\nnp.random.shuffle(order)", "", BY_ORDER, ["DATA-UNSEEDED"]),
        ("order = torch.randperm(8)", "", BY_ORDER, ["DATA-UNSEEDED"]),
        ("np.random.seed(1)\norder = np.random.permutation(8)", "", BY_ORDER, []),
        ("order = 0", "order = np.random.permutation(8)\n    ", BY_ORDER, []),  # anew for each sample
        ("order = torch.randperm(64)", "", SHUFFLED, ["DATA-UNSEEDED"]),
        ("torch.manual_seed(0)\norder = torch.randperm(64)", "", SHUFFLED, []),
        ("order = torch.randperm(64)\nshown = order[:3]", "", 'data = datasets.MNIST("d")', []),
    ],
)
def test_orders_that_data_sets_are_given(setup: str, drawn: str, data: str, codes: list[str]) -> None:
    text = script(imports=VISION, setup=setup, definitions=PERMUTED.format(drawn), data=data)
    assert [code for code in findings(text) if code.startswith("DATA")] == codes


def test_data_drawn_in_the_call_that_makes_a_data_set_of_the_script_s_own() -> None:
    slots = {"definitions": SAMPLES.format("pass"), "imports": "import numpy as np"}
    text = script(**slots, data="data = Samples(torch.randn(64, 8))")
    assert findings(text) == ["DATA-UNSEEDED"]


@pytest.mark.parametrize(("rows", "expected"), [("16, 3", ["BATCH-LITERAL"]), ("3, 16", []), ("15, 3", [])])
def test_a_batch_size_written_out_is_reported(rows: str, expected: list[str]) -> None:
    """DataLoader(..., batch_size=16), and 16 rows in the loop."""
    assert findings(script(batch_end=f"labels = torch.ones({rows})")) == expected


def test_rows_made_before_the_loop_are_those_of_the_share_where_they_meet_the_batch() -> None:
    made, used = "real = torch.ones({}, 1)", "loss = loss + F.mse_loss(model(x), real)"
    before = script(**SIZED, before=made.format("batch_size"), batch_end=used)
    after = converted(before)
    assert made.format(SHARE) in after


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("noise = torch.randn(batch_size, 8)", "shown = model(noise)"),  # always the same, to look at
        ("noise = torch.randn(batch_size, 8)", "shown = model(x + noise)"),  # what is drawn next would change
        ("grid = torch.zeros(batch_size, 8)", "shown = model(grid)"),
    ],
)
def test_rows_made_before_the_loop_stay_where_they_do_not(made: str, used: str) -> None:
    before = script(**SIZED, before=made, batch_end=used)
    assert made in converted(before)
    assert ("BATCH-DRAWN" in findings(before)) == ("x +" in used)


GRAPHS = {
    "imports": "from torch_geometric.datasets import TUDataset\nfrom torch_geometric.loader import DataLoader as Many",
    "data": "graphs = TUDataset('data', name='MUTAG')",
    "loader": "loader = Many(graphs, batch_size=16, shuffle=True)",
    "loop": "for g in loader:",
    "move": "",
    "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model(g.x), g.y)",
}


@pytest.mark.parametrize("order", ["graphs = graphs.shuffle()", "graphs = graphs[torch.randperm(len(graphs))]"])
@pytest.mark.parametrize("seed", ["", "torch.manual_seed(0)\n"])
def test_graphs_in_another_order(order: str, seed: str) -> None:
    text = script(**{**GRAPHS, "data": f"{seed}{GRAPHS['data']}\n{order}"})
    assert ("DATA-SAMPLER-RNG" in findings(text)) == (not seed)
    plain = script(**{**GRAPHS, "data": f"{seed}{GRAPHS['data']}\ngraphs = graphs[:9]"})
    assert "DATA-SAMPLER-RNG" not in findings(plain)


# ---- models that are told the batch size


TOLD = """\
class Told(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.hidden = None
        self.seen = []

    def init_hidden(self, rows):
        return torch.zeros(rows, 3)

    def reset(self, rows):
        self.hidden = self.init_hidden(rows)

    def again(self, rows):
        made = torch.zeros(rows, 3)
        self.hidden = made

    def begin(self, width, rows=4):
        self.reset(rows)

    def buffer(self, rows):
        self.register_buffer("kept", torch.zeros(rows, 3))

    def sample(self, rows):
        self.calls = 3
        return self.layer(torch.zeros(rows, 8))

    def forward(self, x):
        return self.layer(x)"""
NAMED = {
    "setup": "batch_size, width = 16, 16",
    "loader": "loader = DataLoader(data, batch_size=batch_size, shuffle=True)",
    "definitions": TOLD,
    "model": "model = Told().to(device)",
}
ARGUMENTS = {
    "imports": "import argparse",
    "setup": "parser = argparse.ArgumentParser()\nparser.add_argument('--batch-size', type=int, default=16)\n"
    "parser.add_argument('--width', type=int, default=16)\nargs = parser.parse_args()",
    "loader": "loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)",
}
EVALUATION = """\
model.eval()
{told}
with torch.no_grad():
    for x, y in other:
        print(model(x.to(device)).argmax(1))"""


@pytest.mark.parametrize(
    "line",
    [
        "model.reset({})",
        "model.reset(rows={})",
        "model.again({})",
        "model.begin(3, {})",
        "model.buffer({})",
        "model.hidden = model.init_hidden({})",
        "rows = {}\nmodel.reset(rows)",
    ],
)
@pytest.mark.parametrize("place", ["before", "epoch"])
def test_a_model_that_is_told_the_batch_size(line: str, place: str) -> None:
    for slots, size, other in (
        (NAMED, "batch_size", "width"),
        ({**NAMED, **ARGUMENTS}, "args.batch_size", "args.width"),
    ):
        assert findings(script(**slots, **{place: line.format(size)})) == ["BATCH-MODEL"]
        assert findings(script(**slots, **{place: line.format(other)})) == []


@pytest.mark.parametrize(
    "line",
    [
        "print(model.sample({}).sum().item())",
        "pictures = model.sample({})",
        "model.seen.append(3)",
        "model.epoch = {}",
        "print({})",
        "model.begin({})",
        "Told().reset({})",
        "data.reset = {}",
    ],
)
def test_what_keeps_no_batch_size(line: str) -> None:
    assert "BATCH-MODEL" not in findings(script(**NAMED, epoch=line.format("batch_size")))


def test_in_the_loop_it_is_told_its_share() -> None:
    before, after = "model.reset(batch_size)", "model.reset(batch_size // accelerator.num_processes)"
    text = script(**{**NAMED, "forward": f"optimizer.zero_grad()\n{before}\nloss = F.cross_entropy(model(x), y)"})
    assert f"accelerator.unwrap_model(model){after.removeprefix('model')}" in converted(text)
    assert findings(text) == []


@pytest.mark.parametrize(("size", "codes"), [("batch_size", ["BATCH-MODEL"]), ("width", [])])
def test_before_an_evaluation(size: str, codes: list[str]) -> None:
    told = EVALUATION.format(told=f"model.reset({size})")
    slots = {**NAMED, "loader": f"{NAMED['loader']}\nother = DataLoader(data, batch_size=batch_size)"}
    assert [code for code in findings(script(**slots, epoch_end=told)) if code == "BATCH-MODEL"] == codes


BOTH = "optimizer.zero_grad()\nboth = torch.cat([model(x), model(x * 2)])\n"
TWICE = f"2 * ({SHARE})"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mask = torch.ones(2 * batch_size, 3)", f"mask = torch.ones({TWICE}, 3)"),
        ("mask = torch.eye(2 * batch_size)", f"mask = torch.eye({TWICE})"),
        ("mask = torch.ones((2 * batch_size, 3))", f"mask = torch.ones(({TWICE}, 3))"),
        ("views = 2\nmask = torch.ones(views * batch_size, 3)", f"views = 2\nmask = torch.ones(views * ({SHARE}), 3)"),
        (
            "wide = both.size(1)\nflat = both.view(2 * batch_size * wide)",
            f"wide = both.size(1)\nflat = both.view({TWICE} * wide)",
        ),
        ("places = torch.arange(0, batch_size * 2, 2)", f"places = torch.arange(0, ({SHARE}) * 2, 2)"),
        ("half = torch.ones(batch_size // 2)", f"half = torch.ones(({SHARE}) // 2)"),
        (
            "rows = 2 * batch_size\nmask = torch.ones(rows, 3)",
            "rows = 2 * batch_size\nmask = torch.ones(rows // accelerator.num_processes, 3)",
        ),
        (
            "rows = batch_size\nmask = torch.ones(rows, 3)",
            "rows = batch_size\nmask = torch.ones(rows // accelerator.num_processes, 3)",
        ),
        ("order = torch.randperm(batch_size)", f"order = torch.randperm({SHARE})"),
        ("first = both[:batch_size]", f"first = both[:({SHARE})]"),
        ("second = both[batch_size:, 0]", f"second = both[({SHARE}):, 0]"),
        ("first, second = both.split(batch_size)", f"first, second = both.split({SHARE})"),
        ("first, second = torch.split(both, batch_size, 0)", f"first, second = torch.split(both, {SHARE}, 0)"),
        ("missing = batch_size - len(x)", f"missing = ({SHARE}) - len(x)"),
        ("wide = x.numel() // batch_size", f"wide = x.numel() // ({SHARE})"),
        ("fake = torch.full((batch_size,), batch_size)", f"fake = torch.full(({SHARE},), batch_size)"),
    ],
)
def test_numbers_made_of_the_batch_size_are_those_of_the_share(before: str, after: str) -> None:
    output = converted(script(**SIZED, forward=f"{BOTH}{before}\nloss = F.cross_entropy(model(x), y)"))
    assert output == lifted(**SIZED, forward=f"{BOTH}{after}\nloss = F.cross_entropy(model(x), y)")


@pytest.mark.parametrize(
    "kept",
    [
        "share = len(x) / batch_size",  # its part of the batch: parts add up
        "places = range(epoch * batch_size, (epoch + 1) * batch_size)",
        "places = torch.arange(epoch * batch_size)",
        "everything = torch.ones(len(loader) * batch_size)",
        "known = torch.ones(64, 3)\nfirst = known[:batch_size]",
        "columns = both.split(batch_size, 1)",
        "batch_size = len(x)\nmask = torch.ones(2 * batch_size, 3)",
        "rows = 2 * len(x)\nmask = torch.ones(rows, 3)",
        "other = 32\nmask = torch.ones(2 * other, 3)",
        "seen = epoch * len(loader) * batch_size",
    ],
)
def test_numbers_made_of_it_that_mean_something_else_stay(kept: str) -> None:
    slots = {**SIZED, "forward": f"{BOTH}{kept}\nloss = F.cross_entropy(model(x), y)"}
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize("scaled", ["/ batch_size", "* (1 / batch_size)", "/ (2 * batch_size)"])
def test_a_sum_divided_by_the_batch_size_stays_and_is_summed(scaled: str) -> None:
    slots = {
        **SIZED,
        "forward": f"optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, reduction='sum') {scaled}",
    }
    assert converted(script(**slots)) == lifted(**slots, backward='accelerator.backward(loss, reduction="sum")')


def test_what_means_the_whole_batch_stays() -> None:
    slots = {
        **SIZED,
        "optimizer": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * batch_size / 256)",
        "before": "steps = len(data) // batch_size",
        "batch_end": "reached = epoch * steps + 2 * batch_size",
    }
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize(
    ("mask", "divisor", "handed", "codes"),
    [
        ("torch.ones(2 * size, 1)", "2 * size", "batch_size", ["BATCH-MIXED"]),
        ("torch.ones(twice, 1)", "twice", "batch_size", ["BATCH-MIXED"]),
        ("torch.ones(len(a) * 2, 1)", "2 * size", "batch_size", []),
        ("torch.ones(twice, 1)", "len(a)", SHARE, []),
    ],
)
def test_a_function_that_is_handed_the_batch_size_for_rows_and_for_more(
    mask: str, divisor: str, handed: str, codes: list[str]
) -> None:
    distance = (
        f"def distance(a, b, size):\n    twice = 2 * size\n    mask = {mask}\n"
        f"    return (torch.cat([a, b]) * mask).pow(2).sum() / ({divisor})"
    )
    text = script(
        **SIZED,
        definitions=distance,
        forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)\nextra = distance(x, 2 * x, batch_size)",
    )
    assert [code for code in findings(text) if code.startswith("BATCH")] == codes
    assert f"distance(x, 2 * x, {handed})" in converted(text)


def test_a_function_that_is_handed_it_for_rows_alone() -> None:
    masked = "def masked(a, size):\n    return a * torch.ones(size, 1)"
    forward = "optimizer.zero_grad()\nrows = masked({})\nloss = F.cross_entropy(rows, y)"
    before = script(**SIZED, definitions=masked, forward=forward.format("model(x), batch_size"))
    after = lifted(**SIZED, definitions=masked, forward=forward.format(f"model(x), {SHARE}"))
    assert converted(before) == after


CRITERION = """\
class Criterion{base}:
    def __init__(self, size):
        {made}
        self.size = size

    def {call}(self, rows):
        {used}
        return (rows * mask).pow(2).mean()
"""


@pytest.mark.parametrize(
    ("made", "used", "codes"),
    [
        ("self.mask = torch.ones(size, 1)", "mask = self.mask", ["BATCH-MODEL"]),
        ("pass", "mask = torch.ones(self.size, 1)", ["BATCH-MODEL"]),
        ("twice = 2 * size\n        self.mask = torch.ones(twice, 1)[:8]", "mask = self.mask", ["BATCH-MODEL"]),
        ("pass", "mask = torch.ones(len(rows), 1) / self.size", []),
        ("pass", "mask = torch.ones(1, 1)", []),
    ],
)
@pytest.mark.parametrize("module", [True, False])
def test_a_loss_that_is_made_for_whole_batches(made: str, used: str, codes: list[str], module: bool) -> None:
    base, call = ("(nn.Module)", "forward") if module else ("", "__call__")
    made = f"super().__init__()\n        {made}" if module else made
    text = script(
        **SIZED,
        definitions=CRITERION.format(base=base, made=made, call=call, used=used),
        before="criterion = Criterion(batch_size)",
        forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)\nextra = criterion(y.float())",
    )
    assert [code for code in findings(text) if code.startswith("BATCH")] == codes


@pytest.mark.parametrize(
    ("before", "step", "codes"),
    [
        ("bank = torch.zeros(4 * batch_size, 3)", "bank = torch.cat([bank[batch_size:], rows])", ["BATCH-KEPT"]),
        (
            "bank = torch.zeros(3, 4 * batch_size)",
            "bank[:, start : start + batch_size] = rows.t()",
            ["BATCH-KEPT"],
        ),
        ("bank = torch.zeros(64, 3)", "bank = torch.cat([bank[len(rows) :], rows])", []),
        ("bank = torch.zeros(64, 3)", "bank[start : start + len(rows)] = rows", []),
        ("bank = torch.zeros(64, 3)", "taken = bank[batch_size:]", []),
        ("bank = torch.zeros(64, 3)", "bank = torch.cat([bank[batch_size:], torch.ones(1, 3)])", []),
    ],
)
def test_what_is_filled_batch_by_batch(before: str, step: str, codes: list[str]) -> None:
    text = script(**SIZED, before=f"start = 0\n{before}", batch_end=f"rows = model(x).detach()\n{step}")
    assert [code for code in findings(text) if code == "BATCH-KEPT"] == codes
    assert before in converted(text)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("bank[i * 16 : (i + 1) * 16] = rows", True),
        ("bank = torch.cat([bank[16:], rows])", True),
        ("bank[i * 8 : (i + 1) * 8] = rows[:8]", False),
        ("bank[i, :16] = rows.flatten()[:16]", False),  # of the numbers of a row
        ("rows[:, 0:16] = 0", False),
    ],
)
def test_what_is_filled_by_a_batch_size_that_is_written_out(step: str, told: bool) -> None:
    loop = {"loop": "for i, (x, y) in enumerate(loader):", "batch_end": f"rows = model(x).detach()\n{step}"}
    assert ("BATCH-KEPT" in findings(script(before="bank = torch.zeros(64, 3)", **loop))) == told


def test_what_is_made_and_shaped_for_a_batch_is_for_a_share() -> None:
    made = "mask = torch.ones(3 * batch_size).view(batch_size, 3)"
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x) * mask, y)"
    output = "".join(converted(script(**SIZED, before=made, forward=forward)).split())
    assert (
        "torch.ones(3*(batch_size//accelerator.num_processes)).view(batch_size//accelerator.num_processes,3)" in output
    )


@pytest.mark.parametrize(
    ("default", "call", "shaped", "codes"),
    [
        ("batch_size", "rows(x)", "x.view(size, -1)", ["BATCH-MIXED"]),
        ("batch_size", "rows(x)", "x + torch.zeros(size, 1)", ["BATCH-MIXED"]),
        ("batch_size", "rows(x, len(x))", "x.view(size, -1)", []),
        ("batch_size", "rows(x, size=len(x))", "x.view(size, -1)", []),
        ("batch_size", "rows(x)", "x / size", []),
        ("width", "rows(x)", "x.view(-1, size)", []),
    ],
)
def test_a_function_with_the_batch_size_by_default(default: str, call: str, shaped: str, codes: list[str]) -> None:
    slots = {**SIZED, "setup": f"batch_size = 16\nwidth = 8\ndef rows(x, size={default}):\n    return {shaped}"}
    slots["forward"] = f"optimizer.zero_grad()\nloss = F.cross_entropy(model({call}), y)"
    assert [code for code in findings(script(**slots)) if code.startswith("BATCH")] == codes
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize(
    ("made", "used", "codes"),
    [
        ("Shaped()", "x.view(self.size, -1)", ["BATCH-MODEL"]),
        ("Shaped(size=-1)", "x.view(self.size, 8)", []),
        ("Shaped()", "x / self.size", []),
    ],
)
def test_a_model_with_the_batch_size_by_default(made: str, used: str, codes: list[str]) -> None:
    network = (
        "class Shaped(nn.Module):\n    def __init__(self, size=batch_size):\n        super().__init__()\n"
        f"        self.size = size\n        self.layer = nn.Linear(8, 3)\n\n    def forward(self, x):\n"
        f"        return self.layer({used})"
    )
    text = script(**SIZED, data=f"{DATA}{network}", model=f"model = {made}.to(device)")
    assert [code for code in findings(text) if code.startswith("BATCH")] == codes


SMALL = "(batch_size // accelerator.num_processes)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.arange(2 * batch_size) % batch_size", f"torch.arange(2 * {SMALL}) % {SMALL}"),
        ("torch.arange(2 * batch_size, device=device) % batch_size", f"torch.arange(2*{SMALL},device=device)%{SMALL}"),
        (
            "torch.cat([torch.arange(batch_size) + batch_size, torch.arange(batch_size)])",
            f"torch.cat([torch.arange({SHARE}) + {SMALL}, torch.arange({SHARE})])",
        ),
        (
            "torch.tensor([(i + batch_size) % (2 * batch_size) for i in range(2 * batch_size)])",
            f"torch.tensor([(i + {SMALL}) % (2 * {SMALL}) for i in range(2 * {SMALL})])",
        ),
        ("torch.arange(batch_size) + width", f"torch.arange({SHARE}) + width"),
        ("torch.arange(x.size(0)) + batch_size", "torch.arange(x.size(0)) + batch_size"),
        ("torch.arange(epoch * batch_size, 4 * batch_size)", "torch.arange(epoch * batch_size, 4 * batch_size)"),
    ],
)
def test_places_in_a_batch_are_those_in_a_share(before: str, after: str) -> None:
    for slot in ("before", "forward") if "x.size" not in before else ("forward",):
        slots = {"before": "width = 3\n", "forward": ""}
        slots[slot] += "places = {}\n"
        slots["forward"] += "loss = F.cross_entropy(model(torch.cat([x, x])), torch.cat([y, y])[places])"
        output = converted(script(**SIZED, **{k: v.replace("{}", before) for k, v in slots.items()}))
        joined = "".join(output.split()).replace(",])", "])").replace(",)", ")")
        assert "".join(f"places = {after}".split()) in joined


def test_places_divided_by_the_batch_size_are_left_and_reported() -> None:
    weighted = "weights = torch.arange(batch_size) / {}\nloss = (weights * model(x).sum(1)).mean()"
    text = script(**SIZED, forward=weighted.format("batch_size"))
    assert "BATCH-MIXED" in findings(text)
    assert weighted.format("batch_size") in textwrap.dedent(converted(text).replace("        ", ""))
    other = script(**SIZED, forward=weighted.format("9"))
    assert "BATCH-MIXED" not in findings(other)
    assert f"torch.arange({SHARE}) / 9" in converted(other)


ROW = "F.cross_entropy(out[i : i + 1], y[i : i + 1])"


@pytest.mark.parametrize(
    "loss",
    [
        f"loss = sum({ROW} for i in range(SIZE)) / SIZE",
        f"loss = torch.stack([{ROW} for i in range(SIZE)]).sum() / SIZE",
        f"loss = 0.0\nfor i in range(SIZE):\n    loss += {ROW}\nloss /= SIZE",
        f"loss = 0.0\nfor i in range(SIZE):\n    loss = loss + {ROW}\nloss = loss / SIZE",
        f"loss = 0.0\nfor i in range(SIZE):\n    loss += {ROW} / SIZE",
        f"parts = []\nfor i in range(SIZE):\n    parts.append({ROW})\nloss = sum(parts) / SIZE",
        f"loss = torch.stack([{ROW} for i in range(SIZE)]).mean() / batch_size",
        f"loss = 0.0\nfor i in range(SIZE):\n    loss += {ROW}\nloss = loss / len(x)",
        f"loss = 0.0\nfor i in range(SIZE):\n    loss += {ROW}\nother = loss.item()\nshown = other / batch_size",
        f"loss = sum({ROW} for i in range(len(x))) / batch_size",
    ],
)
def test_a_sum_over_the_rows_is_divided_by_as_many(loss: str) -> None:
    text = script(**SIZED, forward=f"optimizer.zero_grad()\nout = model(x)\n{loss.replace('SIZE', 'batch_size')}")
    written = "".join(converted(text).split()).replace("(batch_size//accelerator.num_processes)", "SHARE")
    wanted = "".join(f"out = model(x)\n{loss}\naccelerator.backward(loss)".split())
    assert wanted.replace("(SIZE)", "SHARE").replace("SIZE", "SHARE") in written.replace(
        "batch_size//accelerator.num_processes", "SHARE"
    ).replace(",)", ")")


SHAPED = """\
class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.width = width
        self.start = torch.zeros({made})

    def forward(self, x):
        return x.view({inner}, 8)


class Shaped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.block = Block()

    def forward(self, x):
        return self.layer(self.block(x).view({outer}, -1))

    def score(self, x):
        return self.layer(x)


def predicted(model, x):
    return model(x)"""


@pytest.mark.parametrize(
    ("inner", "outer", "call", "count"),
    [
        ("-1", "batch_size", "model(x)", 1),
        ("batch_size", "batch_size", "model(x)", 2),
        ("batch_size", "-1", "predicted(model, x)", 1),
        ("x.size(0)", "len(x)", "model(x)", 0),
        ("-1", "width", "model(x)", 0),
        ("-1", "x.size(0) * 1", "predicted(model, x)", 0),
    ],
)
def test_a_model_that_shapes_by_the_batch_size_itself_is_told(inner: str, outer: str, call: str, count: int) -> None:
    definitions = SHAPED.format(inner=inner, outer=outer, made="batch_size")  # what is made once is another matter
    text = script(
        setup="batch_size = 16\nwidth = 16",
        loader=SIZED["loader"],
        definitions=definitions,
        model="model = Shaped().to(device)",
        forward=f"optimizer.zero_grad()\nloss = F.cross_entropy({call}, y)",
    )
    assert findings(text).count("BATCH-MODEL") == count


def test_a_model_that_the_training_does_not_call_may_shape_as_it_likes() -> None:
    definitions = SHAPED.format(inner="batch_size", outer="batch_size", made="1")
    text = script(**SIZED, definitions=definitions, after="print(Shaped()(torch.zeros(16, 8)))")
    assert "BATCH-MODEL" not in findings(text)


STATEFUL = """\
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 3)

    def forward(self, x, h):
        return self.cell(x, h)

    def start(self, rows):
        return next(self.parameters()).new_zeros(rows, 3)"""


@pytest.mark.parametrize(
    ("made", "used", "codes"),
    [
        ("real = torch.ones(16, 3)", "loss = loss + F.mse_loss(model(x), real)", ["BATCH-LITERAL"]),
        ("state = other.start(16)", "state = other(x, state.detach())", ["BATCH-LITERAL"]),
        ("noise = torch.randn(16, 8)", "shown = model(x + noise)", ["BATCH-LITERAL"]),
        ("real = torch.ones(15, 3)", "loss = loss + F.mse_loss(model(x), real)", []),
        ("real = torch.ones(3, 16)", "loss = loss + F.mse_loss(model(x), real)", []),
        ("grid = torch.zeros(16, 8)", "shown = model(grid)", []),
        ("state = torch.zeros(1, 16, 3)", "out, state = other(x, state.detach())", ["BATCH-LITERAL"]),  # of layers
        ("state = torch.zeros((1, 16, 3))", "out, state = other(x, state.detach())", ["BATCH-LITERAL"]),
        ("state = torch.zeros(1, 3, 16)", "out, state = other(x, state.detach())", []),
        ("grid = torch.zeros(1, 16, 8)", "shown = model(grid)", []),
    ],
)
def test_a_batch_size_written_out_before_the_loop_is_reported(made: str, used: str, codes: list[str]) -> None:
    text = script(definitions=STATEFUL, before=f"other = Recurrent()\n{made}", batch_end=used)
    assert [code for code in findings(text) if code.startswith("BATCH")] == codes
    divided = converted(text, unsafe=True).count("16 // accelerator.num_processes")
    assert divided == (1 if codes and "randn" not in made else 0)


@pytest.mark.parametrize(
    ("made", "divided", "codes"),
    [
        ("row = torch.linspace(0, 1, batch_size * 8).view(batch_size, 8)", 0, ["BATCH-DRAWN"]),
        ("row = torch.linspace(0, 1, batch_size).unsqueeze(1)", 0, ["BATCH-DRAWN"]),
        ("row = torch.randn(batch_size * 8).view(batch_size, 8)", 0, ["BATCH-DRAWN"]),
        ("row = table.view(batch_size, 8)", 0, ["BATCH-DRAWN"]),
        ("row = torch.ones(batch_size * 8).view(batch_size, 8)", 2, []),
        ("row = torch.ones(batch_size, 2, 4).reshape(batch_size, 8)", 2, []),
        ("row = torch.ones(1, 8).expand(batch_size, 8)", 1, []),
    ],
)
def test_rows_of_which_a_share_would_be_others_are_left_whole(made: str, divided: int, codes: list[str]) -> None:
    slots = {"setup": "batch_size = 16\ntable = torch.ones(128)", "loader": SIZED["loader"]}
    text = script(**slots, before=made, batch_end="shown = model(x + row)")
    assert converted(text).count("// accelerator.num_processes") == divided
    assert [code for code in findings(text) if code.startswith("BATCH")] == codes


@pytest.mark.parametrize(
    ("made", "divided", "codes"),
    [
        ("torch.linspace(0, 1, batch_size).unsqueeze(1)", 0, ["BATCH-DRAWN"]),
        ("torch.linspace(0, 1, batch_size * 8).view(batch_size, 8)", 0, ["BATCH-DRAWN"]),
        ("torch.ones(batch_size, 8)", 1, []),
    ],
)
def test_numbers_spread_over_rows_in_the_loop_are_left_whole(made: str, divided: int, codes: list[str]) -> None:
    text = script(**SIZED, batch_end=f"shown = model(x + {made})")
    assert converted(text).count("// accelerator.num_processes") == divided
    assert [code for code in findings(text) if code.startswith("BATCH")] == codes


@pytest.mark.parametrize(
    ("made", "divided", "codes"),
    [
        ("torch.FloatTensor(batch_size, 1).uniform_()", 1, []),
        ("torch.Tensor(batch_size, 1).fill_(1.0)", 1, []),
        ("torch.reshape(torch.ones_like(x), (batch_size, 8))", 1, []),
        ("torch.FloatTensor([batch_size, 1]).sum()", 0, []),
        ("torch.tensor(batch_size)", 0, []),
    ],
)
def test_rows_of_types_of_tensors(made: str, divided: int, codes: list[str]) -> None:
    text = script(**SIZED, batch_end=f"shown = model(x * {made})")
    assert converted(text).count("// accelerator.num_processes") == divided
    assert [code for code in findings(text) if code.startswith("BATCH")] == codes


@pytest.mark.parametrize(
    ("made", "divided", "codes"),
    [
        ("torch.empty(batch_size, 8).normal_()", 0, ["BATCH-DRAWN"]),
        ("torch.FloatTensor(batch_size, 8).uniform_(-1, 1).to(device)", 0, ["BATCH-DRAWN"]),
        ("torch.empty(batch_size, 8).fill_(0.5)", 1, []),
        ("torch.Tensor(batch_size, 8).zero_()", 1, []),
    ],
)
def test_rows_that_are_filled_at_once(made: str, divided: int, codes: list[str]) -> None:
    text = script(**SIZED, before=f"row = {made}", batch_end="shown = model(x + row)")
    assert converted(text).count("// accelerator.num_processes") == divided
    assert [code for code in findings(text) if code.startswith("BATCH")] == codes


MADE = """\
def make(n, device):
    return torch.ones(8).to(device).repeat(n, 1)


def measure(x):
    return x * x
"""


@pytest.mark.parametrize(
    ("before", "meant", "codes"),
    [
        ("style = make(size, device)", "style", ["BATCH-MADE"]),
        ("style = make(n=size, device=device)\nmeant = measure(style)", "meant", ["BATCH-MADE"]),
        ("style = make(size, device)\nmeant = [measure(s) for s in [style]]", "meant[0]", ["BATCH-MADE"]),
        ("style = torch.ones(8).repeat(size, 1)\nmeant = measure(style)", "meant", ["BATCH-MADE"]),
        ("style = make(size, device)\nprint(style.mean())", "x", []),  # only looked at
        ("style = make(1, device)", "style", []),
        ("style = make(size, device)", "style[: len(x)]", []),
        ("style = make(size, device)", "style[: len(x), :]", []),
        ("style = make(size, device)", "style[:, :8]", ["BATCH-MADE"]),
        ("style = make(size, device)\nstyle = style[:1]", "x", []),
        ("steps = len(data) // size", "x / steps", []),
    ],
)
def test_what_a_function_makes_for_a_whole_batch(before: str, meant: str, codes: list[str]) -> None:
    text = script(
        definitions=MADE,
        data="data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)\nsize = 16",
        loader="loader = DataLoader(data, batch_size=size, shuffle=True)",
        before=before,
        forward=f"optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y) + F.mse_loss(measure(x), {meant})",
    )
    assert [c for c in findings(text) if c.startswith("BATCH")] == codes


def test_what_is_made_for_a_share_is_not_reported() -> None:
    """The edit has seen to it."""
    text = script(
        definitions=MADE,
        data="data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)\nsize = 16",
        loader="loader = DataLoader(data, batch_size=size, shuffle=True)",
        before="style = torch.ones(8).repeat(size, 1)",
        forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y) + F.mse_loss(x, style)",
    )
    assert "style = torch.ones(8).repeat(size // accelerator.num_processes, 1)" in converted(text)
    assert "BATCH-MADE" not in findings(text)


STATE = """\
class Stepping(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def begin(self, rows):
        return torch.zeros(rows, 8)

    def forward(self, x, state):
        state = self.layer(x) + state
        return state, state"""
CARRYING = {
    "definitions": STATE,
    "setup": "batch_size = 16",
    "loader": "loader = DataLoader(data, batch_size=batch_size)\nother = DataLoader(data, batch_size=batch_size)",
    "model": "model = Stepping().to(device)",
    "epoch": "state = model.begin(batch_size)",
    "forward": "state = state.detach()\noptimizer.zero_grad()\nout, state = model(x, state)\n"
    "loss = F.cross_entropy(out, y)",
}
EVALUATED = """\
{begun}
for x, y in other:
    {detached}
    out, start = model(x.to(device), start)
    print(F.cross_entropy(out, y.to(device)).item())
"""
NETWORK = "accelerator.unwrap_model(model)"


@pytest.mark.parametrize(
    ("begun", "detached", "after"),
    [
        ("start = model.begin(batch_size)", "start = start.detach()", f"start = {NETWORK}.begin(batch_size)"),
        ("start = torch.ones(batch_size, 8)", "start = start.detach()", "start = torch.ones(batch_size, 8)"),
        ("start = model.begin(batch_size)", "", f"start = {NETWORK}.begin({SHARE})"),  # of shares: results are gathered
        ("start = model.begin(batch_size)\nout = out + start", "start += 0", f"start = {NETWORK}.begin({SHARE})"),
    ],
)
def test_a_state_that_an_evaluation_within_training_begins_with(begun: str, detached: str, after: str) -> None:
    output = converted(script(**CARRYING, batch_end=EVALUATED.format(begun=begun, detached=detached)))
    assert "".join(after.split()) in "".join(output.split())


def test_what_is_made_when_training_is_done_has_no_part_in_its_loss() -> None:
    text = script(
        **SIZED,
        definitions=MADE,
        forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y) + F.mse_loss(measure(x), x)",
        after="style = make(batch_size, device)\nprint(measure(style))",
    )
    assert findings(text) == []


@pytest.mark.parametrize(
    ("data", "dealt", "seeded"),
    [
        (
            "order = torch.randperm(len(rows))\nparts = {'train': order[:32]}",
            "rows[parts['train']]",
            "torch.manual_seed(0)",
        ),
        ("parts = load()\nparts['train'] = torch.randperm(64)[:32]", "rows[parts['train']]", "torch.manual_seed(0)"),
        ("pairs = [(x, 0) for x in rows]\nrandom.shuffle(pairs)", "pairs", "random.seed(0)"),
        ("order = np.random.permutation(64)", "[(rows[i], 0) for i in order]", "np.random.seed(0)"),
        ("order = list(np.random.permutation(64))", "rows, sampler=order", "np.random.seed(0)"),
    ],
)
def test_what_a_loader_deals_in_an_order_without_a_seed(data: str, dealt: str, seeded: str) -> None:
    slots = {
        "imports": "import random\nimport numpy as np\nfrom elsewhere import load",
        "loader": f"loader = DataLoader({dealt}, batch_size=16)",
    }
    rows = "rows = torch.arange(512.0).view(64, 8)"
    assert "DATA-SAMPLER-RNG" in findings(script(data=f"{rows}\n{data}", **slots))
    assert "DATA-SAMPLER-RNG" not in findings(script(data=f"{rows}\n{seeded}\n{data}", **slots))


@pytest.mark.parametrize(
    "data",
    [
        "size = random.choice([8, 16])\nloader = DataLoader(data, batch_size=size)",
        "order = torch.randperm(64)\nshown = data[order[0]]\nloader = DataLoader(data, batch_size=16)",
        "parts = {'order': torch.randperm(64)}\nprint(parts)\nloader = DataLoader(data, batch_size=16)",
    ],
)
def test_what_is_drawn_for_something_else_than_what_is_dealt(data: str) -> None:
    assert "DATA-SAMPLER-RNG" not in findings(script(imports="import random", loader=data))


@pytest.mark.parametrize(
    ("made", "test", "told"),
    [
        ("z = torch.stack(list(x)).transpose(1, 0)", "len(z) < batch_size", True),
        ("z = torch.stack(list(x)).transpose(1, 0)", "z.size(0) != batch_size", True),
        ("z = torch.stack(list(x)).transpose(1, 0)", "batch_size > z.shape[0]", True),
        ("z = torch.stack(list(x)).transpose(1, 0)", "z.size(1) < batch_size", False),
        ("z = torch.stack(list(x)).transpose(1, 0)", "len(z) < 7", False),
        ("z = torch.ones(3)", "len(z) < batch_size", False),
        ("z = x", "len(z) < batch_size", False),  # rows for sure: divided
        ("z = x.t()", "len(z) < batch_size", False),  # none for sure
        ("z = list(range(3))", "len(z) < batch_size", False),
    ],
)
def test_a_batch_size_that_is_compared_with_what_may_be_rows(made: str, test: str, told: bool) -> None:
    text = script(**SIZED, batch_end=f"{made}\nif {test}:\n    last = 1")
    assert ("BATCH-MIXED" in findings(text)) is told
    assert (SHARE in converted(text)) is (made == "z = x")


# ---- a loop over batches inside one that trains, too

CRITIC = """\
def endless():
    while True:
        yield from loader


batches = endless()
critic = nn.Linear(8, 3).to(device)
stepped = torch.optim.SGD(critic.parameters(), lr=0.1)
for step in range(9):
    for _ in range(5):
        x, y = next(batches)
        stepped.zero_grad()
        critic({0}).mean().backward()
        stepped.step()
    optimizer.zero_grad()
    {1}
"""
NO_TRAINING = dict.fromkeys(("epochs", "loop", "move", "forward", "backward", "step"), "")
GENERATES = "loss = model(torch.randn({}, 8, device=device)).mean()\n    loss.backward()\n    optimizer.step()"


@pytest.mark.parametrize("rows", ["batch_size", "2 * batch_size"])
def test_noise_beside_a_loop_over_batches(rows: str) -> None:
    noise = f"torch.randn({rows}, 8, device=device)"
    output = converted(script(**SIZED, **NO_TRAINING, after=CRITIC.format(noise, GENERATES.format(rows))))
    assert output.count("batch_size // accelerator.num_processes") == 2
    assert "covers only" not in "".join(findings(script(**SIZED, **NO_TRAINING, after=CRITIC.format(noise, noise))))


@pytest.mark.parametrize("rows", ["x.size(0)", "len(x)", "8"])
def test_rows_of_a_batch_beside_a_loop_over_batches(rows: str) -> None:
    text = script(**SIZED, **NO_TRAINING, after=CRITIC.format("x.to(device)", GENERATES.format(rows)))
    assert "num_processes" not in converted(text)
    assert not {"METRIC-TRAIN", "BATCH-LITERAL"} & set(findings(text))


@pytest.mark.parametrize("beside", ["shown = torch.randn(batch_size, 8)", "torch.save(torch.ones(batch_size), 'a.pt')"])
def test_what_is_beside_a_loop_that_trains_alone(beside: str) -> None:
    text = script(**SIZED, **NO_TRAINING, after=CRITIC.format("x.to(device)", beside))
    assert "num_processes" not in converted(text)


def test_a_literal_beside_a_loop_over_batches_is_told_once() -> None:
    rows = "torch.randn(16, 8, device=device)"
    slots = {"loader": "loader = DataLoader(data, batch_size=16, shuffle=True)", **NO_TRAINING}
    assert findings(script(**slots, after=CRITIC.format(rows, GENERATES.format(16)))).count("BATCH-LITERAL") == 1


def test_an_argument_by_name_is_not_the_parameter_that_packs_others() -> None:
    """`Trainer(args=args)` of `__init__(self, *args, **kwargs)`."""
    trainer = """
class Trainer:
    def __init__(self, *args, **kwargs):
        self.args = kwargs["args"]

    def loss(self, out):
        return F.cross_entropy(out, torch.arange(self.args.batch_size).to(device) % 3)
"""
    text = script(
        imports="import argparse",
        definitions=trainer,
        setup="parser = argparse.ArgumentParser()\nparser.add_argument('--batch_size', type=int, default=16)\n"
        "args = parser.parse_args()",
        loader="loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)",
        before="trainer = Trainer(args=args)",
        forward="optimizer.zero_grad()\nloss = trainer.loss(model(x))",
    )
    assert "torch.arange(self.args.batch_size // accelerator.num_processes)" in "".join(converted(text).split("\n"))


@pytest.mark.parametrize("given", ["(features, labels)", "[features, labels]", "pair"])
@pytest.mark.parametrize("made", ["TensorDataset(*arrays)", "TensorDataset(arrays[0], arrays[1])"])
def test_made_up_data_goes_through_a_function_that_makes_the_loader(given: str, made: str) -> None:
    definitions = f"def load(arrays):\n    return DataLoader({made}, batch_size=16)"
    data = "features, labels = torch.randn(64, 8), torch.arange(64) % 3\npair = (features, labels)"
    slots = {"definitions": definitions, "data": data, "loader": f"loader = load({given})"}
    assert findings(script(**slots)) == ["DATA-UNSEEDED"]
    assert not findings(script(setup="torch.manual_seed(0)", **slots))


def test_what_is_lost_in_a_function_that_makes_the_loader_is_told_of_it() -> None:
    definitions = "def load(order):\n    return DataLoader(Other(data, order), batch_size=16)"
    slots = {"imports": "import random", "from_imports": "from other import Other", "definitions": definitions}
    loader = "order = list(range(64))\nrandom.shuffle(order)\nloader = load(order)"
    assert findings(script(loader=loader, **slots)) == ["DATA-SAMPLER-RNG"]


PRIOR = """\
class Prior:
    def __init__(self, size=1):
        self.rows = size

    def tell(self, size):
        self.rows = size

    def draw(self):
        return torch.randn(self.rows, 3)

    def scale(self):
        return 1 / self.rows"""


@pytest.mark.parametrize(
    ("made", "ask", "told"),
    [
        ("prior = Prior(size)", "prior.draw()", True),
        ("prior = Prior()\nprior.tell(size)", "prior.draw()", True),
        ("prior = Prior(size)", "drawn(prior)", True),
        ("prior = Prior(8)", "prior.draw()", False),
        ("prior = Prior(size)", "prior.scale()", False),  # which makes no rows
        ("prior = Prior(size)\nprint(prior.draw())", "1", False),
        ("prior = Prior(size)", "drawn(prior, len(x))", False),  # it is told each time
    ],
)
def test_objects_that_training_asks_for_rows_of_a_whole_batch(made: str, ask: str, told: bool) -> None:
    drawn = "def drawn(prior):\n    return prior.draw()"
    if "len(x)" in ask:
        drawn = "def drawn(prior, size):\n    prior.tell(size)\n    return prior.draw()"
    text = script(
        definitions=f"{PRIOR}\n\n\n{drawn}",
        loader="size = 16\nloader = DataLoader(data, batch_size=size, shuffle=True)",
        before=made,
        forward=f"optimizer.zero_grad()\nloss = (F.cross_entropy(model(x), y) - model(x) * {ask}).mean()",
    )
    assert ("BATCH-MODEL" in findings(text)) == told


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("x.size(0) != 16", 1),
        ("len(x) < rows", 1),
        ("len(x) < 2", 0),
        ("x.size(1) != 16", 0),
        ("epoch == 16", 0),
    ],
)
def test_rows_that_are_compared_with_the_number_that_the_batch_size_is(test: str, told: int) -> None:
    """No share has as many: every iteration would tell of it."""
    loss = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"
    text = script(before="rows = 16", forward=f"if {test}:\n    print('short')\n{loss}")
    assert findings(text).count("BATCH-LITERAL") == told


SUMMED = "accelerator.gather_for_metrics(torch.tensor({})).sum().item()"


@pytest.mark.parametrize(
    ("size", "test", "whole"),
    [
        ("16", "x.size(0) != 16", f"{SUMMED.format('x.size(0)')} != 16"),
        ("16", "len(x) < rows", f"{SUMMED.format('len(x)')} < rows"),
        ("rows", "x.shape[0] != rows", f"{SUMMED.format('x.shape[0]')} != rows"),
        ("rows", "rows > len(y)", "rows > len(accelerator.gather_for_metrics(y))"),
        ("rows", "len(y) != 16", "len(accelerator.gather_for_metrics(y)) != 16"),
        ("rows", "x.size(1) != rows", ""),
        ("rows", "x.size(0) < 9", ""),  # which any batch may have
        ("rows", "len(x) < rows and y[0] > 1", ""),
    ],
)
@pytest.mark.parametrize("drops", ["", ", drop_last=True"])
def test_batches_that_are_not_whole_are_left_out_by_all_processes(size: str, test: str, whole: str, drops: str) -> None:
    loss = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"
    text = script(
        loader=f"rows = 16\nloader = DataLoader(data, batch_size={size}{drops})",
        forward=f"if {test}:\n    continue\n{loss}",
    )
    assert not whole or (findings(text) == [] and f"if {whole}:" in converted(text))
    assert whole or "gather_for_metrics" not in converted(text)


def test_batches_are_left_out_by_the_size_of_a_share_where_some_may_not_ask() -> None:
    """Under another test, or by a function that the loop calls."""
    loss = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"
    for asks in ("if y[0] > 1:\n    if len(x) != rows:\n        continue", "if short(x):\n    continue"):
        text = script(
            definitions="rows = 16\n\n\ndef short(x):\n    return len(x) != rows",
            loader="loader = DataLoader(data, batch_size=rows)",
            forward=f"{asks}\n{loss}",
        )
        assert "COLL-RANKFLOW" in findings(text) and "gather_for_metrics" not in converted(text)
