"""Objects and functions that methods, decorators or `*` put where a loop tells them what it measures."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, added, findings, script

AVERAGED = "accelerator.batch_mean(loss.detach()).item()"
HOOKS = """
class Stop:
    def __init__(self):
        self.stop = False

    def after(self, loss):
        if loss < 0.5:
            self.stop = True


class Count:
    def __init__(self):
        self.stop = self.many = 0

    def after(self, loss):
        self.many += 1


class Hooks:
    def __init__(self, *hooks):
        self.hooks = hooks

    def after(self, loss):
        for hook in self.hooks:
            hook.after(loss)


class Grown:
    def __init__(self):
        self.hooks = []

    def add(self, hook):
        self.hooks.append(hook)

    def after(self, loss):
        for hook in self.hooks:
            hook.after(loss)


class Saves:
    best = 10

    def after(self, loss):
        if loss < self.best:
            self.best = loss
            torch.save(model.state_dict(), "best.pt")

"""
TRAINER = """
class Trainer:
    def __init__(self, model, optimizer, loader, {given}):
        self.model, self.optimizer, self.loader = model, optimizer, loader
        self.hooks = {hooks}

    def add(self, hook):
        self.hooks.append(hook)

    def tell(self, name, *args):
        for hook in self.hooks:
            getattr(hook, name)(*args)

    def fit(self):
        for epoch in range(2):
            for x, y in self.loader:
                x, y = x.to(device), y.to(device)
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                {tell}
            if self.hooks[0].stop:
                break

"""
EACH = "for hook in self.hooks: hook.after(loss.item())"
TELL = 'self.tell("after", loss.item())'
WAYS = [
    ("*hooks", "hooks", "trainer = Trainer(model, optimizer, loader, {}(), Count())"),
    ("hooks", "hooks", "trainer = Trainer(model, optimizer, loader, [{}(), Count()])"),
    ("name=None", "[]", "trainer = Trainer(model, optimizer, loader)\ntrainer.add({}())\ntrainer.add(Count())"),
]


@pytest.mark.parametrize(("given", "hooks", "made"), WAYS)
@pytest.mark.parametrize("tell", [EACH, TELL])
def test_a_trainer_gets_what_says_when_to_stop(given: str, hooks: str, made: str, tell: str) -> None:
    def text(kind: str) -> str:
        trainer = TRAINER.format(given=given, hooks=hooks, tell=tell)
        return script(definitions=HOOKS + trainer, **NO_LOOP, after=f"{made.format(kind)}\ntrainer.fit()")

    if tell is TELL:
        assert f'self.tell("after", {AVERAGED})' in added(text("Stop"))
        assert "COLL-RANKFLOW" not in findings(text("Stop"))
    else:
        assert "COLL-RANKFLOW" in findings(text("Stop"))
    assert "COLL-RANKFLOW" not in findings(text("Count"))
    assert not [line for line in added(text("Count")) if AVERAGED in line]


@pytest.mark.parametrize("made", ["hooks = Hooks(hook, Count())", "hooks = Grown()\nhooks.add(hook)"])
def test_an_object_gets_what_says_when_to_stop(made: str) -> None:
    def lines(kind: str) -> list[str]:
        before = f"hook = {kind}()\n{made}"
        return added(script(definitions=HOOKS, before=before, batch_end="hooks.after(loss.item())", epoch_end=END))

    assert f"hooks.after({AVERAGED})" in lines("Stop")
    assert f"hooks.after({AVERAGED})" not in lines("Count")


END = "if hook.stop:\n    break"
STATE = 'state = {"stop": False}\n'
CHECK = """
def check(loss):
    if loss < 0.5:
        state["stop"] = True

"""
SHOW = CHECK.replace('state["stop"] = True', 'print("low")')
EVENTS = """
class Events:
    def __init__(self):
        self.handlers = {}

    def on(self, name, f):
        self.handlers.setdefault(name, []).append(f)

    def fire(self, name, **given):
        for f in self.handlers.get(name, []):
            f(**given)

events = Events()
"""
REGISTRY = """
HOOKS = {"after": [], "before": []}
def on(name):
    def put(f):
        HOOKS[name].append(f)
        return f
    return put

def fire(name, **given):
    for f in HOOKS[name]:
        f(**given)

"""
LISTS = "from collections import defaultdict\nHOOKS = defaultdict(list)\n"


@pytest.mark.parametrize(
    ("head", "put", "tell"),
    [
        (EVENTS, '{}events.on("after", check)\n', 'events.fire("after", loss={})'),
        (REGISTRY, '@on("after"){}', 'fire("after", loss={})'),
        (LISTS, '{}HOOKS["after"].append(check)\n', 'for hook in HOOKS["after"]:\n    hook({})'),
    ],
)
def test_a_function_of_a_registry_says_when_to_stop(head: str, put: str, tell: str) -> None:
    def text(function: str) -> str:
        definitions = STATE + head + put.format(function)
        end = 'if state["stop"]:\n    break'
        return script(definitions=definitions, batch_end=tell.format("loss.item()"), epoch_end=end)

    told = tell.format(AVERAGED).splitlines()[-1].strip()
    assert told in added(text(CHECK))
    assert findings(text(CHECK)) == []
    assert told not in added(text(SHOW))


@pytest.mark.parametrize("hooks", ["[Saves(), Count()]", "[Count(), Saves()]"])
def test_one_of_several_saves_the_best(hooks: str) -> None:
    slots = {"epoch": "total = 0", "batch_end": "total += loss.item()"}
    end = "for hook in hooks:\n    hook.after(total)"
    saves = script(definitions=HOOKS, before=f"hooks = {hooks}", epoch_end=end, **slots)
    assert f"total += {AVERAGED}" in added(saves)
    counts = script(definitions=HOOKS, before=f"hooks = {hooks.replace('Saves', 'Count')}", epoch_end=end, **slots)
    assert f"total += {AVERAGED}" not in added(counts)
