"""What an expression takes of another one by places: entries, parts, rows that are picked."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.layout import entries, products, sequences
from accelift_codemod.facts.layout.algebra import (
    CURVING,
    FIXED,
    SOME,
    Environment,
    Frame,
    Layout,
    Listed,
    Record,
    Shape,
    element,
    item,
    tensor,
)
from accelift_codemod.facts.layout.arithmetic import ALTERED
from accelift_codemod.facts.tree import is_constant

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts


class Subscripts:
    """Reads subscripts on layouts."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts

    def read(self, node: ast.Subscript, env: Environment, frame: Frame) -> Shape:
        """The layout of `base[places]`."""
        base = self.layouts.read(node.value, env, frame)
        if base is Layout.STATES:
            return sequences.of_one_layer(node.slice)
        if isinstance(node.slice, ast.Tuple):
            base = tensor(base)
        if base in (Layout.MIXED, Layout.SHIFTED):
            return Layout.MIXED
        if base is Layout.UNSURE:
            return base
        if (
            base is Layout.SHAPE
            and (of := _shaped(node.value)) is not None
            and self.layouts.dimensions.later(of, node.slice)
        ):
            return Layout.CONST
        if base is Layout.SHAPE and isinstance(node.slice, ast.Slice) and (products.integer(node.slice.lower) or 0) > 0:
            return Layout.CONST  # `x.shape[1:]`
        whole = self.layouts.choosing.at_rank(node)
        if whole is not None and self.layouts.read(whole, env, frame) in (Layout.ROWS, Layout.PICKED):
            return Layout.MIXED
        last = products.integer(node.slice)
        if last is not None and last < 0 and (isinstance(base, tuple) or base is Layout.BATCH):
            return item(base, last)
        if isinstance(node.slice, ast.Constant) and node.slice.value is not None:
            place = node.slice.value
            if isinstance(base, Record) and (not isinstance(place, int) or {str(place), SOME} & {*base.names}):
                return base.entry(str(place))
            if isinstance(place, int):
                return item(base, place)
            return Layout.ROWS if base is Layout.BATCH else (base if base in FIXED else Layout.UNKNOWN)
        if isinstance(base, (Record, tuple)) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
            if self.layouts.read(node.slice, env, frame) in (Layout.MIXED, *CURVING):
                return Layout.MIXED  # which one it is, a statistic of the batch says
        if isinstance(base, Record):
            return entries.any_of(base)
        if isinstance(base, Listed) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
            return element(base)
        places = [*node.slice.elts] if isinstance(node.slice, ast.Tuple) and node.slice.elts else [node.slice]
        places[0] = _only(places[0])
        if not isinstance(places[0], (ast.Slice, ast.Constant)):
            chosen = self.layouts.choosing.subscript(base, places[0], self.layouts.read(places[0], env, frame))
            if chosen is not None:
                return chosen
        if base in (Layout.COLUMNS, Layout.TALL):
            return self._of_columns(places)
        if base in (Layout.ROWS, *ALTERED) and self._place(places[0], env, frame) is Layout.UNSURE:
            return Layout.UNSURE
        if base is Layout.PLACES and isinstance(node.slice, ast.Tuple) and is_whole(places[0]):
            return base  # `places[:, None]`
        if base is Layout.RATE:
            return Layout.MIXED
        if base in CURVING:  # a vector of them
            index = self._place(places[0], env, frame)
            return base if index in FIXED else Layout.MIXED
        if base in (Layout.ROWS, *ALTERED):
            if any(self._place(place, env, frame) is Layout.MIXED for place in places[1:]):
                return Layout.MIXED
            if is_constant(places[0], None) and all(map(is_whole, places[1:2])):
                return Layout.COLUMNS
            return base if is_whole(places[0]) else self._chosen(places, env, frame)
        if base is Layout.UNKNOWN and len(places) > 1 and all(map(_is_place, places)):
            return self._chosen(places, env, frame)
        if base in FIXED and isinstance(node.slice, ast.Tuple) and all(self._fixed(p, env, frame) for p in places):
            return base
        if base in FIXED:
            index = self._place(node.slice, env, frame)
            return Layout.ROWS if index is Layout.ROWS else base if index in FIXED else Layout.UNKNOWN
        return Layout.UNKNOWN

    def _of_columns(self, places: list[ast.expr]) -> Shape:
        """What is taken of what has the samples in dimension 1: all of them, of one of the things in dimension 0."""
        first, others = places[0], places[1:]
        if not all(map(is_whole, others[:1])):
            return Layout.UNKNOWN
        if isinstance(first, ast.Slice):
            return Layout.COLUMNS
        if is_constant(first, None):
            return Layout.UNSURE
        return Layout.ROWS if products.integer(first) is not None else Layout.UNKNOWN

    def _chosen(self, places: list[ast.expr], env: Environment, frame: Frame) -> Shape:
        """What is chosen by places: of how many places there are that are not known, nothing can be said."""
        unknown = _is_place(places[0]) and self.layouts.read(places[0], env, frame) is Layout.UNKNOWN
        return Layout.CHOSEN if unknown and not self.layouts.choosing.orders(places[0]) else Layout.UNKNOWN

    def _place(self, place: ast.expr, env: Environment, frame: Frame) -> Shape:
        """The layout of a part of a subscript; of a slice nothing is said."""
        return Layout.CONST if isinstance(place, ast.Slice) else self.layouts.read(place, env, frame)

    def _fixed(self, place: ast.expr, env: Environment, frame: Frame) -> bool:
        """Whether a part of a subscript does not depend on the batch."""
        parts = (place.lower, place.upper, place.step) if isinstance(place, ast.Slice) else (place,)
        return all(self.layouts.read(part, env, frame) in FIXED for part in parts)


def _shaped(shape: ast.expr) -> ast.expr | None:
    """The tensor whose shape an expression is: of `x.shape` and `x.size()`, `x`."""
    attribute = shape.func if isinstance(shape, ast.Call) else shape
    return attribute.value if isinstance(attribute, ast.Attribute) else None


def _only(place: ast.expr) -> ast.expr:
    """The one place that a part of a subscript takes: of `i : i + 1`, i."""
    upper = place.upper if isinstance(place, ast.Slice) and place.step is None else None
    if not isinstance(place, ast.Slice) or not isinstance(upper, ast.BinOp) or not isinstance(upper.op, ast.Add):
        return place
    one = isinstance(place.lower, ast.Name) and products.integer(upper.right) == 1
    return place.lower if one and place.lower is not None and ast.dump(upper.left) == ast.dump(place.lower) else place


def _is_place(place: ast.expr) -> bool:
    """Whether a part of a subscript is a variable, or a part of one: perhaps a tensor of places."""
    return isinstance(place, (ast.Name, ast.Subscript, ast.Attribute))


def is_whole(place: ast.expr) -> bool:
    """Whether a part of a subscript takes all of a dimension."""
    return isinstance(place, ast.Slice) and place.lower is place.upper is place.step is None
