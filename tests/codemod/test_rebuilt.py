"""Models that are given other layers after they were prepared."""

from __future__ import annotations

import pytest
from scripts import NO_BODY, convert, findings, script

NET = """\
class Grown(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.layers = nn.ModuleList([nn.Linear(3, 3)])
        self.heads = nn.ModuleDict()
        self.seen = []
        self.setup()

    def setup(self):
        self.norm = nn.LayerNorm(3)

    def expand(self, n):
        self.layer = nn.Linear(8, n)

    def grow(self):
        self.expand(3)

    def widen(self, n):
        self.layers.append(nn.Linear(3, n))

    def count(self, n):
        self.epoch = n
        self.seen.append(n)

    def forward(self, x):
        return self.norm(self.layers[0](self.layer(x)))


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = None

    def forward(self, x):
        if self.layer is None:
            self.layer = nn.Linear(8, 3)
        return self.layer(x)


def replace_head(net, n):
    net.layer = nn.Linear(8, n)
"""


def _script(**slots: str) -> str:
    return script(**{"definitions": NET, "model": "model = Grown().to(device)", **slots})


CHANGES = [
    "model.layer = nn.Linear(8, 3)",
    "model.layer = nn.Linear(8, 3).to(device)",
    "head = nn.Linear(8, 3)\nmodel.layer = head",
    "model.layers[0] = nn.Linear(3, 3)",
    "model.heads[str(epoch)] = nn.Linear(3, 3)",
    "model.layers.append(nn.Linear(3, 3))",
    "model.layers.extend([nn.Linear(3, 3)])",
    "model.heads.update({'a': nn.Linear(3, 3)})",
    "model.add_module('extra', nn.Linear(3, 3))",
    "model.register_parameter('scale', nn.Parameter(torch.ones(3)))",
    "model.scale = nn.Parameter(torch.ones(3))",
    "setattr(model, 'layer', nn.Linear(8, 3))",
    "model.expand(3)",
    "model.grow()",
    "model.widen(3)",
    "replace_head(model, 3)",
    "torch.nn.utils.weight_norm(model.layer)",
]


@pytest.mark.parametrize("change", CHANGES)
def test_layers_that_a_prepared_model_is_given(change: str) -> None:
    text = _script(epoch=change)
    assert findings(text).count("MODEL-CHANGED") == 1
    plan = convert(text).plan
    assert plan is not None
    (line,) = [f.line for f in plan.findings if f.code == "MODEL-CHANGED"]
    written = text.splitlines()[line - 1].strip()
    assert written == ("net.layer = nn.Linear(8, n)" if "replace" in change else change.splitlines()[-1])


@pytest.mark.parametrize("change", CHANGES)
def test_layers_that_it_is_given_before(change: str) -> None:
    made = f"epoch = 0\nmodel = Grown()\n{change}\nmodel.to(device)"
    assert "MODEL-CHANGED" not in findings(_script(model=made))


@pytest.mark.parametrize("change", CHANGES)
def test_layers_of_a_model_that_is_not_prepared(change: str) -> None:
    other = change.replace("model", "other")
    text = _script(before="torch.manual_seed(3)\nother = Grown()", epoch=other)
    assert "MODEL-CHANGED" not in findings(text)


@pytest.mark.parametrize(
    "change", ["model.layer = nn.Linear(8, 3)", "model.expand(3)", "model.layers.append(nn.Linear(3, 3))"]
)
def test_layers_that_are_not_trained_any_more(change: str) -> None:
    assert "MODEL-CHANGED" not in findings(_script(after=change))


OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"


@pytest.mark.parametrize(
    ("epoch", "told"),
    [
        (f"model.widen(3)\n{OPTIMIZER}", 0),
        (f"{OPTIMIZER}\nmodel.widen(3)", 1),
        (f"model.widen(3)\n{OPTIMIZER}\nmodel.expand(3)", 1),
        (f"model.widen(3)\nif epoch:\n    {OPTIMIZER}\n    model.expand(3)", 1),
    ],
)
def test_layers_that_are_there_when_the_optimizer_is_made(epoch: str, told: int) -> None:
    """What is prepared with an optimizer, and in no model, is averaged, too."""
    before = "for x, y in loader:\n    model(x.to(device))"
    assert findings(_script(optimizer="", before=before, epoch=epoch)).count("MODEL-CHANGED") == told


