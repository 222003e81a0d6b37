"""A training loop in a generator: what it yields is that of all processes where callers decide by it."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, added, findings, script

AVERAGED = "accelerator.batch_mean(loss.detach()).item()"
EARLY = "total = 0.0\nfor loss in epoch(loader):\n    total += loss\nif total / len(loader) < 0.5:\n    break"


GENERATOR = """\
def epoch(loader):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        {}
"""


def trained(yielded: str, epoch: str) -> str:
    """A script that trains in a generator which yields something for each batch."""
    slots = {**NO_LOOP, "epochs": "for run in range(3):"}
    return script(definitions=GENERATOR.format(yielded), epoch=epoch, **slots)


@pytest.mark.parametrize(
    "epoch",
    [
        EARLY,
        "for loss in epoch(loader):\n    if loss < 0.5:\n        break",
        "losses = list(epoch(loader))\nif sum(losses) / len(losses) < 0.5:\n    break",
        "if sum(epoch(loader)) < 0.5:\n    torch.save(model.state_dict(), 'best.pt')",
        "steps = epoch(loader)\nif next(steps) < 0.5:\n    break",
    ],
)
def test_a_number_that_callers_decide_by_is_that_of_all(epoch: str) -> None:
    text = trained("yield loss.item()", epoch)
    assert f"yield {AVERAGED}" in added(text)
    assert findings(text) == []


def test_of_several_things_the_one_that_decides_is_averaged() -> None:
    text = trained("yield i, loss.item()", EARLY.replace("for loss in", "for step, loss in"))
    assert f"yield i, {AVERAGED}" in added(text)
    text = trained("yield i, loss.item()", "for step, loss in epoch(loader):\n    if step > 2:\n        break")
    assert not any("yield" in line for line in added(text))
    assert findings(text) == []


@pytest.mark.parametrize("yielded", ["yield loss", "yield x, y, loss.item()"])
def test_what_cannot_be_made_that_of_all_is_told_of(yielded: str) -> None:
    epoch = "for found in epoch(loader):\n    if sum(map(torch.sum, found)) < 0.5:\n        break"
    text = trained(yielded, epoch)
    assert "COLL-RANKFLOW" in findings(text)


@pytest.mark.parametrize(
    "epoch", ["for loss in epoch(loader):\n    print(loss)", "losses = list(epoch(loader))\nprint(losses[-1])"]
)
def test_one_that_is_only_shown_stays_that_of_a_share(epoch: str) -> None:
    text = trained("yield loss.item()", epoch)
    assert not any("yield" in line for line in added(text))
    assert findings(text) == ["METRIC-TRAIN"]
