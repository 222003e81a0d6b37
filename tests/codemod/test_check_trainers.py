"""`accelift check` of trainers: what an object keeps is prepared once its constructor, or its method, has done so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.codemod.checks import findings, marked

TRAINER = """\
import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        return self.layer(x)

    def loss(self, x, y):
        return F.cross_entropy(self(x), y)


class Trainer:
    def __init__(self, model, data):
        self.accelerator = Accelerator()
        self.model = model
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.loader = DataLoader(data, batch_size=16)
        self.sched = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)
        {made}

    def fit(self):
        {begun}
        for epoch in range(3):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                loss = {loss}
                self.accelerator.backward(loss)
                self.optimizer.step()
            {stepped}
        {saved}


Trainer(Net(), TensorDataset(torch.ones(64, 8), torch.arange(64) % 3)).fit()
"""
PREPARE = (
    "self.model, self.optimizer, self.loader, self.sched = self.accelerator.prepare("
    "self.model, self.optimizer, self.loader, self.sched)"
)
RIGHT = {
    "made": PREPARE,
    "begun": "pass",
    "loss": "F.cross_entropy(self.model(x), y)",
    "stepped": "pass",
    "saved": "state = self.accelerator.unwrap_model(self.model).state_dict()",
}
COUNT = """\
correct = 0
        for x, y in self.loader:
            correct += (self.model(x).argmax(1) == y).sum().item()  # HERE
        self.accelerator.print(correct / 64)"""
WRONG = [
    ("DDP-METHOD", {"loss": "self.model.loss(x, y)  # HERE"}),
    ("SCHED-EPOCH", {"stepped": "self.sched.step()  # HERE"}),
    ("METRIC-LOCAL", {"saved": COUNT}),
    ("SAVE-WRAPPED", {"saved": "torch.save(self.model.state_dict(), 'model.pt')  # HERE"}),
]


@pytest.mark.parametrize(("code", "slots"), WRONG)
@pytest.mark.parametrize("place", ["made", "begun"])
def test_what_is_wrong_with_what_is_prepared(code: str, slots: dict[str, str], place: str) -> None:
    where = {"made": "pass", "begun": "pass", place: PREPARE}
    text = TRAINER.format(**{**RIGHT, **where, **slots})
    assert [f.line for f in findings(text, code)] == marked(text) != []


@pytest.mark.parametrize(("code", "slots"), WRONG)
def test_what_is_not_prepared_is_as_it_was(code: str, slots: dict[str, str]) -> None:
    perhaps = f"if torch.cuda.is_available():\n            {PREPARE}"  # or not
    for made in ("pass", perhaps):
        assert findings(TRAINER.format(**{**RIGHT, "made": made, **slots}), code) == []
    early = f"self.fit()\n        {PREPARE}"
    assert findings(TRAINER.format(**{**RIGHT, "made": early, **slots}), code) == []


MODULE = {
    "class Trainer:": "@kept\nclass Trainer(nn.Module):",
    "        self.accelerator = Accelerator()": "        super().__init__()\n        self.accelerator = Accelerator()",
    "def __init__(self, model, data)": "def __init__(self, model: Net, data)",
    "import torch\n": "import torch\nfrom project import kept\n",
}
LATER = "self.notes = []\n        self.test = DataLoader(data)\n        self.best = self.keep = None"


def as_module(text: str) -> str:
    """The trainer as a module with a decorator that nobody in sight makes an object of."""
    for old, new in MODULE.items():
        assert old in text
        text = text.replace(old, new, 1)
    return text[: text.index("Trainer(Net()")]


@pytest.mark.parametrize(("code", "slots"), WRONG)
def test_what_is_wrong_with_what_a_module_that_trains_others_has_prepared(code: str, slots: dict[str, str]) -> None:
    text = as_module(TRAINER.format(**{**RIGHT, "made": f"{PREPARE}\n        {LATER}", **slots}))
    assert [f.line for f in findings(text, code)] == marked(text) != []


@pytest.mark.parametrize(("code", "slots"), WRONG)
def test_what_such_a_module_may_have_prepared_or_not(code: str, slots: dict[str, str]) -> None:
    perhaps = f"if torch.cuda.is_available():\n            {PREPARE}"
    again = f"{PREPARE}\n        self.model, self.loader, self.sched = net, other, None"
    for made in ("pass", perhaps, again, f"self.fit()\n        {PREPARE}"):
        assert findings(as_module(TRAINER.format(**{**RIGHT, "made": made, **slots})), code) == []


def test_a_right_module_that_trains_others() -> None:
    assert findings(as_module(TRAINER.format(**RIGHT))) == []


PROPERTIES = """\
    @property
    def first(self):
        \"\"\"Whether this is the main process.\"\"\"
        return self.accelerator.is_main_process

    def is_first(self):
        return not not self.first

    @property
    def plain(self):
        return self.accelerator.unwrap_model(self.model)

    def fit(self):
"""


@pytest.mark.parametrize("test", ["self.first", "self.is_first()"])
@pytest.mark.parametrize("change", [str, as_module])
def test_properties_that_tell_of_the_main_process(test: str, change: Callable[[str], str]) -> None:
    for stepped, code in (("self.sched.step()", "STATE-MAIN"), ("self.accelerator.gather(loss)", "COLL-MAIN")):
        under = f"if {test}:\n                {stepped}  # HERE"
        text = change(TRAINER.format(**{**RIGHT, "stepped": under})).replace("    def fit(self):\n", PROPERTIES)
        assert [f.line for f in findings(text, code)] == marked(text) != []
    unless = f"if not {test}:\n                continue\n            print('x')"
    text = change(TRAINER.format(**{**RIGHT, "stepped": unless})).replace("    def fit(self):\n", PROPERTIES)
    assert findings(text, "PRINT-ALL") == []


def test_properties_that_tell_of_something_else() -> None:
    other = PROPERTIES.replace("return self.accelerator.is_main_process", "return self.accelerator.device")
    text = TRAINER.format(**{**RIGHT, "stepped": "if self.first:\n                self.sched.step()"})
    assert findings(text.replace("    def fit(self):\n", other), "STATE-MAIN") == []


def test_the_network_inside_of_what_an_annotation_tells() -> None:
    text = as_module(TRAINER.format(**{**RIGHT, "saved": "self.plain.loss(1, 2)"})).replace(
        "    def fit(self):\n", PROPERTIES
    )
    assert findings(text) == []


def test_a_right_trainer() -> None:
    assert findings(TRAINER.format(**RIGHT)) == []
