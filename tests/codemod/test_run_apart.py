"""COLL-RANKFLOW: networks with buffers that only some processes run, by what is in their share."""

from __future__ import annotations

import textwrap

import pytest

from tests.codemod.scripts import script, severities

NORMED = "model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).to(device)"
OTHERS = "model = make().to(device)"
LOW = "if loss.item() < 1.1:\n    {}"


def told(statement: str, model: str = NORMED, definitions: str = "") -> list[str]:
    imports = "from lib import make" if model == OTHERS else ""
    text = script(model=model, definitions=definitions, imports=imports, batch_end=statement)
    return severities(text, "COLL-RANKFLOW")


@pytest.mark.parametrize(
    "statement", ["print(model(x).mean())", "show(x)", "with torch.no_grad():\n    out = model(x)"]
)
def test_a_forward_pass_on_some_processes(statement: str) -> None:
    show = "def show(x):\n    print(model(x).mean())\n"
    inside = LOW.format(textwrap.indent(statement, "    ").lstrip())
    assert told(inside, definitions=show) == ["error"]
    assert told(inside, "model = Net().to(device)", show) == []  # nothing is handed out
    assert told(inside, OTHERS, show) == ["warning"]


LOOK = "def look(loss, x, flag=None):\n    {}\n        print(model(x).mean())\n"


@pytest.mark.parametrize(
    ("statement", "test", "count"),
    [
        ("print(model(x).mean()) if loss.item() < 1.1 else None", "", 1),
        ("loss.item() < 1.1 and print(model(x).mean())", "", 1),
        ("print(model(x if loss.item() < 1.1 else -x).mean())", "", 0),
        ("look(loss, x)", "if loss.item() < 1.1:", 1),
        ("look(epoch, x)", "if loss > 1:", 0),
        ("look(loss, x)", "if flag is not None:", 0),
    ],
)
def test_by_an_expression_or_in_a_function(statement: str, test: str, count: int) -> None:
    definitions = LOOK.format(test) if test else ""
    assert told(statement, definitions=definitions) == ["error"] * count
    assert told(statement, "model = Net().to(device)", definitions) == []


@pytest.mark.parametrize(
    "statement",
    [
        LOW.format("print(loss.item())"),
        LOW.format("print(model(x).mean())") + "\nelse:\n    print(model(2 * x).mean())",  # one pass everywhere
        "if epoch % 2 == 0:\n    print(model(x).mean())",
        "print(model(x).mean())",
    ],
)
def test_the_same_everywhere(statement: str) -> None:
    assert told(statement) == []
