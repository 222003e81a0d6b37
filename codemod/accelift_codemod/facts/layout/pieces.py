"""Rows of one tensor that are taken from different places: samples that meet their neighbours, or the other half."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import How
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk

_CUTS = frozenset({"chunk", "split", "tensor_split"})


class Pieces:
    """Tells them apart from other pairs of tensors."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def wholes(self, left: ast.expr, right: ast.expr) -> tuple[ast.expr, ...]:
        """The tensors whose rows two expressions take from different places: of `x[1:]` and `x[:-1]`, of `out[1:]` and
        `y[:-1]`, and of the `a` and `b` of `a, b = x.chunk(2)`; none if they may be the same places."""
        first, second = self._piece(left), self._piece(right)
        if first is None or second is None:
            return ()
        (one, place), (other, elsewhere) = first, second
        if ast.dump(one) != ast.dump(other):
            return (one, other) if _apart(place, elsewhere) else ()
        return (one,) if _written(place) != _written(elsewhere) else ()

    def _piece(self, node: ast.expr) -> tuple[ast.expr, ast.Slice | int] | None:
        """The tensor whose rows an expression, or the only value of a variable, takes, and which of them."""
        place = integer(node.slice) if isinstance(node, ast.Subscript) else None
        node = node.value if isinstance(node, ast.Subscript) and place is not None else node
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        if len(bindings) == 1 and bindings[0].how is How.ASSIGN and bindings[0].value is not None:
            node = bindings[0].value
            for place in bindings[0].path:
                if isinstance(node, (ast.Tuple, ast.List)) and place is not None and place < len(node.elts):
                    node, place = node.elts[place], None
        if isinstance(node, ast.Call):
            cut = self._cut(node)
            return (cut, place) if cut is not None and place is not None else None
        if not isinstance(node, ast.Subscript):
            return None
        rows = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        return (node.value, rows) if isinstance(rows, ast.Slice) and not rows.step else None

    def _cut(self, call: ast.Call) -> ast.expr | None:
        """The tensor that a call cuts into pieces of its rows."""
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr not in _CUTS:
            return None
        function = self.resolver.qualified(func) == f"torch.{func.attr}"
        along = self.resolver.argument(call, 1 + function, "dim")
        if along is not None and integer(along) != 0:
            return None
        return self.resolver.argument(call, 0, "input") if function else func.value


def added_to(body: list[ast.stmt]) -> Iterator[str]:
    """The variables that statements add to: `loss += part`, `loss = loss + part`."""
    for statement in (inner for outer in body for inner in walk(outer)):
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
            read = {n.id for n in walk(statement.value) if isinstance(n, ast.Name)}
            yield from (t.id for t in statement.targets if isinstance(t, ast.Name) and t.id in read)


def put_into(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """The lists that statements append something to, and what."""
    for statement in (inner for outer in body for inner in walk(outer)):
        call = statement.value if isinstance(statement, ast.Expr) else None
        func = call.func if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and isinstance(func, ast.Attribute) and func.attr == "append" and call.args:
            if isinstance(func.value, ast.Name):
                yield func.value.id, call.args[0]


def _written(place: ast.Slice | int) -> str:
    return ast.dump(place) if isinstance(place, ast.Slice) else str(place)


def _apart(place: ast.Slice | int, elsewhere: ast.Slice | int) -> bool:
    """Whether places in two tensors are surely different ones: `[1:]` and `[:-1]`, `[n:]` and `[:-n]`."""
    if not isinstance(place, ast.Slice) or not isinstance(elsewhere, ast.Slice):
        return False
    begins = [0 if rows.lower is None else integer(rows.lower) for rows in (place, elsewhere)]
    if None not in begins:
        return begins[0] != begins[1]
    return any(
        later.lower is not None
        and earlier.lower is None
        and isinstance(earlier.upper, ast.UnaryOp)
        and ast.dump(earlier.upper.operand) == ast.dump(later.lower)
        for later, earlier in ((place, elsewhere), (elsewhere, place))
    )
