"""Objects that are called, kept in variables that are bound again, or have numbers set from outside of their class."""

from __future__ import annotations

import pytest
from scripts import findings, unchanged
from test_trainers import PREPARED, lines, trainer

CALL = {"fit": "def __call__(self):"}
COUNT = {"last": "self.epoch = 0", "loop": "for x, y in self.loader if self.epoch < 3 else []:"}
TWICE = "for n in range(2):\n    if n:\n        t = Other()\n    else:\n        t = Trainer()\n    t.fit()"
OTHER = "class Other:\n    def __init__(self):\n        self.x = 1\n\n    def fit(self):\n        print(self.x)\n\n\n"


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ("t = Trainer()\nt()", CALL),
        ("def run(f):\n    f()\n\nt = Trainer()\nrun(t)", CALL),
        ("t = Trainer()\nt.go()", {**CALL, "methods": "def go(self):\n    self()"}),
        ("t = Trainer()\nt.fit()", {"methods": "def __call__(self):\n    self.fit()"}),
        # variables that are bound again
        ("t = Trainer()\nt.fit()\nt = Trainer()\nt.fit()", {}),
        ("t = None\nt = Trainer()\nt.fit()", {}),
        ("t = None\nif torch.rand(1) < 2:\n    t = Trainer()\nt.fit()", {}),
        (f"{OTHER}if torch.rand(1) < 2:\n    t = Other()\n    t.fit()\nelse:\n    t = Trainer()\n    t.fit()", {}),
        (f"{OTHER}if torch.rand(1) < 2:\n    t = Other()\nelse:\n    t = Trainer()\nt.fit()", {}),
        # numbers that are set from outside
        ("t = Trainer()\nt.epoch = 1\nt.fit()", COUNT),
        ("t = Trainer()\nt.epoch += 1\nt.fit()", COUNT),
        ("t = Trainer()\nt.epoch = torch.load('a.pt')['epoch']\nt.fit()", COUNT),
        ("def run(f):\n    f.epoch = 2\n    f.fit()\n\nt = Trainer()\nrun(t)", COUNT),
        ("t = Trainer()\nt.epoch = 1\nt.fit()", {**COUNT, "last": ""}),
        ("t = Trainer()\nfor n in range(2):\n    t.epoch = n\n    t.fit()", COUNT),
    ],
)
def test_objects_that_are_followed(body: str, parts: dict[str, str]) -> None:
    after = lines(trainer(body, **parts))
    assert PREPARED.replace("accelerator.", "self.accelerator.") in after or PREPARED in after
    assert "accelerator.backward(loss)" in after and ".to(self.device)" not in after


def test_the_object_is_called_in_the_place_of_its_method() -> None:
    text = lines(trainer("Trainer()()", **CALL))
    assert "self.accelerator.backward(loss)" in text and text.endswith("\nTrainer()()")


@pytest.mark.parametrize(
    ("body", "parts", "said"),
    [
        ("t = Trainer()\nlist(map(t, []))", CALL, "`t` is handed on"),
        ("t = Trainer()\nt()\nt.fit()", {}, "`t` is handed on"),  # it has no such method
        ("t = Trainer()\nt.fit()\nt = 3", {}, "bound more than once"),
        ("t = Trainer()\nt.fit()\nfor t in [Trainer()]:\n    t.fit()", {}, "bound more than once"),
        ("t, u = Trainer(), 3\nt, u = [t, u]\nt.fit()", {}, "bound more than once"),
        (f"{OTHER}{TWICE}", {}, "of Other, too"),
        ("t = Trainer()\nt.model = Net()\nt.fit()", {}, "`t.model` is set outside the class"),
        ("t = Trainer()\nt.epoch = 1\nt.fit()", {"last": "self.epoch = Net()"}, "`t.epoch` is set outside the class"),
        ("t = Trainer()\nt.epoch = Net()\nt.fit()", COUNT, "`t.epoch` is set outside the class"),
        ("t = Trainer()\nt.epoch, n = 1, 2\nt.fit(n)\nt.epoch, n = [3, 4]", COUNT, "`t.epoch` is set outside"),
        ("t = Trainer()\nt.device = torch.device('cpu')\nt.fit()", {}, "`t.device` is set outside the class"),
        ("t = Trainer()\nt.fit = print\nt.fit()", {}, "`t.fit` is set outside the class"),
        ("t = Trainer()\ndel t.epoch\nt.fit()", COUNT, "`t.epoch` is set outside the class"),
    ],
)
def test_objects_that_cannot_be_followed(body: str, parts: dict[str, str], said: str) -> None:
    finding = unchanged(trainer(body, **parts))
    assert finding.code == "LOOP-IN-CLASS" and said in finding.message, finding.message


LEARN = """\
def learn(self, x, y):
    x, y = x.to(self.device), y.to(self.device)
    self.optimizer.zero_grad()
    loss = F.cross_entropy(self.model(x), y)
    loss.backward()
    self.optimizer.step()
    self.loss = float(loss)
    return loss.item()
"""


@pytest.mark.parametrize(
    ("counted", "told"),
    [
        ("t.seen += 1", False),
        ("t.seen = t.learn(x, y)", True),
        ("t.seen = int(100 * t.learn(x, y))", True),
        ("n = int(100 * t.learn(x, y))\n        t.seen = n", True),
        ("t.seen = int(x.sum())", True),
        ("t.learn(x, y)\n        t.seen = t.loss", True),
        ("out = t.learn(x, y)\n        t.seen = t.seen + 1", False),
    ],
)
def test_what_is_set_from_outside_steers_the_training(counted: str, told: bool) -> None:
    step = "" if "learn" in counted else "out = t.learn(x, y)\n        "
    body = f"t = Trainer()\nwhile t.seen < 40:\n    for x, y in t.loader:\n        {step}{counted}"
    empty = dict.fromkeys(("loop", "move", "forward", "backward", "step"), "")
    text = trainer(body, **empty, last="self.seen = 0", fit="def fit(self):\n    pass", methods=LEARN)
    assert bool({"COLL-RANKFLOW", "LOOP-IN-CLASS"} & {*findings(text)}) is told
