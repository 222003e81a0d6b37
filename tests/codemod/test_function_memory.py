"""Functions that keep what the loop measures, for themselves and for those that are made with them."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, added, converted, findings, script

AVERAGED = "accelerator.batch_mean(loss.detach()).item()"
LISTED = """
def meter():
    seen = []
    def add(value):
        seen.append(value)
    def mean():
        return sum(seen) / len(seen)
    return add, mean
"""
COUNTED = """
def meter():
    total, many = 0.0, 0
    def add(value):
        nonlocal total, many
        total += value
        many += 1
    def mean():
        return total / many
    return add, mean
"""
CHOSEN = """
def meter():
    bad = 0
    def add(value):
        nonlocal bad
        if value > 1.0:
            bad += 1
    def mean():
        return bad
    return add, mean
"""
GLOBAL = "last = 9.0\ndef add(value):\n    global last\n    last = value\ndef mean():\n    return last\n"
DEFAULT = "def add(value=None, seen=[]):\n    if value is not None:\n        seen.append(value)\n    return seen[-1]\n"
STOPS = "if mean() < 0.5:\n    break"


def told(text: str) -> list[str]:
    return [code for code in findings(text) if code in ("METRIC-TRAIN", "COLL-RANKFLOW")]


@pytest.mark.parametrize("definitions", [LISTED, COUNTED, CHOSEN, GLOBAL])
@pytest.mark.parametrize("end", [STOPS, 'if mean() < 0.5:\n    torch.save(model.state_dict(), "best.pt")'])
def test_what_decides_is_told_of_all_processes(definitions: str, end: str) -> None:
    made = "" if definitions is GLOBAL else "add, mean = meter()"
    text = script(definitions=definitions, before=made, batch_end="add(loss.item())", epoch_end=end)
    assert f"add({AVERAGED})" in added(text)
    assert told(text) == []


def test_a_default_is_kept_from_call_to_call() -> None:
    text = script(definitions=DEFAULT, batch_end="add(loss.item())", epoch_end="if add() < 0.5:\n    break")
    assert f"add({AVERAGED})" in added(text)
    assert told(text) == []


def test_what_is_only_shown_stays_that_of_a_share() -> None:
    slots = {"definitions": LISTED, "before": "add, mean = meter()", "batch_end": "add(loss.item())"}
    text = script(**slots, epoch_end="print(epoch, mean())")
    assert "add(loss.item())" not in added(text)
    assert told(text) == ["METRIC-TRAIN"]
    assert told(script(**slots)) == []


@pytest.mark.parametrize(
    "given",
    [
        "add(accuracy(model(x), y))",  # no number that is taken of a tensor
        "if loss.item() < 2:\n    add(loss.item())",  # some processes may not
    ],
)
def test_what_cannot_be_made_that_of_all_is_told_of(given: str) -> None:
    accuracy = "def accuracy(out, y):\n    return (out.argmax(1) == y).float().mean().item()\n"
    text = script(definitions=accuracy + LISTED, before="add, mean = meter()", batch_end=given, epoch_end=STOPS)
    assert told(text) == ["COLL-RANKFLOW"]


@pytest.mark.parametrize(
    ("call", "codes"),
    [
        ("Thread(target=add, args=(loss.item(),)).start()", ["COLL-RANKFLOW"]),
        ("pool.submit(add, loss.item())", []),  # it is averaged before
        ("pool.submit(add, epoch)", []),
    ],
)
def test_a_function_that_something_else_runs(call: str, codes: list[str]) -> None:
    imports = "from threading import Thread\nfrom concurrent.futures import ThreadPoolExecutor"
    slots = {"from_imports": imports, "definitions": GLOBAL, "before": "pool = ThreadPoolExecutor(1)"}
    text = script(**slots, batch_end=call, epoch_end=STOPS)
    assert told(text) == codes
    assert (f"pool.submit(add, {AVERAGED})" in added(text)) == (call == "pool.submit(add, loss.item())")


LOGGED = """
results = []
def logged(function):
    def run(*args):
        result = function(*args)
        {}
        return result
    run.results = []
    return run

