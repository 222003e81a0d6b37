"""What is decided by the clock, by counts of what every process draws, and by functions that schedules ask."""

from __future__ import annotations

import pytest
from scripts import added, findings, script, severities

IMPORTS = "import random\nimport time"
WEIGHED = "optimizer.zero_grad()\nloss = weight * F.cross_entropy(model(x), y)"
BEGUN = "begun = time.time()\nweight = 1.0\nspent = 0.0\nkept = []\nseen = 0\nstop = False"
DROPS = "model = nn.Sequential(nn.Dropout(), Net()).to(device)"
STEPS = "def update(optimizer, begun):\n    if time.time() - begun > 9:\n        optimizer.step()"
SLOWER = "    optimizer.param_groups[0]['lr'] *= 0.5"
NAMES = "def late():\n    return 'late'\n\ndef soon():\n    return 'soon'"
LATE = "if time.time() - begun > 9:\n"


def told(**slots: str) -> bool:
    text = script(**{"imports": IMPORTS, "before": BEGUN, **slots})
    return "COLL-RANKFLOW" in findings(text)


@pytest.mark.parametrize(
    "slots",
    [
        {"step": LATE + "    optimizer.step()"},
        {"step": "optimizer.step() if time.time() - begun > 9 else None"},
        {"step": "update(optimizer, begun)", "definitions": STEPS},
        {"backward": LATE + "    loss.backward()"},
        {"batch_end": LATE + SLOWER},
        {"epoch_end": "late = time.time() - begun > 9\nif late:\n" + SLOWER},
        {"model": DROPS, "batch_end": LATE + "    model.eval()"},
        {"batch_end": "now = time.time()\nspent += now - begun\nif spent > 9:\n    break"},
        {"batch_end": LATE + "    stop = True\nif stop:\n    break"},
        {"batch_end": LATE + "    kept.append(epoch)\nif len(kept) > 9:\n    break"},
        {"batch_end": "optimizer.param_groups[0]['lr'] = 0.1 / (time.time() - begun)"},
        {"batch_end": "rest = 9 - time.time()\nfor g in optimizer.param_groups:\n    g['lr'] = 0.1 * rest"},
        {"forward": f"{WEIGHED}\n{LATE}    loss = 0.5 * loss"},
        {"forward": WEIGHED, "batch_end": LATE + "    weight = 0.5"},
        {"forward": f"weight = 0.5 if time.time() - begun > 9 else 1.0\n{WEIGHED}"},
        {"forward": f"weight = min(1.0, (time.time() - begun) / 60)\n{WEIGHED}"},
    ],
)
def test_the_clock_decides_what_is_trained(slots: dict[str, str]) -> None:
    assert told(**slots)


@pytest.mark.parametrize(
    "slots",
    [
        {"batch_end": LATE + "    torch.save(model.state_dict(), 'model.pt')"},  # the main process does
        {"batch_end": "if begun:\n" + SLOWER},
        {"batch_end": LATE + "    kept.append(epoch)\nif len(kept) > 9:\n    print(epoch)"},
        {"batch_end": "spent += time.time() - begun\nif epoch > 1:\n" + SLOWER},
        {
            "before": f"{BEGUN}\nc = {{'begun': time.time(), 'lr': 0.1}}",
            "epoch": "optimizer.param_groups[0]['lr'] = c['lr']",
        },
        {"batch_end": "if epoch > 3:\n    seen += 1\nif seen > 3:\n    break"},
        {"forward": WEIGHED, "batch_end": LATE + "    seen += 1"},
        {"forward": WEIGHED, "batch_end": "weight = 0.9 * weight\nspent = (time.time() - begun) / 60"},
        {"definitions": NAMES, "batch_end": "print((late if time.time() - begun > 9 else soon)())"},
    ],
)
def test_what_else_the_clock_says(slots: dict[str, str]) -> None:
    assert not told(**slots)


@pytest.mark.parametrize(
    "end",
    [
        "if random.random() < 0.5:\n    seen += 1\nif seen > 3:\n    break",
        "if random.random() < 0.5:\n    kept.append(1)\nif len(kept) > 3:\n" + SLOWER,
        "r = random.random()\nlow = r < 0.5\nif low:\n    break",
    ],
)
def test_counts_of_what_is_drawn(end: str) -> None:
    assert told(batch_end=end)
    assert not told(batch_end=end, setup="random.seed(0)")


def scheduled(rate: str, **slots: str) -> str:
    before = f"losses, last = [1.0], 1.0\n{rate}\nschedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)"
    return script(**{"imports": IMPORTS, "before": before, "epoch_end": "schedule.step()", **slots})


def test_a_function_that_a_schedule_asks_for_the_rate() -> None:
    text = scheduled("def rate(epoch):\n    return losses[-1]", batch_end="losses.append(loss.item())")
    assert "losses.append(accelerator.batch_mean(loss.detach()).item())" in added(text)
    text = scheduled("def rate(epoch):\n    return 1.0 if last > 1 else 0.1", batch_end="last = loss.item()")
    assert "last = accelerator.batch_mean(loss.detach()).item()" in added(text)
    text = scheduled("def rate(epoch):\n    return losses[-1]", batch_end="losses.append(loss.item() + len(str(loss)))")
    assert severities(text, "COLL-RANKFLOW") == ["error"]


PACE = """
class Pace:
    def __init__(self):
        self.last = 1.0

    def note(self, loss):
        self.last = loss

    def rate(self, epoch):
        return self.last
"""


