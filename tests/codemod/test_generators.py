"""Generators that hand on the batches of a loader: what draws from them draws from the loader."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script, unchanged

LOOP = """\
def endless(loader):
    while True:
        for batch in loader:
            yield batch
"""
FROM = "def endless(loader):\n    for epoch in range(9):\n        yield from loader\n"
DRAWN = """\
def endless(loader):
    iterator = iter(loader)
    while True:
        try:
            yield next(iterator)
        except StopIteration:
            iterator = iter(loader)
"""
NAMED = """\
def endless(loader):
    iterator = loader.__iter__()
    while True:
        try:
            batch = iterator.__next__()
        except StopIteration:
            iterator = loader.__iter__()
            batch = iterator.__next__()
        yield batch
"""
ALL = (LOOP, FROM, DRAWN, NAMED)
DRAW = "for step in range(4):\n    batch = {}\n    x, y = batch"


def drawing(definition: str, draw: str) -> dict[str, str]:
    return {"definitions": definition, "before": "batches = endless(loader)", "loop": draw}


@pytest.mark.parametrize("definition", ALL)
@pytest.mark.parametrize("draw", ["next(batches)", "batches.__next__()"])
def test_next(definition: str, draw: str) -> None:
    header, _, rest = DRAW.format(draw).partition("\n")
    first = "\n".join(line.strip() for line in rest.splitlines())
    slots = drawing(definition, header)
    after = lifted(**slots, move=first)
    assert converted(script(**slots, move=f"{first}\nx, y = x.to(device), y.to(device)")) == after


@pytest.mark.parametrize("definition", ALL)
def test_loop(definition: str) -> None:
    slots = drawing(definition, "for x, y in batches:")
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize("wrapped", ["endless(loader)", "enumerate(loader)", "zip(range(9), loader)"])
def test_the_loader_is_prepared_before_it_is_handed_on(wrapped: str) -> None:
    """What has been given the loader itself would go through all of its batches on every process."""
    target = "x, y" if "endless" in wrapped else "_, (x, y)"
    made = "loader = DataLoader(data, batch_size=16, shuffle=True)"
    slots = {"definitions": LOOP, "loop": f"for {target} in batches:"}
    assert converted(script(**slots, loader=f"{made}\nbatches = {wrapped}")) == lifted(
        **slots,
        loader=f"{made}\nloader = accelerator.prepare(loader)\nbatches = {wrapped}",
        prepare="model, optimizer = accelerator.prepare(model, optimizer)",
    )


@pytest.mark.parametrize(
    "definition",
    [
        "def endless(loader):\n    for batch in loader:\n        if len(batch) > 1:\n            yield batch\n",
        "def endless(loader):\n    for x, y in loader:\n        for i in (0, 1):\n            yield x[i::2]\n",
        "def endless(loader):\n    for batch in loader:\n        yield batch\n        yield batch\n",
        "def endless(loader):\n    for batch in loader:\n        yield batch\n        return\n",
        "def endless(loader):\n    for batch in loader:\n        batch = batch[:8]\n        yield batch\n",
        "def endless(loader):\n    while len(loader) > 3:\n        yield from loader\n",
        DRAWN.replace("            iterator = iter(loader)", "            iterator = iter(list(loader)[1:])"),
    ],
)
def test_generators_that_do_something_else_with_the_batches(definition: str) -> None:
    slots = drawing(definition, "for x, y in batches:")
    assert unchanged(script(**slots)).code == "LOADER-UNKNOWN"


# ---- generators that hand on parts of the batches

PARTS = "def endless(loader):\n    while True:\n        for x, y in {}:\n            yield {}\n"
SQUARE = "optimizer.zero_grad()\nloss = model(x).pow(2).mean()"


@pytest.mark.parametrize("over", ["loader", "iter(loader)"])
@pytest.mark.parametrize("given", ["x", "x.to(device)"])
def test_a_part_of_each_batch(over: str, given: str) -> None:
    slots = {"definitions": PARTS.format(over, given), "before": "batches = endless(loader)", "forward": SQUARE}
    text = script(**slots, loop="for step in range(4):", move="x = next(batches).to(device)")
    output = converted(text)
    assert "loader = accelerator.prepare(loader)\n" in output or "optimizer, loader)\nbatches" in output
    assert findings(text) == [] and "accelerator.backward(loss)" in output


@pytest.mark.parametrize(("given", "target"), [("y, x", "y, x"), ("(y, x, x)", "y, x, _"), ("[x, y]", "x, y")])
def test_parts_of_each_batch_in_another_order(given: str, target: str) -> None:
    slots = {"definitions": PARTS.format("loader", given), "loop": f"for {target} in endless(loader):"}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == []


def test_the_loss_of_parts_is_known_as_that_of_the_batch() -> None:
    """A sum over the samples is told from a mean, and what compares them is, too."""
    slots = {"definitions": PARTS.format("loader", "y, x"), "loop": "for y, x in endless(loader):"}
    total = script(**slots, forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, reduction='sum')")
    assert 'accelerator.backward(loss, reduction="sum")' in converted(total)
    compared = script(**slots, forward="optimizer.zero_grad()\nh = model(x)\nloss = (h @ h.T).mean()")
    assert findings(compared) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "given",
    ["x[:8]", "x.mean()", "len(x)", "torch.cat([x, x])", "x if len(x) > 3 else y", "x, model", "other(x)", "x, *y"],
)
def test_what_is_made_of_a_batch_is_no_part_of_it(given: str) -> None:
    definitions = f"def other(x):\n    return x * 2\n\n\n{PARTS.format('loader', given)}"
    text = script(definitions=definitions, loop="for x in endless(loader):", move="", forward=SQUARE)
    assert unchanged(text).code in ("LOADER-UNKNOWN", "DATA-UNSHARDED")


@pytest.mark.parametrize(
    "body",
    [
        "for x, y in loader:\n        if len(x) > 3:\n            yield x",
        "for x, y in loader:\n        yield x\n        yield y",
        "for i, (x, y) in enumerate(loader):\n        yield x",
        "for x, y in loader:\n        x = x[::2]\n        yield x",
    ],
)
def test_generators_that_do_more_with_the_parts(body: str) -> None:
    text = script(definitions=f"def endless(loader):\n    {body}", loop="for x in endless(loader):", forward=SQUARE)
    assert unchanged(text).code in ("LOADER-UNKNOWN", "DATA-UNSHARDED")
