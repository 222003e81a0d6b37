"""An object that keeps what the loop measures, and decides by it, is told what all processes measured."""

from __future__ import annotations

import textwrap

import pytest
from scripts import NO_LOOP, TRAINS, added, findings, script

AVERAGED = "accelerator.batch_mean(loss.detach()).item()"
KEEPER = """
class Keeper:
    def __init__(self):
        self.total, self.best, self.said, self.many = 0.0, 1e9, [], 0

    def track(self, value):
        self.total += value

    def take(self, loss):
        self.total += loss.item()

    def count(self, x):
        self.many += len(x)

    def keep(self, model):
        if self.total < self.best:
            self.best = self.total
            torch.save(model.state_dict(), "best.pt")

    def close(self, model):
        self.keep(model)
        self.total = 0.0

    def every(self, model):
        if self.many > 100:
            torch.save(model.state_dict(), "last.pt")

    def say(self):
        if self.total < self.best:
            self.said.append("better")

    def mean(self):
        return self.total / 4
"""


def kept(batch_end: str, epoch_end: str, **slots: str) -> str:
    return script(definitions=KEEPER, before="keeper = Keeper()", batch_end=batch_end, epoch_end=epoch_end, **slots)


@pytest.mark.parametrize("end", ["keeper.keep(model)", "keeper.close(model)", "print(epoch)\nkeeper.keep(model)"])
def test_a_number_that_decides_what_is_kept_is_that_of_all(end: str) -> None:
    text = kept("keeper.track(loss.item())", end)
    assert f"keeper.track({AVERAGED})" in added(text)
    assert "COLL-RANKFLOW" not in findings(text)


def test_a_tensor_of_which_the_object_takes_the_number_is_averaged() -> None:
    text = kept("keeper.take(loss)", "keeper.keep(model)")
    assert "take(accelerator.batch_mean(loss.detach()))" in "".join(added(text))
    assert "COLL-RANKFLOW" not in findings(text)


@pytest.mark.parametrize(
    ("batch_end", "epoch_end"),
    [
        ("keeper.track(loss.item())", "keeper.say()"),
        ("keeper.track(loss.item())", "print(keeper.mean())"),
        ("keeper.track(loss.item())", "other = Keeper()\nother.keep(model)"),
        ("keeper.count(x)", "keeper.every(model)"),
        ("keeper.track(1)", "keeper.keep(model)"),
        ("", "keeper.track(epoch)\nkeeper.keep(model)"),
    ],
)
def test_what_decides_nothing_or_is_the_same_everywhere_is_left(batch_end: str, epoch_end: str) -> None:
    text = kept(batch_end, epoch_end)
    assert "reduce" not in "".join(added(text)) and "COLL-RANKFLOW" not in findings(text)


PASSING = """
class Passing:
    def __init__(self):
        self.kept = []

    def __call__(self, loss):
        self.kept.append(loss.item())
        return loss

    def push(self, value):
        self.kept.append(value)
        return len(self.kept)

    def scale(self, value):
        return 2 * value

    def mean(self):
        return sum(self.kept) / len(self.kept)
"""


@pytest.mark.parametrize(
    ("forward", "batch_end", "told"),
    [
        ("loss = keeper(F.cross_entropy(model(x), y))", "", True),
        ("loss = F.cross_entropy(model(x), y)", "many = keeper.push(loss.item())", True),
        ("loss = F.cross_entropy(model(x), y)", "if keeper.push(loss.item()) > 3:\n    print(epoch)", True),
        ("loss = keeper.scale(F.cross_entropy(model(x), y))", "", False),
        ("loss = F.cross_entropy(model(x), y)", "many = keeper.push(1)", False),
    ],
)
def test_an_object_that_keeps_what_it_is_given_where_its_result_is_taken(
    forward: str, batch_end: str, told: bool
) -> None:
    text = script(
        definitions=PASSING,
        before="keeper, best = Passing(), 9.0",
        forward=f"optimizer.zero_grad()\n{forward}",
        batch_end=batch_end,
        epoch_end="if keeper.mean() > best:\n    break",
    )
    assert ("COLL-RANKFLOW" in findings(text)) is told


