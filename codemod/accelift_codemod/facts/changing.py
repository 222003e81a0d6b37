"""Calls and statements that change something which the script goes on with: every process has to run them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.chance import drawn_from
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import children, own_nodes

# Methods that take something out of an object, put something in, or go on with it.
_METHODS = frozenset(
    "pop popleft popitem append appendleft extend insert setdefault step zero_grad backward reset "
    "load_state_dict".split()
)


def changes(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call changes what it is called on, or what it is given, or draws random numbers for all: `queue.pop()`,
    `clip_grad_norm_(...)`, `next(numbers)`, a function of the script that sets a global or an attribute."""
    if resolver.builtin(call.func) == "next" or drawn_from(resolver, call):
        return True
    function = resolver.callee(call)
    if isinstance(function, FUNCTIONS):
        sets = any(
            isinstance(node, (ast.Global, ast.Nonlocal)) or _fills_global(resolver, node)
            for node in own_nodes(*function.body)
        )
        return sets or bool(resolver.kept(function))
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    in_place = name.endswith("_") and not name.startswith("_")
    return function is None and (in_place or (resolver.qualified(call.func) is None and name in _METHODS))


def _fills_global(resolver: Resolver, node: ast.AST) -> bool:
    """Whether a node puts something into a global, or takes it out: `seen.append(x)`, `seen[k] = x`."""
    if isinstance(node, ast.Call):
        func = node.func
        fills = isinstance(func, ast.Attribute) and func.attr in _METHODS and resolver.qualified(func) is None
        place = func.value if fills and isinstance(func, ast.Attribute) else None
    else:
        place = node.value if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) else None
    return isinstance(place, ast.Name) and resolver.index.scope(place).owner(place.id) is resolver.index.module


def inside(resolver: Resolver, expression: ast.expr) -> Iterator[ast.Call | ast.NamedExpr]:
    """The outermost of the calls in the parts of an expression that change something, and what it binds on the way."""
    stack: list[ast.AST] = children(expression)[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.NamedExpr) or (isinstance(node, ast.Call) and changes(resolver, node)):
            yield node
        elif not isinstance(node, ast.Lambda):
            stack += reversed(children(node))