@logged
def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
"""


@pytest.mark.parametrize(
    ("keeps", "asked", "codes"),
    [
        ("results.append(result)", "results[-1]", ["COLL-RANKFLOW"]),
        ("run.results.append(result)", "step.results[-1]", ["COLL-RANKFLOW"]),
        ("results.append(1)", "len(results)", []),
        ("pass", "len(results)", []),
    ],
)
def test_what_a_decorator_keeps_of_a_step(keeps: str, asked: str, codes: list[str]) -> None:
    slots = {**NO_LOOP, "epochs": "for epoch in range(2):", "loop": "for x, y in loader:"}
    slots["forward"] = "x, y = x.to(device), y.to(device)\nstep(model, optimizer, x, y)"
    text = script(definitions=LOGGED.format(keeps), epoch_end=f"if {asked} < 0.5:\n    break", **slots)
    assert told(text) == codes


LOG = """
class logged:
    def __init__(self, function):
        self.function, self.results, self.last = function, [], 0

    def __call__(self, *args):
        result = self.function(*args)
        {}
        return result

"""


@pytest.mark.parametrize(
    ("keeps", "asked", "codes"),
    [
        ("self.results.append(result)", "step.results[-1]", ["COLL-RANKFLOW"]),
        ("self.last = result", "step.last", ["COLL-RANKFLOW"]),
        ("self.results.append(1)", "len(step.results)", []),
        ("pass", "step.last", []),
    ],
)
def test_what_an_object_keeps_in_the_place_of_a_step(keeps: str, asked: str, codes: list[str]) -> None:
    slots = {**NO_LOOP, "epochs": "for epoch in range(2):", "loop": "for x, y in loader:"}
    slots["forward"] = "x, y = x.to(device), y.to(device)\nstep(model, optimizer, x, y)"
    definitions = LOG.format(keeps) + LOGGED[LOGGED.index("@logged") :]
    text = script(definitions=definitions, epoch_end=f"if {asked} < 0.5:\n    break", **slots)
    assert told(text) == codes


CHECK = "def check(net, loss):\n    if loss < 0.5:\n        net.stop = True\n"


@pytest.mark.parametrize(("given", "averages"), [("loss.item()", True), ("epoch", False)])
def test_a_function_that_sets_an_attribute_of_the_network(given: str, averages: bool) -> None:
    slots = {"definitions": CHECK, "before": "model.stop = False", "epochs": "for epoch in range(2):"}
    text = script(**slots, batch_end=f"check(model, {given})", epoch_end="if model.stop:\n    break")
    assert (f"check(model, {AVERAGED})" in converted(text)) == averages


STOP = """
class Stop:
    def __init__(self, net):
        self.net = net

    def after(self, loss):
        if loss < 0.5:
            self.net.stop = True
"""


@pytest.mark.parametrize(("given", "averages"), [("loss.item()", True), ("epoch", False)])
def test_an_object_that_sets_an_attribute_of_the_network_it_keeps(given: str, averages: bool) -> None:
    before = "model.stop = False\ncallback = Stop(model)"
    slots = {"definitions": STOP, "before": before, "epochs": "for epoch in range(2):"}
    text = script(**slots, batch_end=f"callback.after({given})", epoch_end="if model.stop:\n    break")
    assert (f"callback.after({AVERAGED})" in converted(text)) == averages


@pytest.mark.parametrize(
    ("before", "averages"),
    [
        ("seen = []\nadd = lambda value: seen.append(value)", True),
        ("seen = []\nput = lambda to, value: to.append(value)\nadd = lambda value: put(seen, value)", True),
        ("seen = []\nadd = lambda value: f'{value:.3f}'", False),
    ],
)
def test_a_lambda_that_keeps_it(before: str, averages: bool) -> None:
    text = script(before=before, batch_end="add(loss.item())", epoch_end="if sum(seen) < 0.5:\n    break")
    assert (f"add({AVERAGED})" in added(text)) == averages


HITS = "class Hits:\n    n = 0\n    def hit(self):\n        self.n += 1\n    def show(self):\n        print(self.n)\n\n"
BUMP = "n = 0\ndef bump():\n    global n\n    n += 1\n"


@pytest.mark.parametrize(
    ("definitions", "under", "asked", "codes"),
    [
        (HITS, "if loss.item() < 1:\n    hits.hit()", "hits.n", ["COLL-RANKFLOW"]),
        (HITS, "if epoch < 1:\n    hits.hit()", "hits.n", []),
        (HITS, "if loss.item() < 1:\n    hits.show()", "hits.n", []),
        (BUMP, "if loss.item() < 1:\n    bump()", "n", ["COLL-RANKFLOW"]),
        (BUMP, "if epoch < 1:\n    bump()", "n", []),
    ],
)
def test_a_function_that_counts_where_the_loss_says_so(
    definitions: str, under: str, asked: str, codes: list[str]
) -> None:
    before = "hits = Hits()" if definitions is HITS else ""
    end = f"if {asked} > 2:\n    break"
    assert told(script(definitions=definitions, before=before, batch_end=under, epoch_end=end)) == codes
