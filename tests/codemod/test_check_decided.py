"""`accelift check` of what all processes do together, but each decides for itself whether it takes part."""

from __future__ import annotations

import pytest

from tests.codemod.checks import findings, marked, script

WAITS = "accelerator.wait_for_everyone()"
JOIN = "def join(accelerator, value):\n    return accelerator.gather(value)\n"

REPORTED = [
    script(batch_end=f"if loss.item() < 1:\n    {WAITS}  # HERE"),
    script("accelift", batch_end="if loss.item() < 1:\n    print(accelerator.gather(loss))  # HERE"),
    script(backward="if not torch.isnan(loss):\n    accelerator.backward(loss)  # HERE"),
    script(definitions=JOIN, batch_end="if y.sum() > 3:\n    join(accelerator, loss)  # HERE"),
    script(batch_end=f"if loss.item() < 1:\n    {WAITS}  # HERE\nelse:\n    accelerator.print('high')"),
    script(batch_end=f"if epoch > 0:\n    if loss.item() < 1:\n        {WAITS}  # HERE"),
]
SILENT = [
    script(batch_end=f"if accelerator.gather(loss).mean() < 1:\n    {WAITS}"),
    script(batch_end=f"if epoch > 0:\n    {WAITS}"),
    script(batch_end=f"if len(y) > 3 and y is not None and loss.requires_grad:\n    {WAITS}"),
    script(batch_end="if loss.item() < 1:\n    accelerator.set_trigger()"),
    script(batch_end="if loss.item() < 1:\n    accelerator.gather(loss)\nelse:\n    accelerator.gather(loss * 0)"),
    script(batch_end="if loss.item() < 1:\n    accelerator.print('low')"),
    script(imports="import project", batch_end=f"if project.agrees(loss):\n    {WAITS}"),
    script(definitions=f"def later():\n    {WAITS}\n", batch_end="if loss.item() < 1:\n    done = later\nlater()"),
]


@pytest.mark.parametrize("text", REPORTED)
def test_what_some_may_not_come_to_is_reported(text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, "COLL-RANKFLOW")] == marked(text)


@pytest.mark.parametrize("text", SILENT)
def test_what_all_come_to_is_not(text: str) -> None:
    assert findings(text, "COLL-RANKFLOW") == []
