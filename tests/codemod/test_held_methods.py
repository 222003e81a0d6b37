"""Methods that variables hold: what a call of such a variable runs is followed as where a method is called by name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from accelift_codemod.api import convert_files
from accelift_codemod.facts import held_methods
from accelift_codemod.facts.index import Index
from accelift_codemod.options import Options
from scripts import convert, findings, script, unchanged

LOSSES = """\
class Losses:
    def __init__(self, device=None):
        self.device = device
        self.mean = 0

    def plain(self, out, y):
        return F.cross_entropy(out, y)

    def summed(self, out, y):
        return F.cross_entropy(out, y, reduction="sum")

    def spread(self, out, y):
        return F.cross_entropy(out, y) + out.norm()

    def carried(self, out, y):
        loss = ((out - self.mean) ** 2).mean()
        self.mean = 0.9 * self.mean + 0.1 * out.mean(0).detach()
        return loss

    def moved(self, out, y):
        return F.cross_entropy(out, y) * torch.ones(1).to(self.device)

    @staticmethod
    def static(out, y):
        return F.cross_entropy(out, y, reduction="sum")

    @classmethod
    def of_class(cls, out, y):
        return F.cross_entropy(out, y, reduction="sum")

    def build(self, mode="summed"):
        "One of them."
        if mode == "summed":
            return self.summed
        elif mode in ("spread", "norm"):
            return self.spread
        else:
            raise NotImplementedError


class Others(Losses):
    def summed(self, out, y):
        return F.cross_entropy(out, y)
"""


def compares(before: str, call: str, definitions: str = LOSSES) -> str:
    """A script whose loss is what a call gives."""
    return script(
        definitions=definitions,
        before=before,
        forward=f"optimizer.zero_grad()\nout = model(x)\nloss = {call}(out, y)",
    )


def said(text: str) -> tuple[list[str], list[str]]:
    """What is told of a script, and how its backward pass is converted."""
    result = convert(text)
    assert result.output is not None
    lines = result.output.decode().splitlines()
    return findings(text), [line.strip() for line in lines if "accelerator.backward" in line]


@pytest.mark.parametrize("method", ["plain", "summed", "spread", "carried", "moved", "static", "of_class"])
@pytest.mark.parametrize("made", ["Losses()", "Others()", "Losses(device)"])
def test_a_method_in_a_variable_is_followed_as_one_that_is_called(made: str, method: str) -> None:
    direct = said(compares(f"losses = {made}", f"losses.{method}"))
    assert said(compares(f"losses = {made}\ncrit = losses.{method}", "crit")) == direct
    assert said(compares(f"crit = {made}.{method}", "crit")) == direct
    assert "LOSS-UNKNOWN" not in direct[0]


@pytest.mark.parametrize(
    ("before", "method"),
    [
        ("crit = Losses().build('summed')", "summed"),
        ("crit = Losses().build()", "summed"),
        ("crit = Losses().build(mode='norm')", "spread"),
        ("crit = Losses().summed if len(data) > 3 else Losses(device).summed", "summed"),
        ("if len(data) > 3:\n    crit = Losses().spread\nelse:\n    crit = Others().spread", "spread"),
        ("crit = None\ncrit = Losses().summed", "summed"),
        ("first = Losses().summed\ncrit = first", "summed"),
        ("losses = Losses()\ncrit = losses.summed\nlosses = None", "summed"),
        ("crit = Losses.static", "static"),
    ],
)
def test_how_a_variable_comes_to_hold_it(before: str, method: str) -> None:
    assert said(compares(before, "crit")) == said(compares("losses = Losses()", f"losses.{method}"))


def test_one_of_several_methods() -> None:
    """What one of them does is told; what both do, is done."""
    either = "crit = Losses().{} if len(data) > 3 else Losses().{}"
    assert findings(compares(either.format("plain", "spread"), "crit")) == ["LOSS-INBATCH"]
    assert said(compares(either.format("summed", "static"), "crit"))[0] == ["LOSS-UNKNOWN"]  # that has no object
    both = said(compares(either.format("summed", "summed"), "crit"))
    assert both == ([], ['accelerator.backward(loss, reduction="sum")'])
    mixed = findings(compares(either.format("plain", "summed"), "crit"))
    assert mixed == ["LOSS-UNKNOWN"]
    assert findings(compares("crit = Losses().build(data.mode)", "crit")) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    ("before", "call"),
    [
        ("losses = Losses()\nlosses.summed = F.mse_loss\ncrit = losses.summed", "crit"),  # it is an attribute
        ("crit = Losses().summed\nif len(data) > 3:\n    crit = torch.load('loss.pt')", "crit"),
        ("crit = Losses().summed\nprint(crit.__name__)", "crit"),  # something else is done with it
        ("table = {'sum': Losses().summed}", "table['sum']"),
        ("class Settings:\n    crit = Losses().summed", "Settings.crit"),
        ("crit = Losses().lambdas", "crit"),
        ("crit = Layers().summed", "crit"),
        ("crit = Losses().guess(3)", "crit"),
        ("crit = Losses().undecided", "crit"),
    ],
)
def test_what_may_be_something_else_is_not_followed(before: str, call: str) -> None:
    more = """\
    lambdas = lambda self, out, y: F.cross_entropy(out, y, reduction="sum")

    def guess(self, number):
        number = number + 1
        return self.summed

    @torch.no_grad()
    def undecided(self, out, y):
        return F.cross_entropy(out, y)


