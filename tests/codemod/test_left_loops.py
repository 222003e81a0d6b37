"""Loops that some processes leave: it matters where they train, meet the others, or work out what is read later."""

from __future__ import annotations

import textwrap

import pytest
from scripts import findings, script

KEPT = "kept, count = [], 0"
LOOKS = "for i, row in enumerate(out):\n    if {test}:\n        {leaves}\n    {then}"
TEST = "row.sum().item() < 0"


def told(test: str, leaves: str, then: str, *, after: str = "", later: bool = False) -> list[str]:
    """What is said of decisions in a loop over the rows of a batch, in training or behind it."""
    looks = LOOKS.format(test=test, leaves=leaves, then=then)
    slots = {"after": f"{looks}\n{after}"} if later else {"batch_end": looks, "after": after}
    text = script(before=KEPT, forward="optimizer.zero_grad()\nout = model(x)\nloss = F.cross_entropy(out, y)", **slots)
    return [code for code in findings(text) if code == "COLL-RANKFLOW"]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("leaves", ["break", "continue"])
@pytest.mark.parametrize("then", ["print(row)", "shown = row + 1", "third = i * 2\n    print(third)"])
def test_a_loop_that_only_shows_may_be_left(then: str, leaves: str, later: bool) -> None:
    assert told(TEST, leaves, then, later=later) == []


@pytest.mark.parametrize("leaves", ["break", "continue"])
@pytest.mark.parametrize(
    ("then", "after"),
    [
        ("kept.append(i)", "print(len(kept))"),
        ("count += 1", "print(count)"),
        ("last = i", "print(last)"),
        ("optimizer.step()", ""),
        ("(row.sum() * model.layer.bias.sum()).backward()", ""),
        ("accelerated(row)", ""),
    ],
)
def test_others_may_not(then: str, after: str, leaves: str) -> None:
    looks = LOOKS.format(test=TEST, leaves=leaves, then=then)
    text = script(
        definitions="def accelerated(row):\n    global count\n    count = count + 1\n",
        before=KEPT,
        forward="optimizer.zero_grad()\nout = model(x)\nloss = F.cross_entropy(out, y)",
        batch_end=looks,
        after=after,
    )
    assert "COLL-RANKFLOW" in findings(text)


def test_the_loop_over_the_batches_may_not() -> None:
    left = textwrap.dedent("""\
        if out.sum().item() < 0:
            break
        for row in out:
            print(row)""")
    text = script(forward=f"optimizer.zero_grad()\nout = model(x)\n{left}\nloss = F.cross_entropy(out, y)")
    assert "COLL-RANKFLOW" in findings(text)
