"""Modules that run a network which every call gives them: `crit(model, x, y)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import Function, Index
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.uses import is_called
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts.resolve import Resolver

_MODULES = frozenset({Role.MODEL, Role.LOSS})


def run_by(resolver: Resolver, call: ast.Call) -> Function | None:
    """The `forward` that a call of a module runs, if that runs a network which the call gives it."""
    forward = _forward(resolver, call)
    given = handed(resolver, call) if forward is not None else []
    return forward if any(resolver.only(node, Role.MODEL) for node in given) else None


def handed(resolver: Resolver, call: ast.Call) -> list[ast.expr]:
    """What a call gives a module of the script that calls it in its `forward`."""
    forward = _forward(resolver, call)
    called = _called(resolver.index, forward) if forward is not None else frozenset()
    given = resolver.bind(call, forward) if forward is not None and called else None
    return [node for name, node in given.items() if name in called] if given else []


def _forward(resolver: Resolver, call: ast.Call) -> Function | None:
    if not isinstance(call.func, (ast.Name, ast.Call)):
        return None
    values = (v for v in resolver.values(call.func) if not v.is_none)
    found = {resolver.method(v.declaration, "forward") if v.role in _MODULES else None for v in values}
    return found.pop() if len(found) == 1 else None


@kept
def _called(index: Index, function: Function) -> frozenset[str]:
    """The parameters that a method calls, but for its object."""
    names = (p.arg for p in (*function.args.posonlyargs, *function.args.args[1:], *function.args.kwonlyargs))
    loads = index.scopes[function].loads
    return frozenset(name for name in names if any(is_called(index, node) for node in loads.get(name, [])))
