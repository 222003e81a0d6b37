"""`accelift check` finds what some processes do alone to what all of them have."""

from __future__ import annotations

import pytest
from accelift_codemod.plan import Severity

from tests.codemod.checks import findings, marked, script

MAIN = "if accelerator.is_main_process:\n    "
NORMED = "model = nn.Sequential(Net(), nn.BatchNorm1d(3))"
COUNTING = (
    "class Counting(Net):\n    def __init__(self):\n        super().__init__()\n"
    "        self.register_buffer('seen', torch.zeros(1))\n"
)
WAITS = {
    "a batch to look at": script(after=f"{MAIN}x, y = next(iter(loader))  # HERE"),
    "an iterator": script(before=f"{MAIN}batches = iter(loader)  # HERE"),
    "an iterator in a function": script(
        definitions="def show(loader):\n    print(next(iter(loader)))  # HERE\n", after=f"{MAIN}show(loader)"
    ),
    "an iterator of the others": script(
        after="if not accelerator.is_main_process:\n    x, y = next(iter(loader))  # HERE"
    ),
    "a model with BatchNorm": script(model=NORMED, after=f"{MAIN}print(model(x))  # HERE"),
    "the same without gradients": script(
        model=NORMED, after=f"{MAIN}model.eval()\n    with torch.no_grad():\n        print(model(x))  # HERE"
    ),
    "a model with a buffer": script(
        definitions=COUNTING, model="model = Counting()", after=f"{MAIN}print(model(x))  # HERE"
    ),
    "in a decorated function": script(
        model=NORMED,
        before="@accelerator.on_main_process\ndef show(x):\n    print(model(x))  # HERE",
        batch_end="show(x)",
    ),
}
JOINS = {
    "every process": script(model=NORMED, after="x, y = next(iter(loader))\nprint(model(x))"),
    "a loader that was not prepared": script(after=f"{MAIN}x, y = next(iter(DataLoader(data)))"),
    "before it is prepared": script(
        loader="loader = DataLoader(data, batch_size=16, shuffle=True)\n" + MAIN + "x, y = next(iter(loader))"
    ),
    "a list": script(after=f"{MAIN}x = next(iter([1, 2]))"),
    "in both arms": script(after=f"{MAIN}x = iter(loader)\nelse:\n    x = iter(loader)"),
    "a model without buffers": script(after=f"{MAIN}print(model(x))"),
    "the model itself": script(model=NORMED, after=f"{MAIN}print(accelerator.unwrap_model(model)(x))"),
    "the model in the wrapper": script(model=NORMED, after=f"{MAIN}print(model.module(x))"),
    "without averages": script(
        model="model = nn.Sequential(Net(), nn.BatchNorm1d(3, track_running_stats=False))",
        after=f"{MAIN}print(model(x))",
    ),
    "no buffers are handed on": script(
        model=NORMED,
        from_imports="from accelerate import DistributedDataParallelKwargs",
        device="accelerator = Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False)])",
        after=f"{MAIN}print(model(x))",
    ),
    "one process": script(
        model=NORMED,
        after="if accelerator.is_main_process and accelerator.num_processes == 1:\n    print(model(x), iter(loader))",
    ),
    "a model that was not prepared": script(
        model=f"{NORMED}\nteacher = nn.Sequential(Net(), nn.BatchNorm1d(3))", after=f"{MAIN}print(teacher(x))"
    ),
}


@pytest.mark.parametrize("text", WAITS.values(), ids=WAITS)
def test_what_waits_for_the_other_processes_is_an_error(text: str) -> None:
    found = findings(text, "COLL-MAIN")
    assert [f.line for f in found] == marked(text)
    assert {f.severity for f in found} == {Severity.ERROR}


@pytest.mark.parametrize("text", JOINS.values(), ids=JOINS)
def test_what_waits_for_nobody_is_right(text: str) -> None:
    assert findings(text, "COLL-MAIN") == []


