"""Iterators over loaders that a function draws from: `next(self.batches)` in a method, for a loop elsewhere."""

from __future__ import annotations

import pytest
from scripts import NO_BODY, converted, findings, lifted, script, unchanged

NEXT = """\
def next_batch():
    global batches
    try:
        return next(batches)
    except StopIteration:
        batches = iter(loader)
        return next(batches)
"""
STEPS = {"epochs": "for step in range(40):", "loop": "if step >= 0:"}
BEGUN = "batches = iter(loader)"
DRAWN = "x, y = next_batch()\nx, y = x.to(device), y.to(device)"


def drawn(definitions: str = NEXT, before: str = BEGUN, move: str = DRAWN, **slots: str) -> str:
    return script(definitions=definitions, before=before, move=move, **{**STEPS, **slots})


@pytest.mark.parametrize(
    "definitions",
    [
        NEXT,
        NEXT.replace("return next(batches)", "batch = next(batches)\n        return batch", 1),
        NEXT.replace("next(batches)", "batches.__next__()"),
        "def next_batch():\n    return next(batches)\n",
        "def next_batch():\n    return draw()\n\n\ndef draw():\n    x, y = next(batches)\n    return x, y\n",
    ],
)
def test_a_function_draws_from_what_is_kept(definitions: str) -> None:
    text = drawn(definitions)
    assert converted(text) == lifted(definitions=definitions, before=BEGUN, **{**STEPS, "move": "x, y = next_batch()"})


def test_a_function_is_handed_the_iterator() -> None:
    definitions = NEXT.replace("()", "(batches)", 1).replace("    global batches\n", "")
    definitions = definitions.replace("return next(batches)", "return next(batches), batches")
    text = drawn(definitions, move="(x, y), batches = next_batch(batches)\nx, y = x.to(device), y.to(device)")
    assert "prepare(model, optimizer, loader)" in converted(text)


def test_a_function_trains_on_what_it_draws() -> None:
    step = """\
def train_step():
    x, y = next(batches)
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
    nothing = dict.fromkeys(("forward", "backward", "step"), "")
    text = converted(script(definitions=step, before=BEGUN, **{**STEPS, **nothing, "move": "train_step()"}))
    assert "    x, y = next(batches)\n    optimizer.zero_grad()" in text
    assert "prepare(model, optimizer, loader)" in text and "accelerator.backward(loss)" in text


KEEPS = """\
class Trainer:
    def __init__(self, loader):
        {kept}
        self.model = Net().to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def next_batch(self):
        try:
            return next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            return next(self.batches)

    def fit(self):
        for step in range(20):
            x, y = self.next_batch()
            x, y = x.to(device), y.to(device)
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
"""
BOTH = "self.loader = loader\n        self.batches = iter({})"


@pytest.mark.parametrize(
    ("kept", "made", "where"),
    [
        ("loader", "Trainer(loader)", "loader = accelerator.prepare(loader)\ntrainer"),
        ("self.loader", "Trainer(loader)", "loader = accelerator.prepare(loader)\ntrainer"),
        ("loader", "Trainer(DataLoader(data, batch_size=16))", "Trainer(accelerator.prepare(DataLoader("),
        ("self.loader", "Trainer(DataLoader(data, batch_size=16))", "self.loader = accelerator.prepare(loader)\n"),
    ],
)
def test_an_object_keeps_the_iterator(kept: str, made: str, where: str) -> None:
    after = f"trainer = {made}\ntrainer.fit()"
    text = converted(script(definitions=KEEPS.format(kept=BOTH.format(kept)), after=after, **NO_BODY))
    assert where in text
    assert "x, y = self.next_batch()\n            self.optimizer" in text


LOADERS = 'loaders = {"a": DataLoader(data, batch_size=16), "b": DataLoader(data, batch_size=8)}'
IN_TURN = """\
try:
    x, y = next(batches[k])
except StopIteration:
    batches[k] = iter(loaders[k])
    x, y = next(batches[k])