@pytest.mark.parametrize(
    ("before", "put", "measured"),
    [
        ("model.total = 0.0", "model.total += loss.item()", "model.total"),
        ("kept = []\nput = kept.append", "put(loss.item())", "sum(kept)"),
    ],
)
def test_numbers_in_attributes_of_networks_and_by_methods_of_lists(before: str, put: str, measured: str) -> None:
    text = script(before=before, batch_end=put, epoch_end=f"if {measured} > 9.0:\n    break")
    assert "accelerator.batch_mean(" in "".join(added(text)) and "COLL-RANKFLOW" not in findings(text)
    assert "batch_mean" not in "".join(added(text.replace("loss.item()", "1")))


UNKNOWN = """
from elsewhere import Attack, Other

class Trainer:
    def __init__(self, attack):
        self.attack = attack

    def fit(self, model, loader, test):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x, y in loader:
            adv = self.attack.perturb(x, y)
            loss = F.cross_entropy(model(adv), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.test(model, test)

    def test(self, model, loader):
        total = 0
        for x, y in loader:
            adv = self.attack.perturb(x, model(x).argmax(1))
            total += (model(adv).argmax(1) == y).sum().item()
        print(total)
"""


@pytest.mark.parametrize("made", ["Net()", "Other()"])
def test_a_network_of_a_class_that_is_not_found_keeps_nothing(made: str) -> None:
    text = script(
        definitions=UNKNOWN,
        device="",
        model=f"model = {made}",
        optimizer="trainer = Trainer(Attack(model))",
        epochs="if True:",
        loop="if True:",
        move="",
        forward="trainer.fit(model, loader, DataLoader(data, 16))",
        backward="",
        step="",
    )
    assert "COLL-RANKFLOW" not in findings(text)
    assert "accelerator.backward(loss)" in "".join(added(text))


SHOWING = """\
class Trainer:
    EVERY = 2

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        {keep}

    def train(self, loader):
        for i, (x, y) in enumerate(loader):
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            self.log(loss.item())
            if i % self.{every}:
                continue

    def log(self, value):
        {show}
"""


@pytest.mark.parametrize(
    ("keep", "show", "every", "told"),
    [
        (
            "self.logger = logging.getLogger('a')",
            "self.logger.info(value)",
            "EVERY",
            False,
        ),  # which keeps nothing of it
        ("self.logger = SummaryWriter()", "self.logger.add_scalar('loss', value)", "EVERY", False),
        ("self.every = 2", "self.every = value", "every", True),
    ],
)
def test_what_shows_a_number_keeps_none(keep: str, show: str, every: str, told: bool) -> None:
    text = script(
        imports="import logging",
        from_imports="from torch.utils.tensorboard import SummaryWriter",
        definitions=SHOWING.format(keep=keep, show=show, every=every),
        model="model = Net()",
        epochs="trainer = Trainer(model, optimizer)\ntrainer.train(loader)",
        **dict.fromkeys(("loop", "move", "forward", "backward", "step"), ""),
    )
    assert ("COLL-RANKFLOW" in findings(text)) == told


CALLBACKS = """
class Stopper:
    last, stop = 0.0, False

    def on_batch_end(self, loss):
        self.last = loss

    def on_epoch_end(self):
        self.stop = self.last < 0.5


class Silent:
    stop = False

    def on_batch_end(self, loss):
        print("a batch")

    def on_epoch_end(self):
        print("an epoch")
"""
EACH = "for callback in callbacks:\n    callback.on_{}_end({})"


