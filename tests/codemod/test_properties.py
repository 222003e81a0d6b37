"""Properties of a class that trains: what they tell is followed, what they do is a reason to leave the class alone."""

from __future__ import annotations

import textwrap

import pytest
from scripts import NO_BODY, converted, script, unchanged

TRAINER = """\
class Trainer:
    def __init__(self, loader, out=None):
        self.loader = loader
        self.out = out
        self.place = device
        self.model = Net().to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    @property
    def told(self):
{told}

    def fit(self):
        for x, y in self.loader:
            x, y = x.to(device), y.to(device)
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
        print(self.told)
"""


def trainer(told: str) -> str:
    definitions = TRAINER.format(told=textwrap.indent(told, " " * 8))
    imports = "import os\nimport tempfile"
    return script(imports=imports, definitions=definitions, after="Trainer(loader).fit()", **NO_BODY)


@pytest.mark.parametrize(
    "told",
    [
        "return self.model",
        "if self.place:\n    return self.place\nraise ValueError",
        "if self.out is None:\n    raise ValueError(f'no folder: {self.out}')\nreturn self.out",
        "out = self.out\nif out is None:\n    out = os.path.join('.', 'out')\nreturn out",
        "return next(self.model.parameters()).device",
        "assert self.out, 'none'\nreturn torch.device('cpu') if self.out else self.place",
        "'''Its length.'''\nreturn len(self.loader)",
    ],
)
def test_a_property_that_tells_something(told: str) -> None:
    text = converted(trainer(told))
    assert "accelerator.prepare(self.model, self.optimizer)" in " ".join(text.split())
    assert "self.told" in text


@pytest.mark.parametrize(
    "told",
    [
        "self.out = 3\nreturn self.out",
        "self.out[0] = 3\nreturn self.out",
        "return self.model.eval()",
        "self.fit()\nreturn self.out",
        "return self.make()",
        "return next(self.loader)",
        "return next(iter(self.loader))",
        "for x, y in self.loader:\n    return x",
        "with open('log') as file:\n    return file",
        "return tempfile.mkdtemp()",
        "global loader\nreturn loader",
        "yield self.out",
        "raise self.make()",
    ],
)
def test_a_property_that_does_something(told: str) -> None:
    problem = unchanged(trainer(told))
    assert problem.code == "LOOP-IN-CLASS" and "told() has a decorator" in problem.message
