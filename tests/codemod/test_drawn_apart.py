"""Random numbers that a process draws where its share says so, from a generator that goes on."""

from __future__ import annotations

import pytest
from scripts import script, severities

NOISY = "def noisy(value):\n    return value + torch.rand(1)\n"


def told(drawn: str, test: str = "loss.item() < 1", **slots: str) -> list[str]:
    slots = {"imports": "import random", "definitions": NOISY, "setup": "random.seed(0)\ntorch.manual_seed(0)", **slots}
    return severities(script(**slots, batch_end=f"if {test}:\n    {drawn}"), "COLL-RANKFLOW")


@pytest.mark.parametrize("drawn", ["torch.rand(4)", "print(torch.randn(2))", "noisy(loss)"])
def test_what_some_processes_draw_alone(drawn: str) -> None:
    assert told(drawn) == ["warning"]
    assert told(drawn, test="epoch > 0") == []


def test_what_is_drawn_elsewhere_from_the_same_generator() -> None:
    again = "if random.random() < 0.5:\n    print(epoch)"
    assert told("random.random()", epoch_end=again) == ["warning"]
    assert told("random.random()") == []


@pytest.mark.parametrize(
    ("drawn", "slots"),
    [
        ("torch.rand(4)", {"loader": "loader = DataLoader(data, batch_size=16)"}),
        ("torch.rand(4, generator=own)", {"before": "own = torch.Generator()"}),
        ("torch.rand(4, device=device)", {}),  # a GPU has a generator of its own
        ("torch.zeros(4)", {}),
    ],
)
def test_what_nothing_else_is_drawn_from(drawn: str, slots: dict[str, str]) -> None:
    assert told(drawn, **slots) == []
