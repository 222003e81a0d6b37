"""What to do about what one process adds up of its share, where a decision depends on it."""

from __future__ import annotations

import pytest
from scripts import convert, script

BEST = "if seen < best:\n    best = seen\n    torch.save(model.state_dict(), 'best.pt')"


@pytest.mark.parametrize(
    ("adds", "how"),
    [
        ("seen += len(y) / len(str(loss))", "add it up across processes"),
        ("seen += loss.item() / len(str(loss))", "average it across processes"),
    ],
)
def test_sums_and_numbers_of_samples_are_added_up(adds: str, how: str) -> None:
    slots = {"before": "seen = 0\nbest = 9"}
    plan = convert(script(**slots, batch_end=adds, epoch_end=BEST)).plan
    found = [f.remedy for f in plan.findings if f.code == "COLL-RANKFLOW"] if plan is not None else []
    assert [remedy.startswith(how) for remedy in found] == [True], found