class Layers(nn.Module):
    def summed(self, out, y):
        return F.cross_entropy(out, y, reduction="sum")
"""
    definitions = LOSSES.replace("\n\nclass Others", f"\n{more}\n\nclass Others")
    assert findings(compares(before, call, definitions)) == ["LOSS-UNKNOWN"]


TRAINER = """\
class Trainer:
    def __init__(self, fast, criterion=None):
        self.fast = fast
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)
        self.loader = DataLoader(data, batch_size=16, shuffle=True)
        self.model = Net().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        {made}

    def train(self):
        {before}
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            {step}

    def one(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()

    def two(self, x, y):
        self.optimizer.zero_grad()
        loss = 2 * F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()

    def measure(self, x, y):
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.optimizer.step()
"""
EITHER = "if self.fast:\n            step = self.one\n        else:\n            step = self.two"
BARE = dict.fromkeys(("device", "data", "loader", "model", "optimizer", "epochs", "loop", "move", "forward"), "")
BARE |= {"backward": "", "step": ""}


def trainer(made: str = "pass", before: str = "pass", step: str = "self.one(x, y)", main: str = "Trainer(True)") -> str:
    """A script with a trainer."""
    definitions = f"{LOSSES}\n\n{TRAINER.format(made=made, before=before, step=step)}"
    return script(**BARE, definitions=definitions, before=f"trainer = {main}", after="trainer.train()")


def changes(text: str) -> list[str]:
    """The lines that the conversion adds."""
    return [line for line in convert(text).diff.splitlines() if line.startswith("+ ")]


@pytest.mark.parametrize(
    ("made", "before", "step"),
    [
        ("pass", "step = self.one", "step(x, y)"),
        ("self.step = self.one", "pass", "self.step(x, y)"),
        ("self.step = self.one", "pass", "getattr(self, 'step')(x, y)"),
        ("self.step = None\n        self.step = self.one", "pass", "self.step(x, y)"),
        ("pass", "step = self.one if self.fast else self.two", "step(x, y)"),
        (
            "pass",
            "if self.fast:\n            step = self.one\n        else:\n            step = self.two",
            "step(x, y)",
        ),
        ("self.step = self.one if fast else self.two", "pass", "self.step(x, y)"),
    ],
)
def test_a_trainer_that_holds_its_own_method_is_converted(made: str, before: str, step: str) -> None:
    held = trainer(made, before, step)
    assert changes(held) == changes(trainer())
    assert findings(held) == []


@pytest.mark.parametrize("run", ["run = trainer.train\nrun()", "run = trainer.train if data else trainer.train\nrun()"])
def test_a_trainer_whose_method_is_held_outside_is_converted(run: str) -> None:
    assert changes(trainer().replace("trainer.train()", run)) == changes(trainer())


@pytest.mark.parametrize(
    ("made", "step", "main"),
    [
        ("pass", "{'one': self.one}['one'](x, y)", "Trainer(True)"),
        ("self.step = self.one", "self.step(x, y)", "Trainer(True)\ntrainer.step = print"),
        ("pass", "list(map(self.one, [x], [y]))", "Trainer(True)"),
        (
            "self.step = self.one if fast else self.two",
            "self.step(x.float(), y)",
            "Trainer(True)",
        ),  # it would run twice
    ],
)
def test_a_trainer_whose_method_may_run_otherwise_is_left_alone(made: str, step: str, main: str) -> None:
    assert unchanged(trainer(made, "pass", step, main)).code == "LOOP-IN-CLASS"


def test_what_a_trainer_is_given() -> None:
    step = "self.measure(x, y)"
    direct = trainer("self.losses = criterion", "pass", step, "Trainer(True, Losses())")
    direct = direct.replace("self.criterion(", "self.losses.summed(")
    held = trainer("self.criterion = criterion", "pass", step, "Trainer(True, Losses().summed)")
    assert changes(held) == changes(direct)
    assert any('reduction="sum"' in line for line in changes(held))
    assert findings(held) == findings(direct) == []
    built = trainer('self.criterion = Losses().build(mode="spread")', "pass", step)
    assert findings(built) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    ("weight", "told"),
    [
        ("", []),
        ("self.spread(out, y)", []),  # it computes, too
        ("self.device or F.cross_entropy(out, y, weight=self.device)", []),
        ("self.carried(out, y)", ["BUFFER-OWN", "COLL-RANKFLOW"]),
        ("self.seen.append(out)", ["COLL-RANKFLOW"]),
    ],
)
def test_a_method_that_only_computes_keeps_nothing_of_a_batch(weight: str, told: list[str]) -> None:
    text = trainer("self.criterion = criterion", "pass", "self.measure(x, y)", "Trainer(True, Losses().plain)")
    plain = "        return F.cross_entropy(out, y)\n"
    assert findings(text.replace(plain, f"        {weight or 'pass'}\n{plain}", 1)) == told


@pytest.mark.parametrize("other", ["", "train(F.cross_entropy)"])
def test_what_a_function_is_given(other: str) -> None:
    """All its calls say what it is given."""
    text = script(
        definitions=LOSSES,
        epochs="def train(crit):",
        loop="for x, y in loader:",
        forward="optimizer.zero_grad()\nout = model(x)\nloss = crit(out, y)",
        after=f"train(Losses().summed)\n{other}",
    )
    assert findings(text) == (["LOSS-UNKNOWN"] if other else [])


def test_losses_of_another_file(tmp_path: Path) -> None:
    imports = "import torch\nimport torch.nn.functional as F\n\n\n"
    (tmp_path / "losses.py").write_text(imports + LOSSES)
    text = compares("crit = Losses().build(mode='norm')", "crit", "").replace(
        "import torch\n", "import torch\nfrom losses import Losses\n", 1
    )
    (tmp_path / "train.py").write_text(text)
    plans = [r.plan for r in convert_files([(tmp_path / "train.py", True)], Options())]
    assert [f.code for plan in plans if plan is not None for f in plan.findings] == ["LOSS-INBATCH"]


def test_the_tree_stays_where_no_method_is_held() -> None:
    tree = ast.parse(compares("losses = Losses()", "losses.plain", LOSSES.partition("    def build")[0]))
    assert held_methods.find(Index(tree)).tree is tree
