"""Batches that a script looks at once their loader is prepared are shares."""

from __future__ import annotations

import pytest
from accelift_codemod.plan import Severity
from scripts import convert, converted, findings, lifted, script

SHOW = "first, labels = next(iter(loader))\nprint(first.shape)"


def notes(**slots: str) -> int:
    return findings(script(**slots)).count("METRIC-TRAIN")


@pytest.mark.parametrize(
    "slots",
    [
        {"after": SHOW},
        {"epoch": SHOW},
        {"epoch_end": SHOW},
        {"after": "batches = enumerate(loader)\ni, (first, labels) = next(batches)\nprint(first.shape)"},
        {"after": "batches = iter(loader)\nfirst, labels = next(batches)\nprint(model(first.to(device)).mean())"},
        {
            "definitions": "def show():\n    first, labels = next(iter(loader))\n    print(first.sum())",
            "before": "show()",
            "after": "show()",
        },
    ],
)
def test_a_look_at_a_share_is_noted(slots: dict[str, str]) -> None:
    assert notes(**slots) == 1


OTHER = "loader = DataLoader(data, batch_size=16, shuffle=True)\nother = DataLoader(data, batch_size=16)"
EVALUATED = "for x, y in other:\n    print(F.cross_entropy(model(x.to(device)), y.to(device)).item())"
REPLICATED = "for x, y in other:\n    print(x.flatten(0).sum())\n    print(model(x.to(device)).sum().item())"
LOOK = "\nfirst, labels = next(iter(other))\nprint(first[15], model(first.to(device)).argmax(1)[15])"


@pytest.mark.parametrize(("loop", "noted"), [(EVALUATED, 1), (REPLICATED, 0), ("", 0)])
def test_a_look_at_what_an_evaluation_is_dealt(loop: str, noted: int) -> None:
    """A loader that is not shared out deals whole batches."""
    assert notes(loader=OTHER, after=loop + LOOK) == noted


@pytest.mark.parametrize(
    ("shown", "severity"),
    [
        ("for i in range(16):\n    print(labels[i])", Severity.WARNING),
        ("for i in np.arange(16):\n    show(first[i], labels)", Severity.WARNING),
        ("first = first.numpy()\nprint(first[9])", Severity.WARNING),
        ("found = model(first.to(device)).argmax(1)\nfor i in range(4):\n    print(found[i])", Severity.WARNING),
        ("print(first[0], labels[0].item())", Severity.NOTE),
        ("for i in range(len(labels)):\n    print(labels[i])", Severity.NOTE),
        ("for i in range(first.size(0)):\n    print(labels[i])", Severity.NOTE),
        ("print(first[:16])", Severity.NOTE),
        ("show(first[0], labels)", Severity.NOTE),  # which picks columns of one row
    ],
)
def test_rows_that_a_share_may_not_have(shown: str, severity: Severity) -> None:
    text = script(
        imports="import numpy as np",
        definitions="def show(row, labels):\n    print(row[3])",
        loader=OTHER,
        after=f"{EVALUATED}\nfirst, labels = next(iter(other))\n{shown}",
    )
    assert (plan := convert(text).plan) is not None
    assert [f.severity for f in plan.findings if f.code == "METRIC-TRAIN"] == [severity]


@pytest.mark.parametrize(
    "slots",
    [
        {"before": SHOW},  # at a whole batch
        {"after": "width = next(iter(loader))[0].size(1)"},
        {"after": "width = next(iter(loader))[0].shape[-1]"},
        {"loop": "batches = iter(loader)\nfor step in range(4):", "move": "x, y = next(batches)"},
        {
            "loop": "batches = iter(loader)\nfor step in range(4):",
            "definitions": "def draw(batches):\n    return next(batches)",
            "move": "x, y = draw(batches)",
        },
        {"after": "other = DataLoader(data, batch_size=4)\nfirst, labels = next(iter(other))\nprint(first.shape)"},
        {"after": "numbers = iter([1, 2])\nprint(next(numbers))"},
    ],
)
def test_other_draws_are_not(slots: dict[str, str]) -> None:
    assert notes(**slots) == 0


def test_the_look_stays_as_it_is() -> None:
    assert converted(script(after="first, labels = next(iter(loader))")) == lifted(
        after="first, labels = next(iter(loader))"
    )


PROBE = """\
def probe():
    x, y = next(iter(loader))
    with torch.no_grad():
        return F.cross_entropy(model(x.to(device)), y.to(device)).item()
"""


@pytest.mark.parametrize(
    "epoch_end",
    [
        "found = probe()\nif found < best:\n    best = found\n    torch.save(model.state_dict(), 'a.pt')",
        "if probe() < 0.1:\n    break",
        "schedule.step(probe())",
        "history.append(probe())\nif min(history) < 0.1:\n    break",
        "x, y = next(iter(loader))\nif F.cross_entropy(model(x.to(device)), y.to(device)) < 0.1:\n    break",
    ],
)
def test_a_look_that_decides(epoch_end: str) -> None:
    before = "best, history = 9.0, []\nschedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"
    codes = findings(script(definitions=PROBE, before=before, epoch_end=epoch_end))
    assert codes == ["COLL-RANKFLOW"]


@pytest.mark.parametrize(
    "epoch_end",
    [
        "print(probe())",
        "found = probe()\nif epoch:\n    torch.save(model.state_dict(), 'a.pt')",
        "history.append(probe())\nif len(history) > 5:\n    break",
        "x, y = next(iter(loader))\nif x.dim() > 2:\n    break",
    ],
)
def test_a_look_that_decides_nothing(epoch_end: str) -> None:
    codes = findings(script(definitions=PROBE, before="history = []", epoch_end=epoch_end))
    assert codes == ["METRIC-TRAIN"]
