"""What the loop measures is followed to where it decides, whatever carries it there."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, added, findings, script, severities

AVERAGED = "accelerator.batch_mean(loss.detach()).item()"
STOPPER = """
class Stopper:
    def __init__(self, losses):
        self.losses = losses

    def stops(self):
        return self.losses[-1] < 0.5
"""


def told(text: str) -> list[str]:
    return [code for code in findings(text) if code in ("METRIC-TRAIN", "COLL-RANKFLOW")]


def stopping(test: str) -> str:
    return f"if {test}:\n    break"


@pytest.mark.parametrize(
    ("before", "name", "test"),
    [
        ("seen = []\nsame = seen", "seen", "same[-1] < 0.5"),
        ('history = {"loss": []}\nseen = history["loss"]', "seen", 'history["loss"][-1] < 0.5'),
        ("seen = []\nstopper = Stopper(seen)", "seen", "stopper.stops()"),
        ("seen = []\nlast = lambda: seen[-1]", "seen", "last() < 0.5"),
        ("seen = []\ndef last():\n    return seen[-1]", "seen", "last() < 0.5"),
    ],
)
@pytest.mark.parametrize("main", [False, True])
def test_a_list_that_has_another_name(before: str, name: str, test: str, main: bool) -> None:
    slots = {"definitions": STOPPER, "before": before, "batch_end": f"{name}.append(loss.item())", "main": main}
    text = script(**slots, epoch_end=stopping(test))  # type: ignore[arg-type]
    assert f"{name}.append({AVERAGED})" in added(text)
    assert told(text) == []


def test_a_name_that_every_iteration_gives_a_list() -> None:
    named = 'seen = history["loss"]\nseen.append(loss.item())'
    slots = {"before": 'history = {"loss": []}', "batch_end": named}
    text = script(**slots, epoch_end=stopping('history["loss"][-1] < 0.5'))
    assert f"seen.append({AVERAGED})" in added(text)
    assert told(text) == []
    assert told(script(**slots)) == []


def test_another_entry_is_another_list() -> None:
    before = 'history = {"loss": [], "epochs": []}\nseen = history["loss"]'
    text = script(before=before, batch_end="seen.append(loss.item())", epoch_end=stopping('len(history["epochs"]) > 9'))
    assert told(text) == []
    assert not any("batch_mean" in line for line in added(text))


def test_a_list_that_is_only_shown_by_another_name() -> None:
    text = script(before="seen = []\nsame = seen", batch_end="seen.append(loss.item())", epoch_end="print(same)")
    assert told(text) == ["METRIC-TRAIN"]


@pytest.mark.parametrize(
    ("before", "put", "test"),
    [
        ("left = [1, 2, 3]", "left.pop()", "not left"),
        ("left = [1, 2, 3]", "del left[0]", "not left"),
        ("bad = []", "bad.append(epoch)", "len(bad) > 3"),
        ("event = threading.Event()", "event.set()", "event.is_set()"),
        ("bad = itertools.count()", "next(bad)", "next(bad) > 3"),
        ("model.stop_training = False", "model.stop_training = True", "model.stop_training"),
    ],
)
@pytest.mark.parametrize("slot", ["batch_end", "epoch_end"])
def test_what_is_changed_where_a_share_says_so(before: str, put: str, test: str, slot: str) -> None:
    slots = {"imports": "import itertools\nimport threading", "before": before}
    slots["batch_end"] = f"if loss.item() < 0.5:\n    {put}\n"
    slots[slot] = slots.get(slot, "") + stopping(test)
    assert severities(script(**slots), "COLL-RANKFLOW") == ["error"]


@pytest.mark.parametrize(
    ("before", "put", "test"),
    [
        ("left = [1, 2, 3]", "left.pop()", "not left"),
        ("bad = []", "bad.append(epoch)", "len(bad) > 99"),
        ("model.stop_training = False", "model.stop_training = True", "model.stop_training"),
    ],
)
def test_what_every_process_changes_alike(before: str, put: str, test: str) -> None:
    slots = {"before": before, "batch_end": f"if epoch > 0:\n    {put}", "epoch_end": stopping(test)}
    assert told(script(**slots)) == []


@pytest.mark.parametrize(
    ("before", "put", "test"),
    [
        ("best = np.ones(1)", "np.minimum(best, loss.item(), out=best)", "best[0] < 0.5"),
        ("state = Stopper(9.0)", 'setattr(state, "last", loss.item())', "state.last < 0.5"),
    ],
)
def test_what_is_put_into_an_argument(before: str, put: str, test: str) -> None:
    slots = {"imports": "import numpy as np", "definitions": STOPPER, "before": before, "batch_end": put}
    assert told(script(**slots, epoch_end=stopping(test))) == ["COLL-RANKFLOW"]
    assert told(script(**slots)) == []


@pytest.mark.parametrize("sets", ["stop = value < 0.5", "if value < 0.5:\n        stop = True"])
def test_a_global_that_a_function_sets_and_the_loop_asks_for(sets: str) -> None:
    check = f"stop = False\ndef check(value):\n    global stop\n    {sets}\n"
    ends = f"check(loss.item())\n{stopping('stop')}"
    assert told(script(definitions=check, batch_end=ends)) == ["COLL-RANKFLOW"]
    assert told(script(definitions=check, batch_end=ends.replace("loss.item()", "epoch"))) == []


def test_a_flag_of_the_network_that_a_function_sets() -> None:
    check = "def check(net, value):\n    if value < 0.5:\n        net.stop = True\n"
    ends = f"check(model, loss.item())\n{stopping('model.stop')}"
    assert told(script(definitions=check, before="model.stop = False", batch_end=ends)) == ["COLL-RANKFLOW"]


@pytest.mark.parametrize(("test", "codes"), [("loss.item() > 0.5", ["COLL-RANKFLOW"]), ("steps < 9", [])])
def test_a_loop_that_goes_on_while_a_share_says_so(test: str, codes: list[str]) -> None:
    body = "x, y = next(batches)\n    steps += 1\n    x, y = x.to(device), y.to(device)\n    optimizer.zero_grad()"
    loop = (
        f"while {test}:\n    {body}\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    optimizer.step()"
    )
    before = "batches = iter(loader)\nsteps = 0\nloss = torch.ones(1)"
    text = script(**{**NO_LOOP, "before": before, "after": loop})
    assert told(text) == codes


CYCLE = "def cycle(loader):\n    while True:\n        for batch in loader:\n            yield batch\n"


@pytest.mark.parametrize(("test", "codes"), [("loss.item() < 0.5", ["COLL-RANKFLOW"]), ("epoch > 0", [])])
def test_a_batch_that_some_processes_leave_out(test: str, codes: list[str]) -> None:
    slots = {"definitions": CYCLE, "before": "batches = cycle(loader)", "loop": "for step in range(4):"}
    slots |= {"move": "x, y = next(batches)\nx, y = x.to(device), y.to(device)"}
    assert told(script(**slots, batch_end=f"if {test}:\n    next(batches)")) == codes
