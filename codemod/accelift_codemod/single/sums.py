"""What a script adds up over its processes, and computes losses with: without the sum, those would be other losses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import Facts, Function, position
from accelift_codemod.facts.gradients import Gradients, off
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.single.switches import Switches

_COMBINES = frozenset(
    "all_reduce reduce all_gather all_gather_into_tensor all_gather_object gather broadcast broadcast_object_list "
    "reduce_scatter reduce_scatter_tensor all_to_all all_to_all_single".split()
)
_MOST = 20  # calls that are looked at for one
_MODULES = frozenset({"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.loss._Loss"})


def combined(facts: Facts, switches: Switches) -> Iterator[tuple[ast.expr, ast.Call]]:
    """What is combined with that of other processes, if there are any, and may be a part of a loss; and where."""
    losses: _Losses | None = None
    for use, name in facts.processes.uses:
        call = facts.index.parents.get(use)
        if name.rpartition(".")[2] not in _COMBINES or not isinstance(call, ast.Call) or call.func is not use:
            continue
        if isinstance(facts.index.function(call), FUNCTIONS):
            losses = losses or _Losses(facts)
            if any(losses.have(node) for node in _onwards(facts, switches, call)):
                yield _what(call) or use, call


class _Losses:
    """What losses are computed from."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        gradients = Gradients(facts.resolver, facts.loops.backwards)
        losses = (call.func.value for call in facts.loops.backwards if isinstance(call.func, ast.Attribute))
        self.led = {node for loss in losses for node in gradients.led(loss)}  # as far as gradients flow back
        called = (node.func for node in self.led if isinstance(node, ast.Call))
        self.classes = {v.declaration for func in called for v in facts.resolver.values(func)}

    def have(self, node: ast.AST) -> bool:
        """Whether a loss may be computed with a node: it leads to one, or what is read there is read by a network or by
        an object that gives losses, with gradients."""
        if node in self.led:
            return True
        cls = self.facts.index.enclosing_class(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if cls is None or off(self.facts.resolver, node):
            return False
        bases = [b for c in self.facts.resolver.ancestry(cls) for b in c.bases]
        return cls in self.classes or any(self.facts.resolver.qualified(b) in _MODULES for b in bases)


def _onwards(facts: Facts, switches: Switches, combines: ast.Call) -> Iterator[ast.AST]:
    """The calls by which something is combined, and the reads of what it gets into: of variables further below, and of
    attributes wherever their object goes."""
    kept: set[str] = set()
    queue: list[tuple[ast.Call, ast.expr | None]] = [(combines, _what(combines))]
    for call, what in queue:
        yield call
        function = facts.index.function(call)
        if not isinstance(function, FUNCTIONS):
            continue
        names = _names(switches, function, call, what)
        yield from (read for read in _reads(function, names, call) if not switches.dead(read))
        attributes = [n for n in walk(function) if isinstance(n, ast.Attribute) and ast.unparse(n) in names]
        for held in attributes if len(queue) <= _MOST else ():
            if held.attr not in kept:
                kept.add(held.attr)
                same = (n for n in facts.index.attributes[held.attr] if _is_same(facts, held, n))
                yield from (n for n in same if not switches.dead(n) and n not in set(walk(call)))
        returned = {text for r in facts.resolver.returns(function) for text in map(_text, walk(r)) if text}
        for site in facts.resolver.sites(function) if len(queue) <= _MOST else ():
            bound = facts.resolver.bind(site, function) or {}
            given = [bound[name] for name in bound if name in names and _is_handed_in(facts, function, name)]
            if given or not names.isdisjoint(returned):
                queue += [(site, one) for one in given] or [(site, None)]


def _is_handed_in(facts: Facts, function: Function, name: str) -> bool:
    """Whether a parameter always is what the function is given."""
    return len(facts.index.scopes[function].bindings.get(name, ())) == 1


def _is_same(facts: Facts, held: ast.Attribute, read: ast.Attribute) -> bool:
    """Whether an attribute is read of an object that may be the one which keeps it: of the same class, or name."""
    if not isinstance(read.ctx, ast.Load):
        return False
    here, there = _owners(facts, held), _owners(facts, read)
    return not here.isdisjoint(_with_bases(facts, there)) or not there.isdisjoint(_with_bases(facts, here))


def _with_bases(facts: Facts, owners: set[object]) -> set[object]:
    return owners | {c for o in owners if isinstance(o, ast.ClassDef) for c in facts.resolver.ancestry(o)}


def _owners(facts: Facts, node: ast.Attribute) -> set[object]:
    """The classes whose objects an attribute is of; the object as it is written, where they are not known."""
    classes: set[object] = {v.declaration or v.origin for v in facts.resolver.values(node.value)}
    own = facts.index.enclosing_class(node) if ast.unparse(node.value) == "self" else None
    return {own} if own is not None else classes or {ast.unparse(node.value)}


def _what(call: ast.Call) -> ast.expr | None:
    """What a call combines in place, or fills."""
    return next(iter([*call.args, *(k.value for k in call.keywords)]), None)


def _names(switches: Switches, function: Function, call: ast.Call, what: ast.expr | None) -> set[str]:
    """The variables and attributes that what is combined is in, or gets into where there are several processes."""
    found = {text for text in [_text(what)] if text}
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
    parts = [part for t in targets(statement) for part in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
    return {text for text in map(_text, parts) if text}


def _text(node: ast.AST | None) -> str:
    """A variable or an attribute, as text; that of which something is an entry."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _reads(function: Function, names: set[str], call: ast.Call) -> Iterator[ast.AST]:
    """Where one of some variables is read further below in a function."""
    inside = set(walk(call))
    for node in walk(function):
        read = isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
        if read and position(node) > position(call) and _text(node) in names and node not in inside:
            yield node
