"""What a script adds up over its processes, and computes losses with: without the sum, those would be other losses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import Facts, Function, position
from accelift_codemod.facts.gradients import Gradients, off
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.single.switches import Switches

_COMBINES = frozenset(
    "all_reduce reduce all_gather all_gather_into_tensor all_gather_object gather broadcast broadcast_object_list "
    "reduce_scatter reduce_scatter_tensor all_to_all all_to_all_single".split()
)
_MODULES = frozenset({"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.loss._Loss"})


def combined(facts: Facts, switches: Switches) -> Iterator[tuple[ast.expr, ast.Call]]:
    """What is combined with that of other processes, if there are any, and may be a part of a loss; and where."""
    led: set[ast.AST] | None = None
    for use, name in facts.processes.uses:
        call = facts.index.parents.get(use)
        if name.rpartition(".")[2] not in _COMBINES or not isinstance(call, ast.Call) or call.func is not use:
            continue
        function = facts.index.function(call)
        if not isinstance(function, FUNCTIONS):
            continue
        names = _names(switches, function, call)
        reads = [read for read in _reads(function, names, call) if not switches.dead(read)]
        if led is None:
            led = _led(facts)
        of_loss = not led.isdisjoint([*reads, call, *facts.resolver.sites(function)])
        if of_loss or (reads and _in_network(facts, function, call)):
            yield _what(call) or use, call


def _what(call: ast.Call) -> ast.expr | None:
    """What a call combines in place, or fills."""
    return next(iter([*call.args, *(k.value for k in call.keywords)]), None)


def _names(switches: Switches, function: Function, call: ast.Call) -> set[str]:
    """The variables and attributes that what is combined is in, or gets into where there are several processes."""
    found = {text for text in [_text(_what(call))] if text}
    statements = [s for s in walk(function) if isinstance(s, (ast.Assign, ast.AugAssign))]
    for statement in statements:
        if any(part is call for part in walk(statement)):
            found.update(_targets(statement))
    while True:
        more = set(found)
        for statement in statements:
            read = {text for text in map(_text, walk(statement.value)) if text}
            if isinstance(statement.value, (ast.Name, ast.Attribute)) and not found.isdisjoint(_targets(statement)):
                more |= read  # another name of the same
            elif position(statement) > position(call) and not found.isdisjoint(read):
                more |= _targets(statement) if switches.dead(statement) else set()
        if more == found:
            return found
        found = more


def _targets(statement: ast.Assign | ast.AugAssign) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    parts = [part for t in targets for part in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
    return {text for text in map(_text, parts) if text}


def _text(node: ast.AST | None) -> str:
    """A variable or an attribute, as text; that of which something is an entry."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _reads(function: Function, names: set[str], call: ast.Call) -> Iterator[ast.AST]:
    """Where one of some variables is read further below in a function."""
    for node in walk(function):
        read = isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
        if read and position(node) > position(call) and _text(node) in names:
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
