"""Objects of the script that keep what a loop measures, and decide by it in methods of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.tree import walk
from accelift_codemod.following.held_outside import reads_elsewhere
from accelift_codemod.following.onward import Read
from accelift_codemod.measured.steering import tested_in


def decided(draft: Draft, loop: ast.AST, name: str, local: set[str]) -> Read | None:
    """Where a method of the object in a variable decides by what a loop hands to one of its methods."""
    owner = draft.facts.index.scope(loop).owner(name)
    loads = [*draft.facts.loads(owner, name)] if owner is not None else []
    inside = [call for load in loads if load in draft.inside(loop) for call in _called(draft, load)]
    if not inside or any(draft.facts.loops.reaches_backward(method.body) for _, method in inside):
        return None  # one that trains is no keeper of numbers
    given = [a for call, _ in inside for a in (*call.args, *(k.value for k in call.keywords))]
    starts: list[Read] = [n for a in given for n in walk(a) if isinstance(n, ast.Name) and n.id in local - {name}]
    others = reads_elsewhere(draft, loop, name)
    methods = dict.fromkeys(method for load in (*loads, *others) for _, method in _called(draft, load))
    methods |= dict.fromkeys(_leaving(draft, loop, loads))
    return tested_in(draft, starts, _with_own(draft, methods)) if starts else None


def _called(draft: Draft, load: ast.expr) -> Iterator[tuple[ast.Call, Function]]:
    """The call of a method of the script on what a variable holds."""
    func = draft.facts.index.parents.get(load)
    call = draft.facts.index.parents.get(func) if isinstance(func, ast.Attribute) and func.value is load else None
    if isinstance(call, ast.Call) and call.func is func:
        method = draft.facts.resolver.callee(call)
        if isinstance(method, FUNCTIONS):
            yield call, method


def _leaving(draft: Draft, loop: ast.AST, loads: list[ast.Name]) -> Iterator[Function]:
    """The methods that a `with` around a loop runs behind it, of the object that a variable holds."""
    around = [n for n in draft.facts.index.ancestors(loop) if isinstance(n, (ast.With, ast.AsyncWith))]
    bound = {n for block in around for item in block.items if item.optional_vars for n in walk(item.optional_vars)}
    for load in loads if bound else ():
        if any(b.node in bound for b in draft.facts.resolver.bindings(load)):
            methods = (
                draft.facts.resolver.method(v.declaration, "__exit__") for v in draft.facts.resolver.values(load)
            )
            yield from filter(None, methods)


def _with_own(draft: Draft, methods: dict[Function, None]) -> set[Function]:
    """Methods, with those that they call of the same object."""
    queue = list(methods)
    for method in queue:
        for call in (n for n in walk(method) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)):
            callee = draft.facts.resolver.callee(call)
            if isinstance(callee, FUNCTIONS) and callee not in queue and draft.facts.resolver.is_method(callee):
                queue.append(callee)
    return set(queue)
