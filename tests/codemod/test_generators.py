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


# ---- generators that do something else between the batches: they count, measure time, and print

BETWEEN = """\
def log_every(iterable, freq, header=""):
    i, end = 0, time.time()
    total = len(iterable)
    for batch in iterable:
        waited = time.time() - end
        yield batch
        if i % freq == 0 or i == len(iterable) - 1:
            timing.append((header, i, total, waited))
        i += 1
        end = time.time()
    assert i == len(iterable.dataset) // iterable.batch_size
"""
COUNTED = """\
def log_every(iterable, freq):
    for i, batch in enumerate(iterable):
        yield batch
        if i % freq == 0:
            timing.append((i, len(iterable)))
"""
BAR = """\
def log_every(iterable, freq):
    bar = tqdm({}, disable=True)
    for i, batch in enumerate(bar):
        yield batch
        bar.set_postfix(i=i)
"""
SETTINGS = {"imports": "import time\n\nfrom tqdm import tqdm", "setup": "timing = []"}


@pytest.mark.parametrize("definition", [BETWEEN, COUNTED, BAR.format("iterable")])
def test_what_is_done_between_the_batches(definition: str) -> None:
    slots = {**SETTINGS, "definitions": definition, "loop": "for x, y in log_every(loader, 10):"}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == []


def test_a_method_that_deals_the_batches_of_training_and_evaluation() -> None:
    """What is measured of the one loader is told from what is of the other."""
    method = "".join(f"    {line}\n" for line in BETWEEN.replace("(iterable", "(self, iterable").splitlines())
    after = """\
        right = 0
        with torch.no_grad():
            for x, y in logger.log_every(test_loader, 10):
                right += (model(x).argmax(1) == y).sum().item()
        print(right)
    """
    slots = {
        **SETTINGS,
        "definitions": f"class Logger:\n{method}",
        "before": "logger = Logger()\ntest_loader = DataLoader(data, batch_size=8)",
        "loop": "for x, y in logger.log_every(loader, 10):",
        "after": after,
    }
    output = converted(script(**slots))
    assert "accelerator.prepare( model, optimizer, loader, test_loader )" in " ".join(output.split())
    assert "y = accelerator.gather_for_metrics(y)\n" in output
    assert "accelerator.gather_for_metrics(model(x)).argmax(1) == y" in output


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        waited =", "        if i == 3:\n            break\n        waited ="),
        ("        waited =", "        if i == 3:\n            continue\n        waited ="),
        ("        waited =", "        if i == 3:\n            return\n        waited ="),
        ("        waited =", "        batch = batch[:2]\n        waited ="),
        ("        waited =", "        batch[0].mul_(i)\n        waited ="),
        ("        i += 1", "        i += len(batch[0])"),
        ("        i += 1", "        i += 1\n        next(iter(iterable))"),
        ("        i += 1", "        i += 1\n        iterable.__iter__()"),
        ("    total = len(iterable)", "    total = len(list(iterable))"),
        ("    total = len(iterable)", "    total = 1\n    iterable = list(iterable)[1:]"),
        ("    total = len(iterable)", "    total = other(iterable)"),
        ("        yield batch", "        if waited < 9:\n            yield batch"),
        ("        yield batch", "        with torch.no_grad():\n            yield batch"),
        ("        yield batch", "        yield batch\n        yield batch"),
        ("        yield batch", "        waited = yield batch"),
        ("    for batch in iterable:", "    for batch in zip(iterable, iterable):"),
        ("    for batch in iterable:", "    for batch in sorted(iterable):"),
    ],
)
def test_what_touches_the_batches_or_deals_others(old: str, new: str) -> None:
    definition = f"def other(loader):\n    return len(loader)\n\n\n{BETWEEN.replace(old, new)}"
    assert definition.count(new) == 1
    text = script(**SETTINGS, definitions=definition, loop="for x, y in log_every(loader, 10):")
    assert unchanged(text).code == "LOADER-UNKNOWN"


@pytest.mark.parametrize("read", ["len(y)", "y.sum()"])
def test_parts_of_a_batch_that_are_measured_between(read: str) -> None:
    definition = f"def deal(loader):\n    seen = 0\n    for x, y in loader:\n        seen += {read}\n        yield x\n"
    text = script(definitions=definition, loop="for x in deal(loader):", move="", forward=SQUARE)
    assert unchanged(text).code in ("LOADER-UNKNOWN", "DATA-UNSHARDED")


def test_a_bar_that_is_gone_through_elsewhere_too() -> None:
    definition = BAR.format("iterable").replace("    for i", "    first = next(iter(bar))\n    for i")
    text = script(**SETTINGS, definitions=definition, loop="for x, y in log_every(loader, 10):")
    assert unchanged(text).code == "LOADER-UNKNOWN"


def test_a_generator_that_trains_between_the_batches() -> None:
    """The loop over the batches would be taken for one that does not."""
    definition = "losses = []\n\n\ndef deal(loader):\n    for batch in loader:\n        yield batch\n        finish()\n"
    step = "\n\ndef finish():\n    losses.pop().backward()\n    optimizer.step()\n"
    slots = {"definitions": definition + step, "loop": "for x, y in deal(loader):"}
    text = script(**slots, backward="losses.append(loss)", step="")
    finding = unchanged(text)
    assert finding.code == "BWD-UNKNOWN" and "deal()" in finding.message


def test_another_loop_of_a_generator_is_one_of_its_own() -> None:
    """Batches that a generator draws beside those that it hands on are drawn where it says so."""
    definition = """\
        def deal(loader):
            for batch in loader:
                yield batch
            right = 0
            with torch.no_grad():
                for x, y in test_loader:
                    right += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
            print(right)
    """
    slots = {"definitions": definition, "before": "test_loader = DataLoader(data, batch_size=8)"}
    output = converted(script(**slots, loop="for x, y in deal(loader):"))
    assert "accelerator.gather_for_metrics(model(x)).argmax(1) == y" in output
