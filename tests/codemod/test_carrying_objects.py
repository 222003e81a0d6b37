"""Objects of the script that carry something of each batch to the next one, for the loss."""

from __future__ import annotations

import pytest
from scripts import findings, script

BASELINE = """\
class Baseline:
    def __init__(self):
        self.kept = 0.0
        self.rate = 0.9

    def {method}(self, cost):
        {lines}

class Fixed:
    def {method}(self, cost):
        return 0.5"""
AVERAGE = "self.kept = self.rate * self.kept + 0.1 * cost.mean().detach()\nreturn self.kept"
FORWARD = """\
optimizer.zero_grad()
cost = F.cross_entropy(model(x), y, reduction='none')
{line}"""


def keeping(
    lines: str = AVERAGE,
    line: str = "loss = (cost - baseline.of(cost)).mean()",
    method: str = "of",
    made: str = "Baseline()",
) -> list[str]:
    definitions = BASELINE.format(method=method, lines=lines.replace("\n", "\n" + " " * 8))
    text = script(definitions=definitions, before=f"baseline = {made}", forward=FORWARD.format(line=line))
    return [code for code in findings(text) if code not in ("LOSS-UNKNOWN", "METRIC-TRAIN")]


@pytest.mark.parametrize(
    "lines",
    [
        AVERAGE,
        "self.kept += cost.mean().item()\nreturn self.kept / 3",
        "kept = self.rate * self.kept + cost.mean()\nself.kept = kept.detach()\nreturn kept, 2",
        "old = self.kept\nself.kept = old + cost.detach().sum()\nreturn old",
    ],
)
def test_what_it_carries_is_of_the_share(lines: str) -> None:
    line = "loss = (cost - baseline.of(cost)).mean()"
    if lines.endswith("2"):
        line = "mean, more = baseline.of(cost)\nloss = (cost - mean).mean()"
    assert keeping(lines, line) == ["BUFFER-OWN"]


def test_one_of_several_and_one_that_is_called() -> None:
    assert keeping(made="Baseline() if len(data) > 9 else Fixed()") == ["BUFFER-OWN"]
    assert keeping(method="__call__", line="loss = (cost - baseline(cost)).mean()") == ["BUFFER-OWN"]


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (AVERAGE, "loss = cost.mean()\nbaseline.of(cost)"),  # a meter
        ("self.kept = cost.mean().detach()\nreturn self.kept", "loss = (cost - baseline.of(cost)).mean()"),  # of now
        ("self.kept += len(cost)\nreturn 1", "loss = cost.mean() * baseline.of(cost)"),
        ("self.kept += 1\nreturn 1 / self.kept", "loss = cost.mean() * baseline.of(cost)"),  # counts steps
        ("self.kept = self.rate * self.kept + cost.mean()\nreturn 2", "loss = cost.mean() * baseline.of(cost)"),
    ],
)
def test_what_no_loss_goes_by_is_not(lines: str, line: str) -> None:
    assert "BUFFER-OWN" not in keeping(lines, line)
