"""Along which dimensions functions work, where variables tell them: `dims = (0, *range(2, x.dim()))`."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import How
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.resolve import Resolver

_NAMES = frozenset({"dim", "dims", "axis"})
_LISTS = frozenset({"tuple", "list", "sorted"})
_MOST_STEPS = 8


def spelled_out(resolver: Resolver, call: ast.Call, tensors: int) -> ast.Call:
    """A call with the dimensions written out that it is told after so many tensors, as far as they can be told."""
    given = [*call.args[tensors:], *(k.value for k in call.keywords if k.arg in _NAMES)]
    told = {node: _dimensions(resolver, node) for node in given}
    if all(found is node for node, found in told.items()):
        return call
    keywords = [ast.keyword(k.arg, told.get(k.value, k.value)) for k in call.keywords]
    return ast.Call(call.func, [told.get(a, a) for a in call.args], keywords)


def _dimensions(resolver: Resolver, node: ast.expr, steps: int = _MOST_STEPS) -> ast.expr:
    """The numbers that an expression is, or a list of those that it surely has; else the expression."""
    if isinstance(node, ast.Name) and steps:
        bindings, owner = resolver.bindings(node), resolver.index.scope(node).owner(node.id)
        plain = len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path
        plain = plain and owner is not None and not resolver.changed(owner, node.id)
        value = bindings[0].value if plain else None
        found = _dimensions(resolver, value, steps - 1) if value is not None else node
        return found if integer(found) is not None or isinstance(found, (ast.Tuple, ast.List)) else node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _listed([_dimensions(resolver, side, steps) for side in (node.left, node.right)], node)
    if isinstance(node, (ast.Tuple, ast.List)):
        starred = [e.value if isinstance(e, ast.Starred) else ast.Tuple([e]) for e in node.elts]
        return _listed([_dimensions(resolver, e, steps) for e in starred], node) if steps and _starred(node) else node
    builtin = resolver.builtin(node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or builtin is None or not node.args:
        return node
    if builtin in _LISTS:
        found = _dimensions(resolver, node.args[0], steps)
        return found if isinstance(found, (ast.Tuple, ast.List)) else node
    begin = integer(node.args[0]) if len(node.args) > 1 else 0
    upwards = len(node.args) < 3
    counts = builtin == "range" and upwards and begin is not None and begin >= 0  # those that follow are greater
    return ast.Tuple([ast.Constant(begin)]) if counts else node


def _starred(node: ast.Tuple | ast.List) -> bool:
    return any(isinstance(e, ast.Starred) for e in node.elts)


def _listed(parts: list[ast.expr], node: ast.expr) -> ast.expr:
    """One list of the numbers in some, and of what is not known."""
    if not any(isinstance(part, (ast.Tuple, ast.List)) for part in parts):
        return node
    return ast.Tuple([e for part in parts for e in getattr(part, "elts", [part])])