@pytest.mark.parametrize(
    ("made", "given", "end", "told"),
    [
        ("stopper = Stopper()\ncallbacks = [stopper]", "loss.item()", "if stopper.stop:\n    break", True),
        ("stopper = Stopper()\ncallbacks = [Silent(), stopper]", "loss.item()", "if stopper.stop:\n    break", True),
        ("callbacks = [Stopper()]", "loss.item()", "if any(c.stop for c in callbacks):\n    break", True),
        ("stopper = Stopper()\ncallbacks = [stopper]", "epoch", "if stopper.stop:\n    break", False),
        ("stopper = Stopper()\ncallbacks = [stopper]", "loss.item()", "print(epoch)", False),
        ("silent = Silent()\ncallbacks = [silent]", "loss.item()", "if silent.stop:\n    break", False),
        ("stopper = Stopper()\nother, callbacks = Stopper(), [stopper]", "0.1", "if other.stop:\n    break", False),
    ],
)
def test_objects_that_a_loop_calls_one_after_the_other(made: str, given: str, end: str, told: bool) -> None:
    epoch_end = f"{EACH.format('epoch', '')}\n{end}"
    text = script(definitions=CALLBACKS, before=made, batch_end=EACH.format("batch", given), epoch_end=epoch_end)
    assert ("COLL-RANKFLOW" in findings(text)) is told


METER = """
class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.values = []

    def update(self, value):
        self.values.append(value)

    def score(self):
        return sum(self.values) / len(self.values)


def evaluate(model, meter, batches):
    {first}
    with torch.no_grad():
        for x, y in batches:
            x, y = x.to(device), y.to(device)
            meter.update((model(x).argmax(1) == y).float().mean().item())
"""
BEST = "if meter.score() > best:\n    best = optimizer.param_groups[0]['lr'] = meter.score()"
EVALUATES = "evaluate(model, meter, test_loader)"


@pytest.mark.parametrize(
    ("first", "epoch_end", "told"),
    [
        ("meter.reset()", f"{EVALUATES}\n{BEST}", False),
        ("meter.reset()", f"print(meter.score())\nif epoch % 2:\n    {EVALUATES}\n    print(1)\n{BEST}", True),
        ("meter.reset()", f"if epoch % 2:\n    {EVALUATES}\n    {BEST.replace(chr(10), chr(10) + '    ')}", False),
        ("model.eval()", f"meter.reset()\n{EVALUATES}\n{BEST}", False),
        ("model.eval()", f"{EVALUATES}\n{BEST}", True),
        ("if model.training:\n        return\n    meter.reset()", f"{EVALUATES}\n{BEST}", True),
        ("if model.training:\n        meter.reset()", f"{EVALUATES}\n{BEST}", True),
        ("meter.reset()", f"{BEST}\n{EVALUATES}", True),
    ],
)
def test_an_object_that_is_emptied_before_it_decides(first: str, epoch_end: str, told: bool) -> None:
    """What the loop has put into it is gone; what an evaluation does is that of all processes."""
    text = script(
        definitions=METER.format(first=first),
        from_imports="from elsewhere import weird",
        loader="loader = DataLoader(data, batch_size=16, shuffle=True)\ntest_loader = DataLoader(data, batch_size=16)",
        before="meter = Meter()\nbest = 0",
        epoch="meter.reset()",
        batch_end="meter.update(weird(loss))",
        epoch_end=epoch_end,
    )
    assert ("COLL-RANKFLOW" in findings(text)) is told


PACE = """
class Pace:
    def __init__(self, optimizer):
        self.optimizer, self.seen = optimizer, []

    def __enter__(self):
        return self

    def add(self, value):
        self.seen.append(value)

    def __exit__(self, *error):
        if sum(self.seen) < 3:
            {}

"""
WITHIN = f"""
def train(epoch):
    with Pace(optimizer) as pace:
{textwrap.indent(TRAINS, "    ")}            pace.add(loss.item())
"""


@pytest.mark.parametrize(
    ("does", "averages"),
    [('self.optimizer.param_groups[0]["lr"] = 0.01', True), ("self.seen.clear()", False), ('print("low")', False)],
)
def test_an_object_decides_where_its_block_is_left(does: str, averages: bool) -> None:
    slots = {**NO_LOOP, "epochs": "for epoch in range(2):", "epoch": "train(epoch)"}
    lines = added(script(definitions=PACE.format(does) + WITHIN, **slots))
    assert (f"pace.add({AVERAGED})" in lines) == averages