SCHEDULED = (
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nscheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)"
)
LOADS = "load_state_dict(torch.load('best.pt'))"
APART = {
    "a schedule": script(optimizer=SCHEDULED, batch_end=f"{MAIN}scheduler.step()  # HERE"),
    "a schedule, once an epoch": script(optimizer=SCHEDULED, epoch_end=f"{MAIN}scheduler.step()  # HERE"),
    "an optimizer": script(step=f"{MAIN}optimizer.step()  # HERE"),
    "weights": script(before=f"{MAIN}model.{LOADS}  # HERE"),
    "weights of the model itself": script(before=f"{MAIN}accelerator.unwrap_model(model).{LOADS}  # HERE"),
    "the state of an optimizer": script(before=f"{MAIN}optimizer.{LOADS}  # HERE"),
    "the others": script(
        optimizer=SCHEDULED, batch_end="if not accelerator.is_main_process:\n    scheduler.step()  # HERE"
    ),
}
ALIKE = {
    "every process": script(optimizer=SCHEDULED, batch_end="scheduler.step()", before=f"model.{LOADS}"),
    "in both arms": script(optimizer=SCHEDULED, batch_end=f"{MAIN}scheduler.step()\nelse:\n    scheduler.step()"),
    "before it is prepared": script(model="model = Net()\nif accelerator.is_main_process:\n    model." + LOADS),
    "after the training": script(after=f"{MAIN}model.{LOADS}\n    print(model(x))"),
    "another model": script(before=f"{MAIN}teacher = Net()\n    teacher.{LOADS}"),
    "handed on": script(
        from_imports="from accelerate.utils import broadcast",
        before=f"{MAIN}model.{LOADS}\nfor p in model.parameters():\n    p.data = broadcast(p.data)",
    ),
    "another method": script(
        optimizer=SCHEDULED, batch_end=f"{MAIN}print(scheduler.get_last_lr(), optimizer.state_dict())"
    ),
    "another object": script(
        definitions="class Clock:\n    def step(self):\n        pass\n",
        before="clock = Clock()",
        batch_end=f"{MAIN}clock.step()",
    ),
    "one process": script(
        optimizer=SCHEDULED,
        batch_end="if accelerator.is_main_process and accelerator.num_processes == 1:\n    scheduler.step()",
    ),
}


@pytest.mark.parametrize("text", APART.values(), ids=APART)
def test_what_takes_the_processes_apart_is_an_error(text: str) -> None:
    found = findings(text, "STATE-MAIN")
    assert [f.line for f in found] == marked(text)
    assert {f.severity for f in found} <= {Severity.ERROR}


@pytest.mark.parametrize("text", ALIKE.values(), ids=ALIKE)
def test_what_changes_alike_is_right(text: str) -> None:
    assert findings(text, "STATE-MAIN") == []


COMMANDS = """\
import argparse
import torch
from accelerate import Accelerator

args = argparse.ArgumentParser().parse_args()


def make_data():
    torch.save({{}}, "data.pt")
    print("done")


class Trainer:
    def __init__(self):
        self.accelerator = Accelerator()

    def fit(self):
        self.accelerator.print("done")


def train():
    Trainer().fit()


def main():
    {body}


main()
"""
ELSE = "if args.prepare:\n        make_data()\n    else:\n        "
LEAVES = "if args.prepare:\n        make_data()\n        return\n    "


@pytest.mark.parametrize(
    ("body", "all_of_them"),
    [
        (f"{ELSE}train()", False),
        (f"{LEAVES}train()", False),
        (f"{LEAVES}accelerator = Accelerator()\n    train()", False),
        ("if args.prepare:\n        make_data()\n    train()", True),
        (f"{ELSE}make_data()\n        train()", True),
        (f"accelerator = Accelerator()\n    {ELSE}train()", True),
        (f"given = None\n    {ELSE.replace('args.prepare', 'given is not None')}given = Accelerator()", True),
        (f"{ELSE}train()".replace("make_data()\n    else", "make_data()\n        train()\n    else"), True),
    ],
)
def test_a_command_that_makes_no_accelerator_beside_one_that_does(body: str, all_of_them: bool) -> None:
    text = COMMANDS.format(body=body)
    assert [bool(findings(text, code)) for code in ("SAVE-RACE", "PRINT-ALL")] == [all_of_them] * 2
