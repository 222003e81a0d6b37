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
    same = "ones" in draw  # in each step
    assert unchanged(text).code == ("DATA-UNSHARDED" if same else "LOADER-UNKNOWN")


def test_a_batch_that_is_looked_at_in_every_epoch_makes_the_epochs_no_batches() -> None:
    look = "first, labels = next(iter(loader))\nprint(first.shape)"
    assert findings(script(epoch=look)) == ["METRIC-TRAIN"] and findings(script(epoch_end=look)) == ["METRIC-TRAIN"]


def test_evaluation_by_such_batches_is_not_shared_out() -> None:
    test = "for n in range(3):\n    x, y = next(iter(test))\n    print(model(x.to(device)).sum().item())"
    text = script(loader="loader = DataLoader(data, batch_size=16)\ntest = DataLoader(data)", epoch_end=test)
    assert findings(text) == [] and "prepare(model, optimizer, loader)" in converted(text)


@pytest.mark.parametrize(
    ("slot", "draw", "told"),
    [
        ("batch_end", "a, b = next(iter(test))", False),
        ("batch_end", "n, (a, b) = next(enumerate(test))", False),
        ("move", "a, b = next(iter(test))", True),  # it may be trained on
    ],
)
def test_what_is_drawn_after_the_training_step_is_not_trained_on(slot: str, draw: str, told: bool) -> None:
    test = "test = DataLoader(data, batch_size=16)"
    text = script(before=test, **{slot: f"{draw}\nprint(a.shape)"})
    assert ("DATA-WHOLE" in findings(text)) is told


# ---- loaders one after the other

TWO = "a = DataLoader(data, batch_size=16)\nb = DataLoader(data, batch_size=8)"


@pytest.mark.parametrize("chained", ["chain(a, b)", "chain.from_iterable([a, b])", "chain(a, tqdm(b))"])
def test_loaders_one_after_the_other(chained: str) -> None:
    slots = {"imports": "from itertools import chain\nfrom tqdm import tqdm", "loader": TWO}
    after = converted(script(loop=f"for x, y in {chained}:", **slots))
    assert "model, optimizer, a, b = accelerator.prepare(model, optimizer, a, b)\n" in after
    assert "accelerator.backward(loss)" in after and "x.to(device)" not in after


def test_loaders_in_a_list_one_after_the_other() -> None:
    made = "loaders = [DataLoader(data, batch_size=n) for n in (8, 16)]"
    text = script(imports="import itertools", loader=made, loop="for x, y in itertools.chain.from_iterable(loaders):")
    assert "accelerator.prepare(DataLoader(data, batch_size=n)) for n in (8, 16)" in converted(text)


@pytest.mark.parametrize("chained", ["chain(a, [(1, 2)])", "chain.from_iterable([a, [(1, 2)]])", "chain(*parts)"])
def test_a_loader_with_something_else_after_it_is_unknown(chained: str) -> None:
    slots = {"imports": "from itertools import chain\nfrom other import parts", "loader": TWO}
    assert unchanged(script(loop=f"for x, y in {chained}:", **slots)).code in ("LOADER-UNKNOWN", "DATA-UNSHARDED")


def test_parameters_one_after_the_other() -> None:
    made = "torch.optim.SGD(itertools.{}, lr=0.1)"
    slots = {
        "imports": "import itertools",
        "definitions": "more = nn.Linear(3, 3)",
        "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(more(model(x)), y)",
    }
    for chained in (
        "chain(model.parameters(), more.parameters())",
        "chain.from_iterable([model.parameters(), more.parameters()])",
    ):
        after = converted(script(optimizer=f"optimizer = {made.format(chained)}", **slots))
        assert "model, more, optimizer, loader = accelerator.prepare(model, more, optimizer, loader)" in after
