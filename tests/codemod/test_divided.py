"""What a training loop adds up over a share, divided by the size of the whole batch."""

from __future__ import annotations

import pytest
from accelift_codemod.plan import Severity
from scripts import convert, converted, script

COUNT = "(model(x).argmax(1) == y).sum().item()"
SIZED = "batch_size = 16"
LOADER = "loader = DataLoader(data, batch_size=batch_size, shuffle=True)"


def warned(text: str) -> list[str]:
    """The divisions that are warned of."""
    result = convert(text)
    assert result.plan is not None
    found = [f for f in result.plan.findings if f.code == "METRIC-TRAIN" and f.severity is Severity.WARNING]
    return [f.message.split("`")[1] for f in found]


@pytest.mark.parametrize(
    ("division", "loader"),
    [
        (f"{COUNT} / 16", "loader = DataLoader(data, batch_size=16, shuffle=True)"),
        (f"{COUNT} / batch_size", LOADER),
        (f"100.0 * {COUNT} / batch_size", LOADER),
        (f"{COUNT} / loader.batch_size", LOADER),
        (f"{COUNT} / float(batch_size * 3)", LOADER),
        ("F.cross_entropy(model(x), y, reduction='sum').item() / batch_size", LOADER),
    ],
)
def test_a_count_by_the_batch_size_is_warned_of(division: str, loader: str) -> None:
    assert warned(script(setup=SIZED, loader=loader, batch_end=f"rate = {division}\nprint(rate)")) == [division]
    assert warned(script(setup=SIZED, loader=loader, batch_end=f"print({division})")) == [division]


@pytest.mark.parametrize("decides", ["if rate > 3:\n    break", "print(rate / len(data))"])
def test_a_count_of_all_processes_is_not(decides: str) -> None:
    """It is gathered, for something is decided by it, or it is divided by what all processes have."""
    slots = {"setup": SIZED, "loader": LOADER, "epoch": "rate = 0"}
    text = script(batch_end=f"rate += {COUNT} / batch_size", epoch_end=decides, **slots)
    assert warned(text) == []
    assert f"accelerator.gather_for_metrics({COUNT[: -len('.item()')]}" in converted(text)


NOT_FOLLOWED = "from elsewhere import parts"


@pytest.mark.parametrize(
    "hits",
    ["parts(model(x)).eq(y).cpu().sum()", "(parts(model(x)) == y).sum()", "parts(model(x)).eq(y).float().sum().item()"],
)
def test_a_count_of_what_is_not_followed_is_warned_of(hits: str) -> None:
    slots = {"from_imports": NOT_FOLLOWED, "setup": SIZED, "loader": LOADER}
    shown = f"hits = {hits}\nprint(hits / (batch_size * 3))"
    assert warned(script(batch_end=shown, **slots)) == ["hits / (batch_size * 3)"]


@pytest.mark.parametrize(
    "measured",
    [
        "parts(model(x)).eq(y).sum(1)",
        "parts(model(x)).eq(y).float().mean()",
        "parts(model(x)).sum()",
        "(parts(3) == 2).sum()",
    ],
)
def test_what_is_no_count_of_the_batch_is_not(measured: str) -> None:
    slots = {"from_imports": NOT_FOLLOWED, "setup": SIZED, "loader": LOADER}
    assert warned(script(batch_end=f"print({measured} / batch_size)", **slots)) == []


def test_a_count_of_several_batches_by_their_size_is_warned_of() -> None:
    slots = {
        "setup": SIZED,
        "loader": LOADER,
        "epoch": "correct = 0",
        "loop": "for i, (x, y) in enumerate(loader):",
    }
    seen = "correct / ((i + 1) * batch_size)"
    assert warned(script(batch_end=f"correct += {COUNT}\nprint({seen})", **slots)) == [seen]


@pytest.mark.parametrize(
    "rate",
    [
        f"{COUNT} / len(y)",
        f"{COUNT} / y.size(0)",
        f"{COUNT} / 8",  # another number
        f"{COUNT} * batch_size",
        "loss.item() / batch_size",  # a mean
        "(model(x).argmax(1) == y).float().mean().item() / batch_size",
        "epoch / batch_size",
    ],
)
def test_other_divisions_are_not(rate: str) -> None:
    assert warned(script(setup=SIZED, loader=LOADER, batch_end=f"rate = {rate}\nprint(rate)")) == []


def test_the_loss_is_none_of_them() -> None:
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, reduction='sum') / batch_size"
    assert warned(script(setup=SIZED, loader=LOADER, forward=forward)) == []


def test_a_count_over_all_batches_is_that_of_all_processes() -> None:
    slots = {"setup": SIZED, "loader": LOADER, "epoch": "correct = 0", "batch_end": f"correct += {COUNT}"}
    text = script(epoch_end="print(correct / (len(loader) * batch_size))", **slots)
    result = convert(text)
    assert result.output is not None and b"gather_for_metrics(" in result.output and warned(text) == []
    plain = convert(script(epoch_end="print(correct / (len(loader) * len(y)))", **slots))
    assert plain.output is not None and b"gather_for_metrics(" not in plain.output
