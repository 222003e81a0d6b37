"""Properties of a class that trains: what they tell is followed, what they do is a reason to leave the class alone."""

from __future__ import annotations

import textwrap

import pytest
from scripts import FIT, NO_BODY, converted, findings, script, unchanged

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

{fit}        print(self.told)
"""


def trainer(told: str) -> str:
    definitions = TRAINER.format(fit=FIT, told=textwrap.indent(told, " " * 8))
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
        "return nn.CrossEntropyLoss()",
        "return nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])).to(self.place)",
        "return torch.device('cuda' if torch.cuda.is_available() else 'cpu') == self.place",
    ],
)
@pytest.mark.parametrize("kind", ["property", "cached_property", "functools.cached_property"])
def test_a_property_that_tells_something(told: str, kind: str) -> None:
    imports = "import functools\nfrom functools import cached_property\nimport os\n"
    text = converted(trainer(told).replace("@property", f"@{kind}").replace("import os\n", imports, 1))
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
        "return Net()",
        "return nn.Dropout()",
        "return torch.optim.SGD(self.model.parameters(), lr=0.1)",
        "return torch.randn(3)",
        "return self.model.to(self.place)",
        "return Net().to(self.place)",
    ],
)
def test_a_property_that_does_something(told: str) -> None:
    problem = unchanged(trainer(told))
    assert problem.code == "LOOP-IN-CLASS" and "told() has a decorator" in problem.message


@pytest.mark.parametrize(
    ("criterion", "says"),
    [
        ("nn.CrossEntropyLoss()", []),
        ("nn.CrossEntropyLoss(reduction='sum')", []),
        ("nn.CrossEntropyLoss(weight=torch.ones(3)).to(self.place)", ["LOSS-MASKMEAN"]),
    ],
)
@pytest.mark.parametrize("kind", ["property", "cached_property"])
def test_a_loss_that_a_property_makes_is_known(criterion: str, says: list[str], kind: str) -> None:
    text = trainer(f"return {criterion}").replace("print(self.told)", "pass")
    text = text.replace("F.cross_entropy(self.model(x), y).backward()", "self.told(self.model(x), y).backward()")
    text = text.replace("import os\n", "from functools import cached_property\nimport os\n", 1)
    text = text.replace("@property", f"@{kind}")
    assert [code for code in findings(text) if code.startswith("LOSS")] == says
    assert ('reduction="sum"' in converted(text)) == ("'sum'" in criterion)


def test_a_decorator_of_another_library_is_no_property() -> None:
    text = trainer("return self.model").replace("@property", "@cached_property")
    assert (
        unchanged(text.replace("import os\n", "from lib import cached_property\nimport os\n", 1)).code
        == "LOOP-IN-CLASS"
    )