x, y = x.to(device), y.to(device)
"""
OWN = "iter([(torch.zeros(4, 8), torch.zeros(4).long())] * 80)"


def in_turn(begun: str, loaders: str = LOADERS, keys: str = "loaders") -> str:
    return script(loader=loaders, before=begun, epochs="for step in range(40):", loop=f"for k in {keys}:", move=IN_TURN)


@pytest.mark.parametrize(
    "begun",
    [
        "batches = {k: iter(loader) for k, loader in loaders.items()}",
        "batches = {k: iter(loaders[k]) for k in loaders}",
        'batches = {"a": iter(loaders["a"]), "b": iter(loaders["b"])}',
    ],
)
def test_iterators_in_a_dict_are_drawn_from_in_turn(begun: str) -> None:
    entries = 'loaders["a"], loaders["b"]'
    prepare = f"model, optimizer, {entries} = accelerator.prepare(\n    model, optimizer, {entries}\n)"
    assert f"{prepare}\n{begun}\n" in converted(in_turn(begun))
    assert findings(in_turn(begun)) == []


def test_iterators_in_a_list_are_drawn_from_in_turn() -> None:
    listed = "loaders = [DataLoader(data, batch_size=16), DataLoader(data, batch_size=8)]"
    begun = "batches = [iter(loader) for loader in loaders]"
    after = converted(in_turn(begun, listed, "range(2)"))
    assert f"model, optimizer, loaders[0], loaders[1]\n)\n{begun}\n" in after


@pytest.mark.parametrize(
    ("begun", "code"),
    [
        (f'batches = {{k: iter(loaders[k]) for k in loaders}}\nbatches["b"] = {OWN}', "LOADER-UNKNOWN"),
        (f'batches = {{"a": iter(loaders["a"]), "b": {OWN}}}', "LOADER-UNKNOWN"),
        ("batches = {k: iter(list(loaders[k])[:3]) for k in loaders}", "LOADER-UNKNOWN"),
        ("batches = {k: map(cut, loaders[k]) for k in loaders}", "PREP-NO-POINT"),
    ],
)
def test_iterators_of_which_some_are_over_something_else(begun: str, code: str) -> None:
    assert unchanged(in_turn(begun)).code == code


def test_a_variable_that_may_have_an_iterator_over_something_else() -> None:
    begun = f"batches = iter(loader)\nif len(data) > 99:\n    batches = {OWN}"
    assert unchanged(drawn("", begun, "x, y = next(batches)\nx = x.to(device)")).code == "LOADER-UNKNOWN"


ENDLESS = """\
class Endless:
    def __init__(self, data, **how):
        self.loader = DataLoader(data, **how)
        self.batches = iter(self.loader)

    def next(self):
        try:
            batch = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        return batch
"""


def test_a_method_named_next_draws_from_what_its_object_keeps() -> None:
    made, move = "batches = Endless(data, batch_size=16)", "x, y = batches.next()\nx, y = x.to(device), y.to(device)"
    text = drawn(ENDLESS, "", move, loader=made)
    prepared = "        self.loader = accelerator.prepare(self.loader)\n        self.batches"
    assert prepared in converted(text) and "x, y = batches.next()\n        optimizer" in converted(text)
    cut = ENDLESS.replace("batch = next(self.batches)", "batch = data[:8]")
    assert unchanged(drawn(cut, "", move, loader=made)).code == "LOADER-UNKNOWN"


@pytest.mark.parametrize(
    ("definitions", "move"),
    [
        # a batch in each of several loops, or another thing than a batch
        ("def next_batch():\n    for x, y in [next(batches)]:\n        print(x)\n    return data[:8]\n", DRAWN),
        ("def next_batch():\n    print(len(next(batches)))\n    return data[:8]\n", DRAWN),
        (
            "def next_batch(batches):\n    batches = other()\n    return next(batches)\n",
            DRAWN.replace("()", "(batches)", 1),
        ),
    ],
)
def test_what_is_drawn_otherwise_is_not_taken_for_batches(definitions: str, move: str) -> None:
    text = drawn(definitions, imports="from elsewhere import other", move=move)
    assert unchanged(text).code in ("LOADER-UNKNOWN", "DATA-UNSHARDED")


def test_a_loop_over_epochs_does_not_train_on_what_it_shows() -> None:
    """`show()` draws once an epoch: the loop around trains by another one, on other batches."""
    shown = {
        "definitions": NEXT.replace("next_batch", "show") + "\n\ndef fit():\n    for x, y in loader:\n"
        "        x, y = x.to(device), y.to(device)\n        optimizer.zero_grad()\n"
        "        loss = F.cross_entropy(model(x), y)\n        loss.backward()\n        optimizer.step()\n",
        "before": "others = DataLoader(data, batch_size=8)\nbatches = iter(others)",
        "epoch": "fit()\nprint(show()[0].sum())",
        "loop": "",
    }
    nothing = dict.fromkeys(("move", "forward", "backward", "step"), "")
    text = converted(script(**{**nothing, **shown}).replace("iter(loader)", "iter(others)"))
    assert "others = DataLoader(data, batch_size=8)\nbatches = iter(others)" in text
    assert "prepare(model, optimizer, loader)" in text


def test_two_iterators_side_by_side_are_told_apart() -> None:
    two = NEXT + "\n\n" + NEXT.replace("next_batch", "more").replace("loader", "others").replace("batches", "rest")
    begun = "others = DataLoader(data, batch_size=4)\nbatches = iter(loader)\nrest = iter(others)"
    text = drawn(
        two, begun, f"{DRAWN}\nu, _ = more()", forward="optimizer.zero_grad()\nloss = model(u).sum() + model(x).sum()"
    )
    assert "DATA-MIXED" in findings(text)
    for name in ("loader", "others"):
        assert f"{name} = accelerator.prepare_data_loader({name}, device_placement=False)\n" in converted(text)
