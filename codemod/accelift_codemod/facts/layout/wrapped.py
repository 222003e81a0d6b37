"""Functions that others wrap or make: decorators of the script, and functions that return what stands inside them."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.resolve import Resolver

_MOST = 3  # calls of a decorator that return one another: `@scaled(2)`


def changes_results(resolver: Resolver, function: Function) -> bool:
    """Whether a decorator of the script may give something else than what the function returns."""
    return any(_changes(resolver, decorator) for decorator in function.decorator_list)


def _changes(resolver: Resolver, decorator: ast.expr) -> bool:
    func, calls = decorator, 1
    while isinstance(func, ast.Call):
        func, calls = func.func, calls + 1
    bindings = resolver.bindings(func) if isinstance(func, ast.Name) else []
    made = bindings[0].node if len(bindings) == 1 else None
    if isinstance(made, ast.ClassDef):  # an object of it is called instead; or, `@Scaled(2)`, wraps the function
        calls, made = calls - 1, resolver.method(made, "__call__") if calls > 1 else None
        if made is None:
            return True
    if not isinstance(made, FUNCTIONS):
        return False
    for _ in range(min(calls, _MOST)):
        own = int(isinstance(resolver.index.parents.get(made), ast.ClassDef))  # self
        given = [p.arg for p in (*made.args.posonlyargs, *made.args.args)][own : own + 1]
        inner = [s for s in made.body if isinstance(s, FUNCTIONS)]
        returned = {r.value.id for r in resolver.returns(made) if isinstance(r.value, ast.Name)}
        if returned and returned <= {*given}:
            return False  # the function itself
        wrapper = next((s for s in inner if s.name in returned), None)
        if wrapper is None:
            return True
        if all(_hands_on(resolver, r.value, given) for r in resolver.returns(wrapper)) and given:
            if resolver.returns(wrapper):
                return False
        made = wrapper
    return True


def _hands_on(resolver: Resolver, node: ast.expr | None, given: list[str]) -> bool:
    """Whether a function returns what the one that it wraps does: `return f(*args)`, `result = f(*args)` before."""
    queue, seen = [node], set[ast.expr | None]()
    while queue:
        made = queue.pop()
        if made in seen:
            continue
        seen.add(made)
        bindings = resolver.bindings(made) if isinstance(made, ast.Name) else []
        queue += [b.value for b in bindings]
        called = isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id in given
        if not bindings and not called:
            return False
    return True
