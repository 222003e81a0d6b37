"""Objects of several classes that a loop tells what it measures, one after the other, or one that is chosen."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, TRAINS, added, findings, script

AVERAGED = "accelerator.batch_mean(loss.detach()).item()"
HOOKS = """
class Rate:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def before(self):
        pass

    def after(self, loss, state):
        if loss < 0.5:
            self.optimizer.param_groups[0]["lr"] = 0.01


class Stop:
    stop = False

    def before(self):
        pass

    def after(self, loss, state):
        if loss < 0.5:
            self.stop = state["stop"] = True


class Count:
    stop, many = False, 0

    def before(self):
        pass

    def after(self, loss, state):
        self.many += 1


class Last:
    many = 0

    def before(self):
        pass

    def after(self, loss, state):
        self.many = loss


class Hooks:
    def __init__(self, hooks):
        self.hooks = hooks

    def after(self, loss, state):
        for hook in self.hooks:
            hook.after(loss, state)

    def __call__(self, name, *args):
        for hook in self.hooks:
            getattr(hook, name)(*args)

    def fire(self, name, **given):
        for hook in self.hooks:
            getattr(hook, name)(**given)

"""
EACH = "for hook in hooks:\n    hook.after(loss.item(), state)"
STATE = 'state = {"stop": False}'


def told(before: str, batch_end: str, epoch_end: str = "") -> list[str]:
    text = script(
        definitions=HOOKS, before=f"{STATE}\n{before}", batch_end=batch_end, epoch_end=epoch_end, imports="import sys"
    )
    return [code for code in findings(text) if code == "COLL-RANKFLOW"]


@pytest.mark.parametrize(
    ("before", "tells"),
    [
        ("hooks = [{}, Count()]", EACH),
        ("hooks = Hooks([{}, Count()])", "hooks.after(loss.item(), state)"),
        ("hooks = Hooks([{}, Count()])", 'hooks("after", loss.item(), state)'),
        ("hooks = Hooks([{}, Count()])", 'hooks.fire("after", loss=loss.item(), state=state)'),
        ("hooks = Hooks([{}])", 'hooks("after", loss.item(), state)'),
        ('hook = {} if "--rate" in sys.argv else Count()', "hook.after(loss.item(), state)"),
        ("hooks = [{}.after, Count().after]", "for hook in hooks:\n    hook(loss.item(), state)"),
        ('hooks = {{"after": {}.after}}', 'hooks["after"](loss.item(), state)'),
    ],
)
def test_the_rate_is_set_by_one_of_them(before: str, tells: str) -> None:
    assert told(before.format("Rate(optimizer)"), tells) == ["COLL-RANKFLOW"]
    assert told(before.format("Count()"), tells) == []
    assert told(before.format("Rate(optimizer)"), tells.replace("loss.item()", "epoch")) == []


@pytest.mark.parametrize("asked", ["stop.stop", "any(hook.stop for hook in hooks)", 'state["stop"]'])
def test_one_of_them_says_when_to_stop(asked: str) -> None:
    end = f"if {asked}:\n    break"
    assert told("stop = Stop()\nhooks = [stop, Count()]", EACH, end) == ["COLL-RANKFLOW"]
    assert told("stop = Count()\nhooks = [stop, Count()]", EACH, end) == []


@pytest.mark.parametrize("others", ["", ", Count()"])
@pytest.mark.parametrize("tells", ["hooks.after({}, state)", 'hooks("after", {}, state)'])
def test_what_an_object_hands_on_is_kept_by_others(others: str, tells: str) -> None:
    def lines(kind: str) -> list[str]:
        before = f"{STATE}\nhook = {kind}()\nhooks = Hooks([hook{others}])"
        tell = tells.format("loss.item()")
        end = "if hook.many < 0.5:\n    break"
        text = script(definitions=HOOKS, before=before, batch_end=tell, epoch_end=end)
        assert "COLL-RANKFLOW" not in findings(text)
        return added(text)

    assert tells.format(AVERAGED) in lines("Last")
    assert tells.format(AVERAGED) not in lines("Count")


@pytest.mark.parametrize(("kind", "codes"), [("Stop", ["COLL-RANKFLOW"]), ("Count", [])])
def test_a_function_that_trains_is_given_a_method(kind: str, codes: list[str]) -> None:
    trains = f"def train(told=None):\n{TRAINS}        if told is not None:\n            told(loss.item(), state)\n"
    end = f"hook = {kind}()\ntrain(hook.after)\nif hook.stop:\n    break"
    slots = {**NO_LOOP, "epochs": "for epoch in range(2):", "epoch": end, "setup": STATE}
    found = findings(script(definitions=HOOKS + trains, **slots))
    assert [code for code in found if code == "COLL-RANKFLOW"] == codes


def test_what_one_is_told_of_all_processes_is_no_decision_by_a_share() -> None:
    text = script(definitions=HOOKS, before=f"{STATE}\nhooks = [Rate(optimizer)]", batch_end=EACH)
    assert f"hook.after({AVERAGED}, state)" in added(text)
    assert "COLL-RANKFLOW" not in findings(text)
