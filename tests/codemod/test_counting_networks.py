"""What networks count in their own methods of what they are run on, and others print or decide by."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script

NET = """\
class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.seen = 0
        self.kept = []

    def count(self, rows):
        {count}

    def forward(self, x):
        {forward}
        return self.layer(x)

    def rate(self):
        return self.seen / 2
"""


def counting(forward: str, count: str = "pass", **slots: str) -> str:
    definitions = NET.format(forward=forward, count=count)
    return script(definitions=definitions, model="model = Counting().to(device)", **slots)


@pytest.mark.parametrize(
    ("forward", "count"),
    [
        ("self.seen += x.size(0)", "pass"),
        ("self.seen = self.seen + len(x)", "pass"),
        ("rows = x.shape[0]\n        self.seen += rows", "pass"),
        ("self.seen += x.mean().item()", "pass"),
        ("mean = x.mean().item()\n        self.seen = mean", "pass"),
        ("self.count(x)", "self.seen += 2 * len(rows)"),
        ("self.count(len(x))", "self.seen += rows"),
    ],
)
@pytest.mark.parametrize("after", ["print(model.seen)", "print(f'{model.rate():.2f}')", "n = model.seen\nprint(n)"])
def test_what_is_printed_is_told(forward: str, count: str, after: str) -> None:
    assert findings(counting(forward, count, after=after)) == ["METRIC-TRAIN"]


@pytest.mark.parametrize(
    ("forward", "count"),
    [
        ("self.seen += 1", "pass"),
        ("self.seen += x.size(1)", "pass"),
        ("self.seen += x.shape[1] * x.dim()", "pass"),
        ("self.seen = x.size(0)", "pass"),
        ("self.seen = self.layer.weight.norm().item()", "pass"),
        ("self.count(3)", "self.seen += rows"),
        ("seen = len(x)", "pass"),
    ],
)
def test_what_every_process_has_is_not(forward: str, count: str) -> None:
    assert findings(counting(forward, count, after="print(model.seen)")) == []
    assert findings(counting(forward, count, epoch_end="if model.seen > 9:\n    break")) == []


def test_what_nobody_reads_is_not_told() -> None:
    assert findings(counting("self.seen += len(x)")) == []
    assert findings(counting("self.seen += len(x)", epoch_end="model.seen = 0")) == []


@pytest.mark.parametrize(
    "slots",
    [
        {"epoch_end": "if model.seen > 99:\n    break"},
        {"epoch_end": "if model.rate() > 99:\n    break"},
        {"batch_end": "optimizer.param_groups[0]['lr'] = 1 / model.seen"},
    ],
)
def test_what_decides_is_an_error(slots: dict[str, str]) -> None:
    assert findings(counting("self.seen += len(x)", **slots)) == ["COLL-RANKFLOW"]
    assert findings(counting("self.seen += 1", **slots)) == []


def test_lists_of_numbers_and_what_leads_to_a_loss() -> None:
    after = "print(sum(model.kept))"
    assert findings(counting("self.kept.append(x.mean().item())", after=after)) == ["METRIC-TRAIN"]
    assert findings(counting("self.kept.append(1)", after=after)) == []
    assert findings(counting("self.kept = x.mean()", backward="(loss + model.kept).backward()")) == []


BOTH = ["BUFFER-OWN", "LOSS-INBATCH"]  # of the batches before, and of this one


@pytest.mark.parametrize(
    ("forward", "codes"),
    [
        ("self.seen = 0.9 * self.seen + 0.1 * x.abs().max().item()\n        x = x / self.seen", BOTH),
        ("self.seen += len(x)\n        x = x / self.seen", ["BUFFER-OWN"]),
        ("self.seen += 1\n        x = x / self.seen", []),
        ("self.seen += len(x)\n        rate = 2\n        x = x / rate", []),
        ("self.seen += len(x)\n        if self.seen > 9:\n            pass", []),
    ],
)
def test_what_the_network_computes_with_itself(forward: str, codes: list[str]) -> None:
    assert findings(counting(forward)) == codes


@pytest.mark.parametrize(
    ("forward", "slots", "codes"),
    [
        ("self.kept = x.mean()", {"epoch_end": "print(model.kept.item())"}, ["METRIC-TRAIN"]),
        ("self.kept = x.mean()", {"batch_end": "print(model.kept)"}, ["METRIC-TRAIN"]),
        ("self.kept = x.mean()", {"after": "model(data[0][0])\nprint(model.kept.item())"}, []),
        ("self.kept = x.mean()", {"epoch_end": "print(model.kept.shape)"}, []),
        ("self.kept = self.layer.weight", {"epoch_end": "print(model.kept)"}, []),
        (
            "for k in x[:, 0].long().tolist():\n            self.kept[k] += 1",
            {"after": "print(model.kept)"},
            ["METRIC-TRAIN"],
        ),
        ("for k in range(3):\n            self.kept[k] += 1", {"after": "print(model.kept)"}, []),
    ],
)
def test_what_a_forward_pass_leaves_and_counts_by_content(
    forward: str, slots: dict[str, str], codes: list[str]
) -> None:
    assert findings(counting(forward, **slots)) == codes
