"""Guarded statements that change something besides writing: every process has to do that."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script

GUARD = "if accelerator.is_main_process:"
SLOTS = {"imports": "import os\nimport numpy as np", "before": "saved = ['a']\nbad = 0\nbest = {'loss': 9.0}"}


@pytest.mark.parametrize(
    ("write", "part", "rest"),
    [
        ("os.remove(saved.pop(0))", "saved.pop(0)", "os.remove(value)"),
        ("np.save('a.npy', np.random.randn(4))", "np.random.randn(4)", "np.save('a.npy', value)"),
        ("np.save('a.npy', next(numbers))", "next(numbers)", "np.save('a.npy', value)"),
    ],
)
def test_what_every_process_goes_on_with_is_worked_out_before(write: str, part: str, rest: str) -> None:
    after = f"value = {part}\n{GUARD}\n    {rest}"
    assert converted(script(epoch_end=write, **SLOTS)) == lifted(epoch_end=after, **SLOTS)
    assert findings(script(epoch_end=write, **SLOTS)) == []


@pytest.mark.parametrize("change", ["saved.append(n)", "best[n] = n", "del saved[0]", "saved.insert(0, n)"])
def test_what_a_function_keeps_in_a_global_every_process_has_then(change: str) -> None:
    slots = {**SLOTS, "definitions": f"def note(n):\n    {change}\n    return n\n"}
    after = f"value = note(epoch)\n{GUARD}\n    np.save('a.npy', value)"
    assert converted(script(epoch_end="np.save('a.npy', note(epoch))", **slots)) == lifted(epoch_end=after, **slots)


@pytest.mark.parametrize("change", ["saved = [n]\n    saved.append(n)", "best = {}\n    best[n] = n", "saved.index(n)"])
def test_what_a_function_keeps_for_itself_nobody_misses(change: str) -> None:
    slots = {**SLOTS, "definitions": f"def note(n):\n    {change}\n    return n\n"}
    after = f"{GUARD}\n    np.save('a.npy', note(epoch))"
    assert converted(script(epoch_end="np.save('a.npy', note(epoch))", **slots)) == lifted(epoch_end=after, **slots)


@pytest.mark.parametrize(
    "write",
    [
        "os.remove(saved.pop(0) if saved else saved.pop())",  # not always, or more than one
        "np.save('a.npy', torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).cpu())",  # which is edited itself
        "np.save('a.npy', [saved.pop() for _ in range(2)])",
        "np.save('a.npy', (last := epoch))",  # which the others would not have
    ],
)
def test_what_cannot_be_taken_out_is_reported(write: str) -> None:
    assert "COLL-MAIN" in findings(script(epoch_end=write, **SLOTS))


@pytest.mark.parametrize(
    "write",
    [
        "os.remove(saved[0])",
        "np.save('a.npy', np.array(saved))",
        "np.save('a.npy', torch.rand(2, generator=g).numpy())",
    ],
)
def test_what_changes_nothing_stays_in_the_guarded_statement(write: str) -> None:
    slots = {**SLOTS, "setup": "g = torch.Generator()"}
    assert converted(script(epoch_end=write, **slots)) == lifted(epoch_end=f"{GUARD}\n    {write}", **slots)


@pytest.mark.parametrize(
    ("inside", "whole"),
    [
        ("bad += 1", False),
        ("best['loss'] = epoch", False),
        ("best['all'] = []", False),
        ("saved.pop()", False),
        ("del saved[0]", False),
        ("schedule.step()", False),
        ("f.write(str(next(numbers)))", False),
        ("text = str(epoch)\n    f.write(text)", True),
        ("rows = []\n    rows.append(epoch)\n    f.write(str(rows))", True),
        (
            "count = 0\n    count += 1\n    f.write(str(count))",
            False,
        ),  # it may be one from before; the block stays whole
    ],
)
def test_blocks_that_change_what_was_there_before_run_everywhere(inside: str, whole: bool) -> None:
    setup = "numbers = iter(range(9))\nschedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)"
    slots = {"imports": SLOTS["imports"], "before": f"{SLOTS['before']}\n{setup}"}
    output = converted(script(epoch_end=f"with open('log.txt', 'a') as f:\n    {inside}", **slots))
    assert (f"    {GUARD}\n        with open(" in output) == whole
    assert ("os.devnull" in output) == (not whole)
