"""What a script adds up over its processes, and computes losses with: without the sum, those would be other losses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import Facts, Function, position
from accelift_codemod.facts.gradients import Gradients, off
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.single.switches import Switches

_COMBINES = frozenset("all_reduce reduce all_gather all_gather_into_tensor all_gather_object broadcast".split())
_MODULES = frozenset({"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.loss._Loss"})


def combined(facts: Facts, switches: Switches) -> Iterator[tuple[ast.expr, ast.Call]]:
    """What is combined with that of other processes, if there are any, and may be a part of a loss; and where."""
    led: set[ast.AST] | None = None
    for use, name in facts.processes.uses:
        call = facts.index.parents.get(use)
        if name.rpartition(".")[2] not in _COMBINES or not isinstance(call, ast.Call) or call.func is not use:
            continue
        what, function = next(iter(call.args), None), facts.index.function(call)
        if not isinstance(what, (ast.Name, ast.Attribute)) or not isinstance(function, FUNCTIONS):
            continue
        reads = [read for read in _reads(facts, function, what, call) if not switches.dead(read)]
        if led is None:
            led = _led(facts)
        of_loss = not led.isdisjoint([*reads, *facts.resolver.sites(function)])
        if of_loss or (reads and _in_network(facts, function, call)):
            yield what, call


def _reads(facts: Facts, function: Function, what: ast.expr, call: ast.Call) -> Iterator[ast.AST]:
    """Where something is read further below in its function."""
    for node in ast.walk(function):
        same = isinstance(node, type(what)) and isinstance(getattr(node, "ctx", None), ast.Load)
        if same and position(node) > position(call) and ast.unparse(node) == ast.unparse(what):
            yield node


def _led(facts: Facts) -> set[ast.AST]:
    """All that losses are computed from, as far as gradients flow back."""
    gradients = Gradients(facts.resolver, facts.loops.backwards)
    losses = (call.func.value for call in facts.loops.backwards if isinstance(call.func, ast.Attribute))
    return {node for loss in losses for node in gradients.led(loss)}


def _in_network(facts: Facts, function: Function, call: ast.Call) -> bool:
    """Whether a function is a method of a network or a loss, and runs with gradients."""
    cls = facts.index.parents.get(function)
    bases = [b for c in facts.resolver.ancestry(cls) for b in c.bases] if isinstance(cls, ast.ClassDef) else []
    return any(facts.resolver.qualified(b) in _MODULES for b in bases) and not off(facts.resolver, call)
