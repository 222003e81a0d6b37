"""BATCH-SEEN: what is made with as many rows as a batch had that was looked at before training."""

from __future__ import annotations

import pytest
from scripts import findings, script

LOOK = "first, labels = next(iter(loader))"


def codes(before: str, used: str, look: str = LOOK) -> list[str]:
    """The findings about sizes of a script that looks at a batch, makes something, and uses it in training."""
    forward = f"optimizer.zero_grad()\n{used}\nloss = F.cross_entropy(model(x), y)"
    return [code for code in findings(script(before=f"{look}\n{before}", forward=forward)) if code == "BATCH-SEEN"]


@pytest.mark.parametrize(
    ("before", "used"),
    [
        ("rows, width = first.shape", "x = x.view(rows, -1)"),
        ("rows, width = first.size()", "x = x + torch.zeros(rows, 1)"),
        ("rows = first.size(0)", "x = x + torch.zeros(rows, 1)"),
        ("rows = first.shape[0]\nmask = torch.ones(rows, 1)", "x = x * mask"),
        ("rows = len(first)\nmask = torch.ones(2 * rows // 2, 1)", "x = x * mask"),
        ("mask = torch.ones(first.shape)", "x = x * mask"),
        ("mask = torch.zeros_like(first).to(device)", "x = x * mask"),
        ("first = first.to(device)\nmask = torch.zeros_like(first)", "x = torch.add(x, mask)"),
        ("", "x = x + first"),
    ],
)
def test_rows_of_a_batch_that_was_looked_at_are_reported(before: str, used: str) -> None:
    assert codes(before, used) == ["BATCH-SEEN"]


def test_a_loop_that_ends_at_once_is_a_look_and_so_is_one_in_a_function() -> None:
    used = "x = x.view(rows, -1)"
    assert codes("rows = first.size(0)", used, "for first, labels in loader:\n    break") == ["BATCH-SEEN"]
    assert codes("rows = count()", used, "def count():\n    return next(iter(loader))[0].size(0)") == ["BATCH-SEEN"]
    assert codes("rows = count()", used, "def count():\n    return next(iter(loader))[0].size(1)") == []


@pytest.mark.parametrize(
    ("before", "used"),
    [
        ("rows, width = first.shape", "x = x.view(-1, width)"),
        ("width = first.size(1)", "x = x + torch.zeros(len(x), width)"),
        ("width = first.shape[-1]\nmask = torch.ones(1, width)", "x = x * mask"),
        ("rows = first.size(0)", "rows = x.size(0)\nx = x.view(rows, -1)"),
        ("rows = first.size(0)", "seen = epoch * rows"),
        ("mask = torch.ones_like(first)", "total = mask.sum()"),  # no batch of the loop is there
        ("mask = torch.ones_like(first)", "x = x * mask[: len(x)]"),
        ("mean = first.mean(0)", "x = x - mean"),
        ("", "x = x - first.mean(0)"),
        ("", "x = x + torch.zeros_like(x)"),
    ],
)
def test_other_things_of_it_are_not(before: str, used: str) -> None:
    assert codes(before, used) == []


def test_a_look_at_a_share_is_not_reported() -> None:
    """Where training has begun, the loader is prepared, and what is seen is the process's share."""
    forward = "loss = F.cross_entropy(model(x.view(rows, -1)), y)"
    assert "BATCH-SEEN" not in findings(script(epoch=f"{LOOK}\nrows = first.size(0)", forward=forward))


NETWORK = """\
class Sized(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.rows = rows
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        return self.layer(x)
"""


@pytest.mark.parametrize(("dimension", "expected"), [(0, ["BATCH-SEEN"]), (1, [])])
def test_a_network_made_for_the_rows_of_a_batch(dimension: int, expected: list[str]) -> None:
    loader = f"loader = DataLoader(data, batch_size=16)\n{LOOK}"
    text = script(definitions=NETWORK, loader=loader, model=f"model = Sized(first.size({dimension})).to(device)")
    assert [code for code in findings(text) if code == "BATCH-SEEN"] == expected


FLAT = "class Flat(Net):\n    def forward(self, x):\n        return self.layer(x.view(x.size(0), -1))\n"


def test_what_a_network_asks_of_each_of_its_inputs_is_not_reported() -> None:
    loader = f"loader = DataLoader(data, batch_size=16)\n{LOOK}"
    shown = "print(model(first.to(device)).shape)"
    assert "BATCH-SEEN" not in findings(
        script(definitions=FLAT, loader=loader, model="model = Flat().to(device)", before=shown)
    )