def test_a_method_that_is_called_before_and_after() -> None:
    text = _script(model="model = Grown().to(device)\nreplace_head(model, 3)", epoch="replace_head(model, 3)")
    assert findings(text).count("MODEL-CHANGED") == 1


def test_layers_that_are_made_in_the_forward_pass() -> None:
    assert "MODEL-CHANGED" in findings(_script(model="model = Lazy().to(device)"))


LAZY = NET[NET.index("class Lazy") : NET.index("def replace_head")]
DRY = "model = Lazy().to(device)\n{}"
RUN = "model(torch.ones(2, 8, device=device))"


@pytest.mark.parametrize(
    "run", [RUN, f"with torch.no_grad():\n    {RUN}", f"shape = {RUN}.shape", f"print({RUN}.mean() + 1)"]
)
def test_layers_that_a_first_forward_pass_has_made_already(run: str) -> None:
    assert "MODEL-CHANGED" not in findings(_script(model=DRY.format(run), definitions=LAZY))


@pytest.mark.parametrize(
    ("run", "definitions"),
    [
        (f"if torch.cuda.is_available():\n    {RUN}", LAZY),
        (f"for i in range(n):\n    {RUN}", LAZY),
        (f"def show():\n    {RUN}", LAZY),
        (f"other = Lazy().to(device)\nother{RUN[5:]}", LAZY),
        (RUN, LAZY.replace("if self.layer is None:", "if len(x) > 1:")),
        (RUN, LAZY.replace("if self.layer is None:", "if self.training is None:")),
        (RUN, f"{LAZY}\n\ndef reset(net):\n    net.layer = None\n"),
    ],
)
def test_layers_that_may_still_be_made(run: str, definitions: str) -> None:
    assert "MODEL-CHANGED" in findings(_script(setup="n = 0", model=DRY.format(run), definitions=definitions))


@pytest.mark.parametrize(
    "change",
    [
        "model.epoch = 3",
        "model.training = False",
        "model.name = str(epoch)",
        "model.count(3)",
        "model.seen.append(3)",
        "model.layer.weight.data = torch.zeros(3, 8)",
        "model.layer.weight.data.copy_(torch.zeros(3, 8))",
        "model.layer.requires_grad_(False)",
        "for p in model.parameters():\n    p.requires_grad = True",
        "model.layer = model.layer.to(device)",
        "model.act = nn.ReLU()",
        "model.layer.dropout = nn.Dropout(0.1)",
        "setattr(model, 'epoch', 3)",
        "losses.append(nn.MSELoss())",
        "heads['a'] = nn.Linear(3, 3)",
        "head = nn.Linear(3, 3)",
        "model.register_parameter('scale', None)",
    ],
)
def test_what_gives_it_no_layers(change: str) -> None:
    text = _script(before="losses = []\nheads = {}", epoch=change)
    result = convert(text)
    assert result.output is not None and "MODEL-CHANGED" not in findings(text)


def test_a_model_that_is_made_for_each_fold() -> None:
    fold = "model = Grown().to(device)\nmodel.expand(3)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    text = _script(model="", optimizer="", epoch=fold)
    assert convert(text).output is not None and "MODEL-CHANGED" not in findings(text)


TRAINER = """
class Trainer:
    def __init__(self):
        self.model = Grown().to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self, n):
        {change}
        for x, y in loader:
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x.to(device)), y.to(device)).backward()
            self.optimizer.step()


trainer = Trainer()
for n in range(3):
    trainer.fit(n)
"""


@pytest.mark.parametrize(
    ("change", "count"), [("self.model.layer = nn.Linear(8, 3)", 1), ("self.model.expand(3)", 1), ("self.n = n", 0)]
)
def test_the_model_of_a_trainer(change: str, count: int) -> None:
    text = _script(**{**NO_BODY, "model": "", "before": TRAINER.format(change=change)})
    assert convert(text).output is not None and findings(text).count("MODEL-CHANGED") == count


def test_in_a_function() -> None:
    text = script(main=True, definitions=NET, model="model = Grown().to(device)", epoch="model.expand(3)")
    assert findings(text).count("MODEL-CHANGED") == 1
