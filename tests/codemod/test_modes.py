"""Networks that are put into another mode, and gradients that are thrown away, by what one process has measured."""

from __future__ import annotations

import textwrap

import pytest
from scripts import added, converted, findings, script, severities

DROPS = "model = nn.Sequential(nn.Dropout(), Net()).to(device)"
FREEZES = "def freeze(net):\n    net.eval()"
LOW = "if loss.item() < 1:\n"


@pytest.mark.parametrize("then", ["model.eval()", "model[0].eval()", "for part in model.modules():\n    part.eval()"])
def test_a_mode_that_a_share_decides(then: str) -> None:
    assert severities(script(model=DROPS, batch_end=LOW + textwrap.indent(then, "    ")), "COLL-RANKFLOW") == ["error"]


@pytest.mark.parametrize("end", [LOW + "    freeze(model)", "freeze(model) if loss.item() < 1 else None"])
def test_in_a_function(end: str) -> None:
    assert "COLL-RANKFLOW" in findings(script(model=DROPS, definitions=FREEZES, batch_end=end))


def test_a_sum_that_decides_is_that_of_all() -> None:
    text = script(
        model=DROPS,
        epoch="running = 0.0",
        batch_end="running += loss.item()",
        epoch_end="if running / len(loader) < 1:\n    model.eval()",
    )
    assert "running += accelerator.batch_mean(loss.detach()).item()" in converted(text)


@pytest.mark.parametrize(
    "slots",
    [
        {"model": DROPS, "batch_end": "if epoch > 1:\n    model.eval()"},
        {"model": DROPS, "batch_end": LOW + "    model.eval()\n    print(model(x))\n    model.train()"},
        {
            "model": DROPS,
            "forward": "model.train()\nloss = F.cross_entropy(model(x), y)",
            "batch_end": LOW + "    model.eval()",
        },
        {"model": DROPS, "epoch": "model.train()", "epoch_end": LOW + "    model.eval()"},
        {"batch_end": LOW + "    model.eval()"},  # it has one mode
    ],
)
def test_a_mode_that_is_the_same_or_put_back(slots: dict[str, str]) -> None:
    assert "COLL-RANKFLOW" not in findings(script(**slots))


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        ({"step": "if loss.item() > 9:\n    optimizer.zero_grad()\noptimizer.step()"}, True),
        ({"step": "if loss.item() > 9:\n    model.zero_grad()\noptimizer.step()"}, True),
        ({"step": "if epoch > 9:\n    optimizer.zero_grad()\noptimizer.step()"}, False),
        ({"step": "optimizer.step()\nif loss.item() > 9:\n    optimizer.zero_grad()"}, False),
    ],
)
def test_gradients_that_are_thrown_away(slots: dict[str, str], told: bool) -> None:
    assert ("COLL-RANKFLOW" in findings(script(**slots))) is told


SLOWS = "def slow():\n    optimizer.param_groups[0]['lr'] *= 0.5\n\ndef go():\n    pass\n\nways = [go, slow]"


@pytest.mark.parametrize(
    "run",
    [
        "{{True: slow, False: go}}[{}]()",
        "{{True: lambda: slow(), False: lambda: None}}[{}]()",
        "ways[{}]()",
        "[go, slow][{}]()",
        "(slow if {} else go)()",
        "then = slow if {} else go\nthen()",
    ],
)
def test_one_of_several_functions(run: str) -> None:
    assert "COLL-RANKFLOW" in findings(script(before=SLOWS, batch_end=run.format("loss.item() < 1")))
    assert "COLL-RANKFLOW" not in findings(script(before=SLOWS, batch_end=run.format("epoch < 1")))
    leaves = "for n in range(3):\n        if n:\n            break\n    return n"  # nothing but itself
    for alike in ("print(1)", leaves):
        before = SLOWS.replace("optimizer.param_groups[0]['lr'] *= 0.5", alike)
        assert "COLL-RANKFLOW" not in findings(script(before=before, batch_end=run.format("loss.item() < 1")))


def test_a_loop_that_a_branch_goes_through_and_leaves() -> None:
    counts = "if seen[-1] < 1:\n    for n in range(3):\n        if n:\n            break\n    print(n)"
    slots = {"before": "seen = []", "batch_end": "seen.append(loss.item())"}
    assert not any("batch_mean" in line for line in added(script(**slots, epoch_end=counts)))
    ends = f"{counts}\n    break"
    assert any("batch_mean" in line for line in added(script(**slots, epoch_end=ends)))
