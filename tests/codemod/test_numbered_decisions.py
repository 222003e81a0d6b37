"""Decisions by the number of an iteration, or by what every call says: they are the same on every process."""

from __future__ import annotations

import pytest
from scripts import findings, script

FEW = "optimizer.zero_grad()\nout = model(x)\nloss = 0\n"
EACH = "loss = loss + F.cross_entropy(out[i], y)"


def told(forward: str, **slots: str) -> bool:
    """Whether something is said of a decision that processes may take differently."""
    text = script(
        from_imports="from nets import Several", model="model = Several().to(device)", forward=forward, **slots
    )
    return "COLL-RANKFLOW" in findings(text)


@pytest.mark.parametrize(
    "loop",
    [
        f"for i in range(len(out)):\n    if i == 0:\n        {EACH}\n    if i > 0:\n        {EACH}",
        f"for i in range(0, len(out), 2):\n    if i < 4:\n        {EACH}",
        "for i, one in enumerate(out):\n    if i < 2:\n        loss = loss + F.cross_entropy(one, y)",
        "for i, one in enumerate(out, 1):\n    loss = loss + F.cross_entropy(one, y) if i > 1 else loss",
    ],
)
def test_numbers_of_iterations_are_the_same_everywhere(loop: str) -> None:
    assert not told(FEW + loop)


@pytest.mark.parametrize(
    "loop",
    [
        f"for i in range(int(y.sum()), 99):\n    if i > 7:\n        {EACH}",
        f"for i in range(len(out)):\n    if out[i].mean() > 0:\n        {EACH}",
        f"for i in range(len(out)):\n    if i > 0 and loss < 7:\n        {EACH}",
        f"for i in range(3):\n    i = int(y[i])\n    if i > 0:\n        {EACH}",
        "for i, one in enumerate(out, int(y.sum())):\n    if i < 2:\n        loss = loss + F.cross_entropy(one, y)",
        "for one, i in enumerate(y.tolist()):\n    if i < 2:\n        loss = loss + F.cross_entropy(out[one], y)",
        f"for i in range(int(y.sum())):\n    shown = i\nif i > 7:\n    {EACH}",  # how many there were
    ],
)
def test_other_numbers_are_not(loop: str) -> None:
    assert told(FEW + loop)


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("for k, _ in enumerate(torch.nonzero(y == 0)):\n    if k == 8:\n        return", True),
        ("for k in range(int(y.sum())):\n    if k == 18:\n        sys.exit()", True),
        ("for k in range(int(y.sum())):\n    if k == 18:\n        optimizer.step()", True),
        ("for k in range(int(y.sum())):\n    if k == 18:\n        break", False),
        ("for k in range(int(y.sum())):\n    if k > 18:\n        continue", False),
        ("for k in range(20):\n    if k == 18:\n        return", False),
        ("for k in [1, len(y)]:\n    for j in range(3):\n        if j == 2:\n            optimizer.step()", False),
    ],
)
def test_only_some_processes_come_to_the_iteration_with_a_number(loop: str, expected: bool) -> None:
    assert ("COLL-RANKFLOW" in findings(script(main=True, imports="import sys", batch_end=loop))) is expected


TRAIN = """\
def train(model, loader, optimizer, early, most=3):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        if {test}:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
NO_LOOP = dict.fromkeys(("epochs", "loop", "move", "forward", "backward", "step"), "")


@pytest.mark.parametrize(
    ("test", "calls", "expected"),
    [
        ("early and loss.item() < 0.1", ["False"], False),
        ("early and loss.item() < 0.1", ["False", "False"], False),
        ("not early or loss.item() < 0.1", ["True"], True),
        ("early and loss.item() < 0.1", ["True"], True),
        ("early and loss.item() < 0.1", ["False", "True"], True),
        ("early and loss.item() < 0.1", ["bool(len(data))"], True),
    ],
)
def test_what_every_call_says_decides(test: str, calls: list[str], expected: bool) -> None:
    text = script(
        **NO_LOOP,
        definitions=TRAIN.format(test=test),
        after="\n".join(f"train(model, loader, optimizer, {call})" for call in calls),
    )
    assert ("COLL-RANKFLOW" in findings(text)) is expected


@pytest.mark.parametrize(
    ("put", "told_of"),
    [
        ("kept.extend(y.tolist())", True),  # as many as a share has
        ("kept.extend(x[y > 0])", True),
        ("kept.append(loss.item())", False),
        ("kept.extend([loss.item(), epoch])", False),
        ("kept.extend(range(3))", False),
    ],
)
def test_how_much_a_list_has_decides(put: str, told_of: bool) -> None:
    text = script(before="kept = []", batch_end=f"{put}\nif len(kept) > 20:\n    break")
    assert ("COLL-RANKFLOW" in findings(text)) is told_of


def test_how_much_a_set_has_goes_by_what_is_in_it() -> None:
    text = script(before="seen = set()", batch_end="seen.update(y.tolist())\nif len(seen) == 3:\n    break")
    assert "COLL-RANKFLOW" in findings(text)
    assert "COLL-RANKFLOW" not in findings(text.replace("y.tolist()", "[epoch]"))
