"""What a training loop fills, and code outside of its function reads: objects of callers, and of the module."""

from __future__ import annotations

import textwrap

import pytest
from scripts import TRAINS, added, findings, script

CALL = "train(model, loader, optimizer, device, kept)"
AVERAGED = "accelerator.batch_mean(loss.detach()).item()"
TRAIN = (
    """
class Meter:
    def __init__(self):
        self.total, self.many, self.best = 0.0, 0, 1e9

    def update(self, value, many):
        self.total += value * many
        self.many += many

    def keep(self, model):
        if self.total < self.best:
            self.best = self.total
            torch.save(model.state_dict(), "best.pt")


SHARED, SEEN = [], 0


def put(where, value):
    where.append(value)


def tally(where, y):
    for label in y.tolist():
        where[label] += 1


def count(x):
    global SEEN
    SEEN += x.size(0)


def count_own(x):
    SEEN = 0
    SEEN += x.size(0)


def train(model, loader, optimizer, device, kept):
"""
    + f"{TRAINS}        {{}}\n"
)
NO_LOOP = dict.fromkeys(("loop", "move", "forward", "backward", "step"), "")


def handed(fill: str, before: str, after: str, made: str = "") -> str:
    """A script whose training function fills what it is handed; what stands `before` and `after` its call."""
    epoch = f"{made}\n{CALL}\n{after}"
    scheduler = "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"
    return script(definitions=TRAIN.format(fill), before=f"{scheduler}\n{before}", epoch=epoch, **NO_LOOP)


LOSSES = ("kept.append(loss.item())", "kept = []")
METER = ("kept.update(loss.item(), x.size(0))", "kept = Meter()")
SIZES = ("kept['n'] += x.size(0)", "kept = {'n': 0, 'other': 0}")


@pytest.mark.parametrize(
    ("fill", "before", "after"),
    [
        (*LOSSES, "print(sum(kept) / len(kept))"),
        (*METER, "print(kept.many)"),
        (*SIZES, "print(kept['n'])"),
        ("put(kept, loss.item())", "kept = []", "print(kept[-1])"),
        ("kept.last = loss.item()", "kept = Meter()", "print(kept.last)"),
        ("tally(kept, y)", "kept = [0, 0, 0]", "print(kept)"),
        ("for k in y.tolist():\n            kept[k] += 1", "kept = [0, 0, 0]", "print(kept)"),
        ("SHARED.append(loss.item())", "kept = []", "print(SHARED[-1])"),
        ("count(x)", "kept = []", "print(SEEN)"),
        ("kept['a'].update(loss.item(), 1)", "kept = {'a': Meter()}", "for k in kept.values():\n    print(k.total)"),
    ],
)
def test_what_others_print_is_told_of(fill: str, before: str, after: str) -> None:
    assert "METRIC-TRAIN" in findings(handed(fill, before, after))


@pytest.mark.parametrize(
    ("fill", "before", "after"),
    [
        (*LOSSES, "scheduler.step(sum(kept) / len(kept))"),
        (*METER, "scheduler.step(kept.total / kept.many)"),
        (*METER, "kept.keep(model)"),
        ("kept.last = loss.item()", "kept = Meter()", "scheduler.step(kept.last)"),
        ("SHARED.append(loss.item())", "kept = []", "scheduler.step(SHARED[-1])"),
    ],
)
def test_numbers_that_others_decide_by_are_those_of_all(fill: str, before: str, after: str) -> None:
    text = handed(fill, before, after)
    assert AVERAGED in "".join(added(text)) and "COLL-RANKFLOW" not in findings(text)


@pytest.mark.parametrize(
    ("fill", "before", "after"),
    [
        ("kept['n'] += x.size(0) + len(str(loss))", SIZES[1], "if kept['n'] > 100:\n    break"),
        ("kept[y[0].item()] += loss.item()", "kept = [0, 0, 0]", "if kept[0] > 100:\n    break"),
        ("count(x)", "kept = []", "if SEEN > 100:\n    break"),
        ("kept.append([len(str(loss))])", "kept = []", "if kept[-1][0] > 1:\n    break"),
    ],
)
def test_other_values_that_others_decide_by_are_errors(fill: str, before: str, after: str) -> None:
    assert "COLL-RANKFLOW" in findings(handed(fill, before, after))


