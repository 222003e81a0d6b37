"""Scripts that have something which trains, and do not run it: there is nothing to convert in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelift_codemod.plan import Outcome
from projects import HEAD, MODEL, only, write
from scripts import convert, converted, script

TRAINER = """\
class Trainer:
    def __init__(self, model, optimizer, criterion):
        self.model, self.optimizer, self.criterion = model, optimizer, criterion

    def train_epoch(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            self.criterion(self.model(x), y).backward()
            self.optimizer.step()

    def fit(self, loader):
        self.train_epoch(loader)

    def evaluate(self, loader):
        self.model.eval()
        return sum(self.criterion(self.model(x), y).item() for x, y in loader)
"""
MADE = "trainer = Trainer(model, optimizer, nn.CrossEntropyLoss())"
EVALUATES = "print(trainer.evaluate(loader))"


def code(definitions: str, after: str, setup: str = "") -> str:
    """Why a script without a loop of its own is left alone; empty if it is converted."""
    text = script(definitions=definitions, setup=setup, epochs="", loop="", move="", forward="", backward="", step="")
    result = convert(text + after)
    assert result.plan is not None
    return "" if result.output is not None else result.plan.findings[0].code


@pytest.mark.parametrize(
    ("definitions", "after"),
    [
        (TRAINER, f"{MADE}\n{EVALUATES}"),
        (TRAINER, f"{MADE.partition('= ')[2]}.evaluate(loader)"),
        (TRAINER, f"def main():\n    {MADE}\n    {EVALUATES}\n\nmain()"),
        (f"{TRAINER}\n\ndef fit(trainer):\n    trainer.fit(loader)\n", f"{MADE}\n{EVALUATES}"),
        (TRAINER.replace("Trainer:", "Base:") + "\n\nclass Trainer(Base):\n    pass\n", f"{MADE}\n{EVALUATES}"),
        (TRAINER, f'{MADE}\nprint(getattr(trainer, "evaluate")(loader))'),
    ],
)
def test_a_trainer_that_only_evaluates(definitions: str, after: str) -> None:
    assert code(definitions, after) == "NO-TRAINING"


def test_an_evaluation_script_beside_the_trainer(folder: Path) -> None:
    data = "loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)\n"
    body = f"{HEAD}from torch import nn\nfrom model import Net\nfrom trainer import Trainer\n\n{data}"
    made = "trainer = Trainer(Net(), None, nn.CrossEntropyLoss())\n"
    write({"trainer.py": TRAINER, "model.py": MODEL, "evaluate.py": f"{body}{made}{EVALUATES}\n"})
    result = only("evaluate.py")
    assert result.plan is not None and result.outcome is Outcome.NOTHING
    assert [finding.code for finding in result.plan.findings] == ["NO-TRAINING"]


@pytest.mark.parametrize(
    "run", ["trainer.fit(loader)", "trainer.train_epoch(loader)", 'getattr(trainer, "fit")(loader)']
)
def test_a_trainer_that_trains(run: str) -> None:
    assert code(TRAINER, f"{MADE}\n{run}\n{EVALUATES}") != "NO-TRAINING"
    if run.startswith("trainer"):
        assert "accelerator.backward(" in converted(
            script(definitions=TRAINER, epochs=f"{MADE}\n{run}", loop="", move="", forward="", backward="", step="")
        )


@pytest.mark.parametrize(
    ("definitions", "after"),
    [
        (TRAINER, f"import sys\n{MADE}\ngetattr(trainer, sys.argv[1])(loader)"),
        (TRAINER, f"import sys\n{MADE}\neval(sys.argv[1])"),
        (TRAINER, f"import fire\nfire.Fire({MADE[10:]})"),
        (TRAINER, f"from fire import Fire\n{MADE}\nFire(trainer)"),
        (TRAINER, f"kept = [{MADE[10:]}]"),
        (TRAINER, f"import other\nother.run({MADE[10:]})"),
        (TRAINER, f"import other\n{MADE}\nother.run(trainer, 'fit')"),
        (TRAINER, "import other\nother.run(Trainer)"),
        (TRAINER.replace("class", "@register\nclass", 1), f"{MADE}\n{EVALUATES}"),
        (TRAINER.replace("    def fit", "    @hook\n    def fit", 1), f"{MADE}\n{EVALUATES}"),
        (TRAINER.replace("Trainer:", "Trainer(other.Base):"), f"{MADE}\n{EVALUATES}"),
        (TRAINER.replace("def fit", "def __call__", 1), f"{MADE}\n{EVALUATES}"),
        (f"{TRAINER}\n\nrun = lambda t: t.fit(loader)\n", f"{MADE}\nrun(trainer)"),
    ],
)
def test_what_may_run_it_by_another_way(definitions: str, after: str) -> None:
    setup = "import other\nfrom other import hook, register"
    assert code(f"{setup}\n\n{definitions}", after) != "NO-TRAINING"


@pytest.mark.parametrize("imported", ["from trainer import Trainer as T", "import trainer", "from trainer import *"])
def test_a_trainer_of_another_file_that_trains(folder: Path, imported: str) -> None:
    data = "loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)\n"
    made = "model = Net()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    name = "T" if "as T" in imported else "trainer.Trainer" if imported == "import trainer" else "Trainer"
    run = f"kept = {name}(model, optimizer, nn.CrossEntropyLoss())\nkept.fit(loader)\n"
    head = f"{HEAD}from torch import nn\nfrom model import Net\n{imported}\n\n"
    write({"trainer.py": TRAINER, "model.py": MODEL, "train.py": f"{head}{data}{made}{run}"})
    result = only("train.py")
    assert result.plan is not None and all(finding.code != "NO-TRAINING" for finding in result.plan.findings)
    assert result.output is not None


def test_one_of_two_classes_of_one_name() -> None:
    other = TRAINER.replace("self.model, self.optimizer, self.criterion = model", "self.train_epoch(loader), model")
    classes = f"if len('ab') > 1:\n{_indented(other)}\nelse:\n{_indented(TRAINER.replace('train_epoch', 'epoch'))}"
    assert code(classes, f"{MADE}\n{EVALUATES}") != "NO-TRAINING"


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


# ---- functions that train or evaluate, as their calls say

RUN = f"""\
{HEAD}import torch.nn.functional as F


def run(loader, model, optimizer=None, train=False, mode="val"):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        if {{}}:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def evaluate(loader, model, optimizer=None):
    run(loader, model, optimizer)
"""
DATA = """\
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def run_of_another_file(engine: str, after: str) -> str:
    """Why a script is left alone that runs the function of another file; empty if it is converted."""
    head = f"{HEAD}import sys\nfrom model import Net\nfrom engine import evaluate, run\n\n"
    write({"engine.py": engine, "model.py": MODEL, "main.py": f"{head}{DATA}{after}\n"})
    result = only("main.py")
    assert result.plan is not None
    return "" if result.output is not None else result.plan.findings[0].code


@pytest.mark.parametrize(
    ("test", "after"),
    [
        ("train", "run(loader, model)"),
        ("train", "run(loader, model, None, train=False)\nrun(loader, model)"),
        ("not not train and len(x) > 1", "run(loader, model)"),
        ("optimizer is not None", "run(loader, model)"),
        ("optimizer is not None", "evaluate(loader, model)"),
        ('mode == "train" or train', "run(loader, model, train=False)"),
    ],
)
def test_no_call_of_a_function_has_it_train(folder: Path, test: str, after: str) -> None:
    assert run_of_another_file(RUN.format(test), after) == "NO-TRAINING"


@pytest.mark.parametrize(
    ("test", "after"),
    [
        ("train", "run(loader, model, optimizer, train=True)"),
        ("train", "run(loader, model)\nrun(loader, model, optimizer, train=True)"),
        ("train", "run(loader, model, optimizer, len(sys.argv) > 1)"),
        ("train", "TRAIN = False  # to be changed\nrun(loader, model, optimizer, TRAIN)"),
        ("train", "given = {'train': True}\nrun(loader, model, optimizer, **given)"),
        ("train", "each = [run]\neach[0](loader, model, optimizer, True)\nrun(loader, model)"),
        ("train or len(x) > 1", "run(loader, model, optimizer)"),
        ("optimizer is not None", "evaluate(loader, model, optimizer)"),
    ],
)
def test_a_call_may_have_it_train(folder: Path, test: str, after: str) -> None:
    assert run_of_another_file(RUN.format(test), after) != "NO-TRAINING"


def test_a_function_that_binds_what_it_is_told(folder: Path) -> None:
    bound = RUN.format("train").replace("    for x", "    train = train or optimizer is not None\n    for x", 1)
    assert run_of_another_file(bound, "run(loader, model, optimizer)") != "NO-TRAINING"


def test_a_setting_of_the_script_itself() -> None:
    definitions = RUN.format("train").partition("as F\n")[2]
    assert code(definitions, "run(loader, model, optimizer)") != "NO-TRAINING"
