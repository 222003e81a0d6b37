"""A variable that every arm of a choice sets is what one of them has set it to, and nothing older."""

from __future__ import annotations

import ast

import pytest
from accelift_codemod.facts import Facts
from accelift_codemod.facts.certainty import Certainty
from accelift_codemod.source import Source
from scripts import findings, script


def reaching(text: str) -> list[int]:
    """The lines of what the last read of `x` may have."""
    facts = Facts(Source.decode(text.encode(), "a.py"))
    read = [n for scope in facts.index.scopes.values() for n in scope.loads.get("x", [])][-1]
    owner = facts.index.scope(read).owner("x")
    assert owner is not None
    return sorted(b.node.lineno for b in facts.resolver.reaching(read, owner))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = 1\nif a:\n    x = 2\nelse:\n    x = 3\nprint(x)", [3, 5]),
        ("x = 1\nif a:\n    x = 2\nelif b:\n    x = 3\nelse:\n    x: int = 4\nprint(x)", [3, 5, 7]),
        ("x = 1\nif a:\n    x = 2\nelse:\n    if b:\n        x = 3\n    else:\n        x = 4\nprint(x)", [3, 6, 8]),
        ("x = 1\nif a:\n    x = 2\nelse:\n    raise ValueError\nprint(x)", [3]),
        ("x = 1\nfor i in y:\n    if a:\n        x = 2\n    else:\n        continue\n    print(x)", [4]),
        ("x = 1\nfor i in y:\n    if a:\n        x = 2\n    else:\n        x = 3\n    print(x)\n    x = 4", [4, 6]),
        ("x = 1\nwith open('f'):\n    if a:\n        x = 2\n    else:\n        x = 3\nprint(x)", [4, 6]),
    ],
)
def test_what_every_arm_sets(text: str, lines: list[int]) -> None:
    assert reaching(text) == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = 1\nif a:\n    x = 2\nprint(x)", [1, 3]),
        ("x = 1\nif a:\n    x = 2\nelif b:\n    x = 3\nprint(x)", [1, 3, 5]),
        ("x = 1\nif a:\n    x = 2\nelse:\n    for i in y:\n        x = 3\nprint(x)", [1, 3, 6]),
        ("x = 1\nif a:\n    x = 2\nelse:\n    for x in y:\n        pass\nprint(x)", [1, 3, 5]),
        ("x = 1\nif a:\n    x = 2\nelse:\n    try:\n        x = 3\n    except E:\n        pass\nprint(x)", [1, 3, 6]),
        ("x = 1\ntry:\n    if a:\n        x = 2\n    else:\n        x = 3\nexcept E:\n    pass\nprint(x)", [1, 4, 6]),
        ("x = 1\nfor i in y:\n    if a:\n        x = 2\n    else:\n        x = 3\nprint(x)", [1, 4, 6]),
        ("x = 1\nfor i in y:\n    print(x)\n    if a:\n        x = 2\n    else:\n        x = 3", [1, 5, 7]),
        ("x = 1\nif a:\n    x = 2\nelse:\n    x: int\nprint(x)", [1, 3]),
    ],
)
def test_what_some_arms_set(text: str, lines: list[int]) -> None:
    assert [line for line in reaching(text) if line != 5 or "x: int\n" not in text] == lines


def test_what_was_trained_on_before_is_not_evaluated() -> None:
    """The name of a batch of the training is set anew for each batch of the evaluation."""
    arms = "if i:\n        inputs = x.to(device)\n    else:\n        inputs = x.float().to(device)"
    later = f"kept = []\nfor i, (x, y) in enumerate(held):\n    {arms}\n    with torch.no_grad():\n"
    later += "        kept.append(model(inputs).argmax(1) == y.to(device))\nprint(torch.cat(kept).sum())"
    slots = {"before": "held = DataLoader(data, batch_size=16)", "move": "inputs, y = x.to(device), y.to(device)"}
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(model(inputs), y)"
    assert findings(script(forward=forward, after=later, **slots)) == []


@pytest.mark.parametrize(
    ("last", "sure"),
    [
        ("assert False", True),
        ("print(1)\n    assert 0, 'unknown'", True),
        ("assert a", False),
        ("assert True", False),
        ("pass", False),
    ],
)
def test_an_arm_that_asserts_what_is_false_ends_there(last: str, sure: bool) -> None:
    text = f"if a:\n    x = 1\nelif b:\n    x = 2\nelse:\n    {last}\nprint(x)\n"
    facts = Facts(Source.decode(text.encode(), "a.py"))
    choice, read = facts.tree.body
    assert isinstance(choice, ast.If) and isinstance(choice.orelse[0], ast.If)
    bound = {choice.body[0], choice.orelse[0].body[0]}
    assert Certainty(facts.resolver).passed(bound, read) == sure
