"""What hooks of networks keep of the batches that these are run on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelift_codemod.facts.classes import is_static
from accelift_codemod.facts.effects import computes_with
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.keeping import PUTS
from accelift_codemod.facts.tree import targets, walk

if TYPE_CHECKING:
    from accelift_codemod.facts import Facts
    from accelift_codemod.facts.resolve import Resolver

FORWARD, BEFORE = "register_forward_hook", "register_forward_pre_hook"
_REGISTERS = (FORWARD, BEFORE, "register_full_backward_hook", "register_backward_hook")
_SETS = (ast.Assign, ast.AugAssign, ast.AnnAssign)
_DEPTH = 3  # from what is registered to the function that does the work

Hook = Function | ast.Lambda


@dataclass(frozen=True)
class Kept:
    """Something of a batch that a hook puts into an object from outside: where it is registered, the hook, the variable
    or attribute of self that holds the object, and what puts it there."""

    call: ast.Call
    hook: Hook
    place: ast.Name | ast.Attribute
    put: ast.AST


def kept(facts: Facts) -> Iterator[Kept]:
    """What all hooks that the script registers keep."""
    for name in _REGISTERS:
        for call in facts.index.methods.get(name, []):
            hooks = dict.fromkeys(functions(facts, call.args[0])) if call.args and facts.runs(call) else ()
            for hook in hooks:
                yield from (Kept(call, hook, place, put) for place, put in _puts(facts, hook))


def registered(facts: Facts) -> list[tuple[ast.Call, Hook]]:
    """The hooks that run before a network or a part of it, or after, and where they are registered."""
    calls = (c for name in (FORWARD, BEFORE) for c in facts.index.methods.get(name, []) if c.args and facts.runs(c))
    return [(call, hook) for call in calls for hook in dict.fromkeys(functions(facts, call.args[0]))]


def parameters(resolver: Resolver, hook: Hook) -> list[str]:
    """The parameters of a hook that its network gives it something for."""
    names = [p.arg for p in (*hook.args.posonlyargs, *hook.args.args)]
    if isinstance(hook, ast.Lambda) or not isinstance(resolver.index.parents.get(hook), ast.ClassDef):
        return names
    return names if is_static(hook) else names[1:]


def reads(facts: Facts, one: Kept) -> list[ast.Name | ast.Attribute]:
    """Where others read what a hook has put something into."""
    inside = {*walk(one.hook), *walk(one.put)}
    if isinstance(one.place, ast.Name):
        owner = facts.index.scope(one.place).owner(one.place.id)
        return [n for n in facts.loads(owner, one.place.id) if n not in inside] if owner is not None else []
    cls = facts.index.enclosing_class(one.place)
    found: list[ast.Name | ast.Attribute] = []
    for read in facts.index.attributes.get(one.place.attr, []):
        owners = {v.declaration for v in facts.resolver.values(read.value)} | {_class_of_self(facts, read.value)}
        if read not in inside and isinstance(read.ctx, ast.Load) and cls in owners:
            found.append(read)
    return found


def functions(facts: Facts, node: ast.expr | None, depth: int = 0) -> Iterator[Hook]:
    """The functions that an expression is, that a call of a function of the script returns, or that it only calls."""
    if depth > _DEPTH or node is None:
        return
    if isinstance(node, ast.Lambda):
        yield node
        callee = facts.resolver.callee(node.body) if isinstance(node.body, ast.Call) else None
        if isinstance(callee, FUNCTIONS):
            yield callee
        return
    callee = facts.resolver.callee(node) if isinstance(node, ast.Call) else None
    if isinstance(callee, FUNCTIONS):
        for statement in facts.resolver.returns(callee):
            yield from functions(facts, statement.value, depth + 1)
    elif isinstance(node, ast.Call) and facts.resolver.qualified(node.func) == "functools.partial" and node.args:
        yield from functions(facts, node.args[0], depth + 1)
    else:
        for value in facts.resolver.values(node):
            if isinstance(value.declaration, FUNCTIONS):
                yield value.declaration
        cls = _class_of_self(facts, node.value) if isinstance(node, ast.Attribute) else None
        method = facts.resolver.method(cls, node.attr) if isinstance(node, ast.Attribute) else None
        if method is not None:
            yield method


def _puts(facts: Facts, hook: Hook) -> Iterator[tuple[ast.Name | ast.Attribute, ast.AST]]:
    """Where a hook puts something of its arguments."""
    parameters = [*hook.args.posonlyargs, *hook.args.args, *([hook.args.vararg] if hook.args.vararg else [])]
    method = isinstance(hook, FUNCTIONS) and facts.resolver.is_method(hook)
    given = {p.arg for p in parameters[2 if method else 1 :]}
    if isinstance(hook, ast.Lambda):
        nodes = list(walk(hook.body))
    else:
        nodes = [n for statement in hook.body for n in walk(statement)]
    own = given | {p.arg for p in parameters[: 0 if method else 1]}
    for setting in (n for n in nodes if isinstance(n, _SETS)):
        if setting.value is not None and computes_with(setting.value, given):
            names = {t.id for t in _targets(setting) if isinstance(t, ast.Name) and not _is_outer(facts, hook, t)}
            given |= names
            own |= names
    for node in nodes:
        for place in _filled(facts, node, given):
            if isinstance(place, ast.Attribute) or (place.id not in own and _is_outer(facts, hook, place)):
                yield place, node


def _filled(facts: Facts, node: ast.AST, given: set[str]) -> Iterator[ast.Name | ast.Attribute]:
    """What a node sets, or puts something into, that depends on some variables."""
    held: list[ast.expr] = []
    into: list[ast.expr] = []
    if isinstance(node, _SETS) and node.value is not None:
        held, into = [node.value], [*_targets(node)]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PUTS:
        held, into = [*node.args, *(k.value for k in node.keywords)], [node.func.value]
    if any(computes_with(part, given) for part in held):
        yield from (place for target in into for place in [_place(facts, target)] if place is not None)


def _targets(statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> Iterator[ast.expr]:
    for target in targets(statement):
        yield from target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]


def _place(facts: Facts, node: ast.expr) -> ast.Name | ast.Attribute | None:
    """The variable, or the attribute of self, that an expression is in: `store[name]`, `self.rows[-1].last`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Attribute) and _class_of_self(facts, node.value) is not None:
            return node
        node = node.func if isinstance(node, ast.Call) else node.value
    return node if isinstance(node, ast.Name) else None


def _is_outer(facts: Facts, hook: Hook, place: ast.Name) -> bool:
    """Whether a variable in a hook is one of the code around it: `global last`."""
    owner = facts.index.scope(place).owner(place.id)
    return owner is not None and owner.node is not hook


def _class_of_self(facts: Facts, node: ast.expr) -> ast.ClassDef | None:
    """The class whose `self` an expression is, in a function inside its method, too."""
    function = facts.index.function(node) if isinstance(node, ast.Name) else None
    while function is not None:
        first = [*function.args.posonlyargs, *function.args.args][:1]
        cls = facts.index.parents.get(function)
        if isinstance(cls, ast.ClassDef):
            return cls if first and first[0].arg == node.id else None  # type: ignore[attr-defined]
        function = facts.index.function(function)
    return None
