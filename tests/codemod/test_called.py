"""Decisions that functions take which a training loop calls, on what is in the process's share of a batch."""

from __future__ import annotations

import textwrap

import pytest
from scripts import findings, script

STEP = """
def step(model, optimizer, x, y, state, rate=0.1):
    loss = F.cross_entropy(model(x), y)
    {before}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
    return loss
"""
PLATEAU = (
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"
)
SLOWER = "for group in optimizer.param_groups:\n    group['lr'] *= 0.5"
AGAIN = "F.cross_entropy(model(x), y).backward()\noptimizer.step()"


def told(before: str = "", after: str = "") -> list[str]:
    """The findings for a function that trains on one batch, with more statements in it."""
    parts = {name: textwrap.indent(text, "    ").lstrip() for name, text in (("before", before), ("after", after))}
    calls = "loss = step(model, optimizer, x, y, state)"
    empty = dict.fromkeys(("forward", "step"), "")
    text = script(definitions=STEP.format(**parts), optimizer=PLATEAU, before="state = {}", backward=calls, **empty)
    return [code for code in findings(text) if code == "COLL-RANKFLOW"]


def under(test: str, text: str) -> str:
    """Statements under a test."""
    return f"if {test}:\n{textwrap.indent(text, '    ')}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", under("loss.item() < 0.2", SLOWER)),
        ("", under("loss.item() < 0.2", AGAIN)),
        (under("loss.item() > 2", "loss = 0.1 * loss"), ""),
        (under("(y == 1).sum() > 3", "weight = 2\nloss = weight * loss"), ""),
        ("", "mean = loss.detach().item()\nbad = mean > 3\n" + under("bad", SLOWER)),
        ("", "state['mean'] = 0.9 * state.get('mean', 0) + loss.item()\n" + under("state['mean'] < 1", SLOWER)),
        ("", "scheduler.step(loss.item())"),
        ("", "for group in optimizer.param_groups:\n    group['lr'] = loss.item()"),
        (under("torch.isnan(loss)", "return None"), ""),
        (under("not (y == 0).any()", "return loss"), ""),
        (
            "for part in range(3):\n    model(x).sum().backward()\n"
            + textwrap.indent(under("loss > 1", "break"), "    "),
            "",
        ),
    ],
)
def test_a_function_decides_by_what_it_measures(before: str, after: str) -> None:
    assert told(before, after) == ["COLL-RANKFLOW"]


@pytest.mark.parametrize(
    "before",
    [
        under("len(state) > 2", "loss = 0.1 * loss"),
        under("x.size(0) < 2", "loss = 0.1 * loss"),
        under("loss.item() > 2", "state = {}"),
        under("rate > 0.01", "loss = 0.1 * loss"),
    ],
)
def test_losses_that_are_alike_on_all_processes(before: str) -> None:
    assert told(before) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", under("rate > 0.2", SLOWER)),  # a setting
        ("", under("y is None", SLOWER)),
        ("", under("y", AGAIN)),  # a switch by itself
        ("", "state['n'] = state.get('n', 0) + 1\nstate['mean'] = loss.item()\n" + under("state['n'] > 9", SLOWER)),
        ("", "scheduler.step()"),
        ("", under("loss.item() < 0.2", "print(loss)")),
        ("", under("loss.item() < 0.2", "return loss")),  # after it has trained
        (under("x.dim() > 2", "return loss"), ""),
        (under("len(x.shape) > 2", "return loss"), ""),
        ("for row in y:\n    if row > 1:\n        break", ""),
        ("", "norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n" + under("norm > 9", SLOWER)),
    ],
)
def test_functions_that_do_alike_on_all_processes(before: str, after: str) -> None:
    assert told(before, after) == []


METHOD = """
class Learner:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.mean = 0.0
        self.steps = 0

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.mean = 0.9 * self.mean + 0.1 * loss.item()
        self.steps += 1

    def slower(self):
        if {test}:
            for group in self.optimizer.param_groups:
                group["lr"] *= 0.5
"""


@pytest.mark.parametrize(("test", "expected"), [("self.mean < 0.2", True), ("self.steps > 9", False)])
def test_an_object_decides_by_what_another_method_left(test: str, expected: bool) -> None:
    empty = dict.fromkeys(("forward", "step"), "")
    text = script(
        definitions=METHOD.format(test=test),
        before="learner = Learner(model, optimizer)",
        backward="learner.step(x, y)\nlearner.slower()",
        **empty,
    )
    assert ("COLL-RANKFLOW" in findings(text)) == expected
