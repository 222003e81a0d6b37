"""A schedule that an iteration steps is no measure: what it is told may be."""

from __future__ import annotations

import pytest
from scripts import convert, script

PLATEAU = (
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"
)
FEW = "scheduler.step(sum(recent) / len(recent))"


def told(batch_end: str, before: str = "recent = []") -> tuple[list[str], bool]:
    """What is said of decisions, and whether something is averaged."""
    result = convert(script(optimizer=PLATEAU, before=before, batch_end=batch_end))
    assert result.plan is not None and result.output is not None
    said = [found.message for found in result.plan.findings if found.code == "COLL-RANKFLOW"]
    return said, b"accelerator.batch_mean(" in result.output


@pytest.mark.parametrize(
    "batch_end",
    [
        f"recent.append(loss.item())\n{FEW}",
        f"recent.append(loss.item())\nif len(recent) == 5:\n    {FEW}",
        "recent.append(loss.item())\nscheduler.step(metrics=sum(recent))",
    ],
)
def test_what_it_is_told_is_averaged_in_the_loop_as_after_it(batch_end: str) -> None:
    assert told(batch_end) == ([], True)


@pytest.mark.parametrize(
    ("batch_end", "name"),
    [
        (f"recent.append(len(set(y)))\n{FEW}", "recent"),
        ("value = len(set(y))\nscheduler.step(value)", "value"),
        ("scheduler.step(loss.item())", "loss"),
        ("value = len(set(y))\nscheduler.step(metrics=value)", "value"),
    ],
)
def test_what_cannot_be_averaged_is_named(batch_end: str, name: str) -> None:
    said, _ = told(batch_end)
    assert [message.partition(" ")[0] for message in said] == [f"`{name}`"]


@pytest.mark.parametrize("batch_end", ["scheduler.step(epoch)", "recent.append(epoch)\nscheduler.step(len(recent))"])
def test_what_is_the_same_everywhere_is_left(batch_end: str) -> None:
    assert told(batch_end) == ([], False)
