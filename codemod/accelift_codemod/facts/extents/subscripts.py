"""The extents of what subscripts take: rows, columns of tables, dimensions."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from accelift_codemod.facts.extents.sizes import NUMBER, ROW, TABLE, Extent, resized
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import is_constant
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts.extents.expressions import Extents, Path

_PLACES = frozenset({"iloc", "loc"})
_COLUMN = replace(ROW, table=True)
_COUNTS = frozenset({"len", "int"})


class Subscripts:
    """Answers that for one subscript."""

    def __init__(self, extents: Extents) -> None:
        self.extents = extents
        self.resolver = extents.resolver
        self.index = extents.resolver.index

    def of(self, node: ast.Subscript, path: Path) -> Extent | None:
        """The extent of what a subscript takes, or of what is at a place in that."""
        place = node.slice.value if isinstance(node.slice, ast.Constant) else integer(node.slice)
        if isinstance(place, (int, str)):
            part = self.extents.at(node.value, (place, *path))
            if part is not None:
                return part
        if path:
            return None
        if isinstance(node.slice, ast.List) and node.slice.elts and all(map(self._is_name, node.slice.elts)):
            return replace(TABLE, sizes=(None, len(node.slice.elts)))  # which only tables know
        indexer = node.value
        by_place = isinstance(indexer, ast.Attribute) and indexer.attr in _PLACES
        base = self.extents.of(indexer.value if by_place else node.value)  # type: ignore[attr-defined]
        if base is None:
            return None
        if base.table and not by_place:
            return self._of_table(base, node.slice)
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return self._taken(base, places)

    def _of_table(self, table: Extent, place: ast.expr) -> Extent | None:
        """A column of a table by its name, several of them, or some of its rows."""
        if isinstance(place, (ast.Slice, ast.Compare)):
            return resized(table)
        if len(table.sizes) != 2:
            return None
        if self._is_name(place):
            return _COLUMN
        return None

    def _taken(self, base: Extent, places: list[ast.expr]) -> Extent | None:
        """What an array or tensor has there, dimension by dimension."""
        if any(isinstance(p, ast.Constant) and p.value is ... for p in places):
            return self._from_the_end(base, places)
        if base.deeper:
            return base if len(places) == 1 and isinstance(places[0], ast.Slice) else None
        left = list(base.sizes)
        sizes: list[int | None] = []
        vectors = 0
        for place in places:
            if is_constant(place, None):
                sizes.append(1)
                continue
            if not left:
                return None
            size = left.pop(0)
            if isinstance(place, ast.Slice):
                sizes.append(self._cut(place, size))
            elif base.table and self._is_name(place):
                continue
            elif (taken := self._chosen(place)) is not None and not taken.deeper and len(taken.sizes) < 2:
                sizes += taken.sizes
                vectors += len(taken.sizes)
            else:
                return None
        return Extent((*sizes, *left), table=base.table) if vectors < 2 else None

    def _from_the_end(self, base: Extent, places: list[ast.expr]) -> Extent | None:
        """`x[..., 0]` and `x[..., None]`."""
        if len(places) != 2 or not (isinstance(places[0], ast.Constant) and places[0].value is ...):
            return None
        last = places[1]
        if is_constant(last, None):
            return replace(base, sizes=(*base.sizes, 1))
        return replace(base, sizes=base.sizes[:-1]) if integer(last) is not None and base.sizes else None

    def _cut(self, place: ast.Slice, size: int | None) -> int | None:
        """The size of a slice: all of a dimension, `[:, 0:1]`, `[:, -1:]`."""
        if place.lower is place.upper is place.step is None:
            return size
        lower = 0 if place.lower is None else integer(place.lower)
        if place.upper is None:
            return 1 if lower == -1 and place.step is None else None
        upper = integer(place.upper)
        known = lower is not None and upper is not None and place.step is None and lower >= 0
        return 1 if known and upper - lower == 1 else None  # type: ignore[operator]

    def _is_name(self, node: ast.expr) -> bool:
        """Whether a subscript is surely the name of one column."""
        values = self.resolver.values(node)
        return bool(values) and all(v.role is Role.CONSTANT and isinstance(v.keys[0], str) for v in values)

    def _chosen(self, place: ast.expr) -> Extent | None:
        """The extent of an index: a number takes the dimension away."""
        return NUMBER if self._is_number(place) else self.extents.of(place)

    def _is_number(self, node: ast.expr, steps: int = 0) -> bool:
        """Whether an index is surely one whole number."""
        if steps > 8:
            return False
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int)
        if isinstance(node, ast.UnaryOp):
            return self._is_number(node.operand, steps + 1)
        if isinstance(node, ast.BinOp):
            return self._is_number(node.left, steps + 1) and self._is_number(node.right, steps + 1)
        if isinstance(node, ast.Call):
            return self.resolver.builtin(node.func) in _COUNTS
        if isinstance(node, ast.Attribute):
            bindings = self.extents.own(node)
        else:
            bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        return bool(bindings) and all(self._binds_number(b, steps + 1) for b in bindings)

    def _binds_number(self, binding: Binding, steps: int) -> bool:
        value = binding.value
        if binding.how is How.LOOP:
            called = self.resolver.builtin(value.func) if isinstance(value, ast.Call) else None
            return (called == "range" and not binding.path) or (called == "enumerate" and binding.path == (0,))
        if binding.how is How.PARAMETER:
            function = self.index.parents[self.index.parents[binding.node]]
            if not isinstance(function, FUNCTIONS):
                return False
            given = self.resolver.handed(binding)
            return self.extents.takes_places(function) or (
                bool(given) and all(g is not None and self._is_number(g, steps) for g in given)
            )
        plain = binding.how is How.ASSIGN and not binding.path and value is not None
        return plain and self._is_number(value, steps)  # type: ignore[arg-type]
