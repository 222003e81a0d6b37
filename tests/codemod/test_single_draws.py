"""Loops that draw each batch from a new pass over their loader: `x, y = next(iter(loader))`."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script, unchanged

STEPS = {"epochs": "for epoch in range(1):", "loop": "for step in range(7):"}


@pytest.mark.parametrize(
    "draw",
    ["next(iter(loader))", "loader.__iter__().__next__()", "iter(loader).next()"],
)
def test_each_step_draws_from_a_new_pass(draw: str) -> None:
    before = f"x, y = {draw}\nx, y = x.to(device), y.to(device)"
    assert converted(script(move=before, **STEPS)) == lifted(move=f"x, y = {draw}", **STEPS)


def test_in_the_loop_over_epochs() -> None:
    before = "x, y = next(iter(loader))\nx, y = x.to(device), y.to(device)"
    text = script(loop="if epoch < 3:", move=before)
    assert converted(text) == lifted(loop="if epoch < 3:", move="x, y = next(iter(loader))")


def test_in_an_attribute_of_an_object() -> None:
    held = "class Data:\n    def __init__(self, data):\n        self.train = DataLoader(data, batch_size=16)\n"
    before = "x, y = next(iter(held.train))\nx, y = x.to(device), y.to(device)"
    after = converted(script(definitions=held, loader="held = Data(data)", move=before, **STEPS))
    assert "self.train = accelerator.prepare(self.train)" in after


@pytest.mark.parametrize(
    "draw",
    ["next(iter([(torch.ones(4, 8), torch.ones(4).long())]))", "next(iter(make(loader)))", "next(draw())"],
)
def test_what_is_drawn_from_something_else_is_unknown(draw: str) -> None:
    text = script(from_imports="from other import draw, make", move=f"x, y = {draw}", **STEPS)
    assert unchanged(text).code == "LOADER-UNKNOWN"


def test_evaluation_by_such_batches_is_not_shared_out() -> None:
    test = "for n in range(3):\n    x, y = next(iter(test))\n    print(model(x.to(device)).sum().item())"
    text = script(loader="loader = DataLoader(data, batch_size=16)\ntest = DataLoader(data)", epoch_end=test)
    assert findings(text) == ["EVAL-REPLICATED"] and "prepare(model, optimizer, loader)" in converted(text)
