"""What forward hooks of networks put into objects of the script: each process runs them on its own share."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured.counting_networks import is_of_training, said
from accelift_codemod.measured.filling import FILLING, filled
from accelift_codemod.measured.numbers import number_of
from accelift_codemod.measured.onward import Read
from accelift_codemod.plan import Finding

_REGISTER = "register_forward_hook"


def hooked(draft: Draft) -> Iterator[Finding]:
    """What is told of what hooks on trained networks keep, and what decides by it."""
    for call in draft.calls:
        func = call.func
        if not (isinstance(func, ast.Attribute) and func.attr == _REGISTER and call.args):
            continue
        if draft.facts.objects.is_part(func.value) or draft.facts.objects.trained_models(func.value):
            for hook in _hooks(draft, call.args[0]):
                for name, statement in _filled(draft, hook):
                    numbers = any(isinstance(n, ast.Call) and number_of(draft, n) is not None for n in walk(statement))
                    reads = _reads(draft, hook, name, statement)
                    yield from said(draft, call, name.id, reads, tests=numbers)


def _hooks(draft: Draft, node: ast.expr) -> Iterator[Function | ast.Lambda]:
    """The functions that an expression is, or that a call of a function of the script returns."""
    if isinstance(node, ast.Lambda):
        yield node
        return
    callee = draft.facts.resolver.callee(node) if isinstance(node, ast.Call) else None
    given = [s.value for s in draft.facts.resolver.returns(callee)] if isinstance(callee, FUNCTIONS) else [node]
    for value in (v for one in given if one is not None for v in draft.facts.resolver.values(one)):
        if isinstance(value.declaration, FUNCTIONS):
            yield value.declaration


def _filled(draft: Draft, hook: Function | ast.Lambda) -> Iterator[tuple[ast.Name, ast.AST]]:
    """The variables from outside whose objects a hook puts something of its arguments into."""
    given = {p.arg for p in (*hook.args.posonlyargs, *hook.args.args)[1:]}
    if isinstance(hook, ast.Lambda):
        statements: list[ast.stmt] = [ast.copy_location(ast.Expr(value=hook.body), hook.body)]
    else:
        statements = [s for outer in hook.body for s in walk(outer) if isinstance(s, FILLING)]
        given |= {t.id for s in statements if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)}
    for statement in statements:
        for name in filled(draft, statement, given) - given:
            load = next((n for n in walk(statement) if isinstance(n, ast.Name) and n.id == name), None)
            if load is not None:
                yield load, statement


def _reads(draft: Draft, hook: Function | ast.Lambda, name: ast.Name, statement: ast.AST) -> list[Read]:
    """Where others read such a variable."""
    owner = draft.facts.index.scope(name).owner(name.id)
    inside = {*walk(hook), *walk(statement)}
    loads = draft.facts.loads(owner, name.id) if owner is not None else []
    return [load for load in loads if load not in inside and is_of_training(draft, load)]