def test_a_sum_that_a_caller_s_list_is_given_decides_too() -> None:
    lines = "total += loss.item()\n    kept.append(total)".replace("\n", "\n    ")
    text = handed(lines.replace("        kept", "    kept"), "kept = []", "scheduler.step(kept[-1])")
    text = text.replace("    for x, y in loader", "    total = 0.0\n    for x, y in loader")
    assert f"total += {AVERAGED}" in "".join(added(text))


@pytest.mark.parametrize(
    ("fill", "before", "after", "made"),
    [
        (*LOSSES, "", "kept = []\nprint(kept)"),
        (*LOSSES, "kept = [1.0]\nprint(kept)", ""),
        (*LOSSES, "if len(kept) > 100:\n    break", ""),
        (*SIZES, "print(kept['other'])\nif kept['other'] > 100:\n    break", ""),
        ("count_own(x)", "kept = []", "print(SEEN)", ""),
        ("kept = loss.item()", "kept = 0.0", "print(kept)", ""),
    ],
)
def test_what_is_something_else_by_then_is_not_told_of(fill: str, before: str, after: str, made: str) -> None:
    text = handed(fill, before, textwrap.dedent(after), made)
    assert not {"METRIC-TRAIN", "COLL-RANKFLOW"} & set(findings(text)) and "reduce" not in "".join(added(text))


def test_what_the_module_reads_before_it_trains_is_not_told_of() -> None:
    text = handed("SHARED.append(loss.item())", "kept = []\nprint(SHARED)", "")
    assert "METRIC-TRAIN" not in findings(text)


TRAINER = """
class Trainer:
    def __init__(self, model, loader, optimizer, device):
        self.model, self.loader, self.optimizer, self.device = model, loader, optimizer, device
        self.weight, self.total = 1.0, 0.0

    def epoch(self):
        self.total = 0.0
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            loss = self.weight * F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            self.total += loss.item()

    def fit(self):
        for _ in range(2):
            self.epoch()
            {}
"""


@pytest.mark.parametrize(
    ("line", "reduced"),
    [("self.weight = 2 - self.total / len(self.loader)", True), ("self.shown = self.total / len(self.loader)", False)],
)
def test_an_attribute_that_a_later_loss_is_computed_with(line: str, reduced: bool) -> None:
    run = {"definitions": TRAINER.format(line), "after": "Trainer(model, loader, optimizer, device).fit()"}
    assert (AVERAGED in "".join(added(script(**run, epochs="if False:", epoch="pass", **NO_LOOP)))) is reduced


ASKED = """
class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.total, self.last, self.epochs = 0, 0.0, 0

    def fit(self, loader):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            self.count(x)
            self.last = loss.item()
        self.epochs += 1

    def count(self, x):
        self.total += 2 * len(x)
"""


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("print(trainer.total)", ["METRIC-TRAIN"]),
        ("last = trainer.last\nprint(f'{last:.3f}')", ["METRIC-TRAIN"]),
        ("if trainer.total > 99:\n    break", ["COLL-RANKFLOW"]),
        ("print(trainer.epochs)", []),
        ("if trainer.epochs > 99:\n    break", []),
    ],
)
def test_what_others_ask_a_trainer_for(after: str, said: list[str]) -> None:
    text = script(
        definitions=ASKED,
        before="trainer = Trainer(model, optimizer)",
        epoch="trainer.fit(loader)",
        epoch_end=after,
        **NO_LOOP,
    )
    assert findings(text) == said


METER = """
class Meter:
    def __init__(self):
        self.total = 0.0

    def update(self, value):
        self.total += value


def step(x, y, meter):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    meter.update({given})
"""


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("print(meters['loss'].total)", ["METRIC-TRAIN"]),
        ("for name, meter in meters.items():\n    print(name, meter.total)", ["METRIC-TRAIN"]),
        ("if meters['loss'].total < 1:\n    break", ["COLL-RANKFLOW"]),
        ("print(meters['other'].total)", []),
    ],
)
def test_an_entry_of_a_dict_that_a_step_is_handed(after: str, said: list[str]) -> None:
    made = "meters = {name: Meter() for name in ('loss', 'other')}"
    slots = {"epoch": made, "forward": "step(x, y, meters['loss'])", "backward": "", "step": "", "epoch_end": after}
    assert findings(script(definitions=METER.format(given="loss.item()"), **slots)) == said
    assert findings(script(definitions=METER.format(given="1"), **slots)) == []