@pytest.mark.parametrize(("note", "averaged"), [("pace.note(loss.item())", True), ("print(loss.item())", False)])
def test_a_method_that_a_schedule_asks_for_the_rate(note: str, averaged: bool) -> None:
    text = scheduled("pace = Pace()\nrate = 0.1", definitions=PACE, batch_end=note)
    text = text.replace("LambdaLR(optimizer, rate)", "LambdaLR(optimizer, pace.rate)")
    assert ("pace.note(accelerator.batch_mean(loss.detach()).item())" in added(text)) is averaged


def test_a_method_that_tells_the_time() -> None:
    text = scheduled("pace = Pace()\nrate = 0.1", definitions=PACE.replace("self.last\n", "time.time()\n"))
    text = text.replace("LambdaLR(optimizer, rate)", "LambdaLR(optimizer, pace.rate)")
    assert severities(text, "COLL-RANKFLOW") == ["error"]


@pytest.mark.parametrize("told", ["took = time.time() - 1\n    print(took)", "print(time.time())"])
def test_one_that_tells_the_time(told: str) -> None:
    assert severities(scheduled(f"def rate(epoch):\n    {told}\n    return 0.9**epoch"), "COLL-RANKFLOW") == []
    text = scheduled("def rate(epoch):\n    took = time.time() - 1\n    print(took)\n    return 1 / took")
    assert severities(text, "COLL-RANKFLOW") == ["error"]


@pytest.mark.parametrize(("bound", "told"), [("begun, rate = {}, 0.1", False), ("begun, rate = 0.1, {}", True)])
@pytest.mark.parametrize("asked", ["time.time()", "random.random()"])
def test_what_is_set_beside_a_rate(bound: str, told: bool, asked: str) -> None:
    made = "optimizer = torch.optim.SGD(model.parameters(), lr=rate)"
    text = script(imports=IMPORTS, before=f"{bound.format(asked)}\n{made}\nprint(begun)")
    assert ("COLL-RANKFLOW" in findings(text)) is told


@pytest.mark.parametrize("drawn", ["random.random()", "time.time() % 2"])
def test_one_that_draws_or_asks_the_time(drawn: str) -> None:
    text = scheduled(f"def rate(epoch):\n    return 1.0 if {drawn} > 1 else 0.1")
    assert severities(text, "COLL-RANKFLOW") == ["error"]


@pytest.mark.parametrize(
    "rate",
    ["def rate(epoch):\n    print(losses[-1])\n    return 0.9**epoch", "def rate(epoch):\n    return 0.9**epoch"],
)
def test_one_that_decides_by_the_epoch(rate: str) -> None:
    text = scheduled(rate, batch_end="losses.append(loss.item())")
    assert not any("batch_mean" in line for line in added(text))
    assert severities(text, "COLL-RANKFLOW") == []


def test_a_list_that_a_function_reads() -> None:
    reads = "losses = [1.0]\ndef rate():\n    return 0.1 if losses[-1] < 1 else 1.0"
    end = "for group in optimizer.param_groups:\n    group['lr'] = rate()"
    text = script(before=reads, batch_end="losses.append(loss.item())", epoch_end=end)
    assert "losses.append(accelerator.batch_mean(loss.detach()).item())" in added(text)
    shown = script(before=reads, batch_end="losses.append(loss.item())", epoch_end="print(rate())")
    assert not any("batch_mean" in line for line in added(shown))


@pytest.mark.parametrize(
    ("bound", "told"),
    [
        ("out, took = model(x), time.time()", []),
        ("out, weight = model(x), time.time()", ["error"]),
        ("out, (weight, took) = model(x), (1.0, time.time())", ["error"]),  # not taken apart
    ],
)
def test_what_is_set_beside_a_loss(bound: str, told: list[str]) -> None:
    forward = f"optimizer.zero_grad()\nweight = 1.0\n{bound}\nloss = weight * F.cross_entropy(out, y)"
    assert severities(script(imports=IMPORTS, forward=forward), "COLL-RANKFLOW") == told


@pytest.mark.parametrize(("entry", "averaged"), [("epoch {epoch}", True), ("loss {loss:.2f}", False)])
def test_a_text_beside_the_loss_in_a_list(entry: str, averaged: bool) -> None:
    """By a loss in a text a file may be named, which is written by that name elsewhere."""
    text = script(
        before="scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\nkept = []",
        batch_end=f"kept.append((f'{entry}', loss.item()))",
        epoch_end="scheduler.step(kept[-1][1])",
    )
    assert any("batch_mean" in line for line in added(text)) is averaged


@pytest.mark.parametrize(
    ("counts", "leaves", "told"),
    [
        ("if time.time() - begun > 60:\n    state.late += 1", "if state.late > 3:\n    break", 1),
        ("if time.time() - begun > 60:\n    state.late = True", "if state.late:\n    break", 1),
        ("state.late += 1", "if state.late > 3:\n    break", 0),
        ("if time.time() - begun > 60:\n    state.late += 1", "if state.number > 3:\n    break", 0),
    ],
)
def test_what_an_object_counts_by_the_clock(counts: str, leaves: str, told: int) -> None:
    text = script(
        imports="import time\nfrom types import SimpleNamespace",
        before="state = SimpleNamespace(late=0, number=0)\nbegun = time.time()",
        batch_end=f"{counts}\n{leaves}",
    )
    assert findings(text).count("COLL-RANKFLOW") == told
