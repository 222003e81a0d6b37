"""Runs a network that trains itself through what wraps it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.blueprint import Item
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.facts.self_trained import is_run
from accelift_codemod.networks.bypassing import trains
from accelift_codemod.plan import Edit, Finding, Operation, Severity
from accelift_codemod.rules import Rule

_RULE = "ITSELF"


class Itself(Rule):
    """Calls the prepared network in the method by which a network trains itself.

    The wrapper that averages gradients stands outside of the network, so `self` is always the network inside. The
    method gets a variable for what `prepare` returns of `self`, and `self(x)` becomes a call of that, as do the methods
    whose results reach the backward pass. All else that is asked of `self` (its parameters, `train()`, its state)
    stays: it is the same network.
    """

    code = _RULE
    name = "networks that train themselves"
    required = True
    before = """\
def fit(self, loader):
    optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
    for x, y in loader:
        loss = F.cross_entropy(self(x), y)
"""
    after = """\
def fit(self, loader):
    optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
    net, optimizer = accelerator.prepare(self, optimizer)
    for x, y in loader:
        loss = F.cross_entropy(net(x), y)
"""

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for item in draft.blueprint.items.values():
            for name in draft.facts.loads(item.scope, item.name) if item.target else ():
                if draft.blueprint.after_prepare(name, item.value):
                    yield from self._use(draft, item, name)

    def _use(self, draft: Draft, item: Item, name: ast.Name) -> Iterator[Edit | Finding]:
        parents = draft.facts.index.parents
        func = parents[name] if isinstance(parents[name], ast.Attribute) else name
        call = parents[func]
        if not isinstance(call, ast.Call) or call.func is not func:
            return
        run = is_run(call, name.id)
        if isinstance(func, ast.Attribute) and not run:
            method = draft.facts.resolver.method(item.value.declaration, func.attr)
            loss = draft.facts.resolver.only(func, Role.LOSS)  # of which no gradients are averaged
            if loss or not trains(draft, call, func.attr, (item.value,)):
                return
            if not draft.runtime:
                yield draft.finding(
                    "DDP-METHOD",
                    Severity.ERROR,
                    call,
                    f"`{draft.facts.segment(func)}(...)` reaches the backward pass without going through the wrapper",
                    "call it from forward, or convert with --target runtime",
                )
            if method is None or not draft.runtime:
                return
        reason = "the gradients are averaged by what wraps the network"
        yield draft.edit(_RULE, name, Operation.BECOME, reason, item.target, subject=name)