COUNTS = """
def count(out, y, stats):
    stats["right"] += {given}


def train_on(x, y, stats):
    optimizer.zero_grad()
    out = model(x)
    loss = F.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    count(out, y, stats)
"""


@pytest.mark.parametrize(("given", "share"), [("(out.argmax(1) == y).sum().item()", True), ("1", False)])
@pytest.mark.parametrize(
    ("epoch_end", "code"),
    [("print(stats['right'])", "METRIC-TRAIN"), ("if stats['right'] > 60:\n    break", "COLL-RANKFLOW")],
)
def test_what_a_function_of_a_step_fills(given: str, share: bool, epoch_end: str, code: str) -> None:
    slots = {"epoch": "stats = {'right': 0}", "forward": "train_on(x, y, stats)", "backward": "", "step": ""}
    text = script(definitions=COUNTS.format(given=given), epoch_end=epoch_end, **slots)
    assert findings(text) == ([code] if share else [])


@pytest.mark.parametrize(("given", "codes"), [("loss.item()", ["METRIC-TRAIN"]), ("epoch", [])])
def test_what_a_function_fills_of_an_object(given: str, codes: list[str]) -> None:
    definitions = "class State:\n    pass\n\n\ndef put(where, value):\n    where['loss'] = value\n"
    made = "state = State()\nstate.kept = {}"
    text = script(
        definitions=definitions, before=made, batch_end=f"put(state.kept, {given})", after="print(state.kept)"
    )
    assert findings(text) == codes


@pytest.mark.parametrize(
    ("test", "then", "codes"),
    [
        ("loss.item() > 1", "state.bad += 1", ["COLL-RANKFLOW"]),
        ("loss.item() < state.best", "state.best, state.bad = loss.item(), 0", ["COLL-RANKFLOW"]),
        ("loss.item() > 1", "pass\n    state.bad += 1", ["COLL-RANKFLOW"]),
        ("epoch > 1", "state.bad += 1", []),
        ("len(x) > 1", "state.bad += 1", []),
        ("loss.item() > 1", "other = 1", []),
    ],
)
def test_what_an_object_counts_if_a_share_says_so(test: str, then: str, codes: list[str]) -> None:
    definitions = "class State:\n    bad, best = 0, 1e9\n"
    slots = {"before": "state = State()", "epoch_end": "if state.bad > 4:\n    break"}
    assert findings(script(definitions=definitions, batch_end=f"if {test}:\n    {then}", **slots)) == codes


@pytest.mark.parametrize("main", [True, False])
@pytest.mark.parametrize("given", ["seen.append", "lambda v: seen.append(v)", 'seen["loss"].append'])
def test_what_is_called_puts_it_into_something_of_the_callers(given: str, main: bool) -> None:
    trains = f"def train(model, optimizer, loader, device, told):\n{TRAINS}        told(loss.item())\n"

    def told(asked: str) -> list[str]:
        seen = 'seen = {"loss": []}' if "[" in given else "seen = []"
        end = f"{seen}\ntrain(model, optimizer, loader, device, {given})\n{asked}"
        slots = {**NO_LOOP, "epochs": "for epoch in range(2):", "epoch": end}
        return [line for line in added(script(definitions=trains, main=main, **slots)) if "told(" in line]

    read = 'seen["loss"]' if "[" in given else "seen"
    assert told(f"if sum({read}) < 3:\n    break") == ["told(accelerator.batch_mean(loss.detach()).item())"]
    assert told(f"print(sum({read}))") == []


def test_a_partial_of_a_method_puts_what_it_is_given() -> None:
    def lines(add: str) -> list[str]:
        slots = {"before": f"seen, last = [], []\nadd = {add}", "epoch_end": "if sum(seen) < 3:\n    break"}
        return added(script(imports="from functools import partial", batch_end="add(loss.item())", **slots))

    assert "add(accelerator.batch_mean(loss.detach()).item())" in lines("partial(seen.append)")
    assert "add(accelerator.batch_mean(loss.detach()).item())" not in lines("partial(last.append)")
