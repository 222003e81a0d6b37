"""What becomes of samples where tensors get another form: views of them, transposed ones, and pieces."""

from __future__ import annotations

import ast

from accelift_codemod.facts.layout.algebra import FIXED, Layout, Shape
from accelift_codemod.facts.layout.pairs import groups
from accelift_codemod.facts.layout.products import integer, swaps
from accelift_codemod.facts.signatures import argument


def reshaped(name: str, call: ast.Call, others: list[Shape], offset: int, rank: int | None) -> Shape:
    """What an operation makes of samples in dimension 0 that gives them another form, or cuts them into pieces."""
    given = call.args[offset:]
    if name in ("view", "reshape"):
        first = given[0] if given else None
        if isinstance(first, (ast.Tuple, ast.List)):
            layouts = others[0] if others and isinstance(others[0], tuple) else ()
            first, shape = (first.elts[0] if first.elts else None), (layouts[0] if layouts else Layout.UNKNOWN)
        else:
            shape = others[0] if others else Layout.UNKNOWN
        if integer(first) == 1 and _runs_on(given, others):
            return Layout.COLUMNS  # `z.view(1, n, d)`, to be compared with `z.view(n, 1, d)`
        if shape is not Layout.COUNT and (groups(call, offset, rank) or halves(name, given, others)):
            return Layout.UNSURE
        sized = shape in (Layout.COUNT, Layout.SHAPE, Layout.SUM)  # a number of rows that is a sum: of those picked
        return Layout.ROWS if integer(first) == -1 or sized else Layout.UNKNOWN
    told = given[0] if given else argument(call, None, "dim")
    place = integer(told)
    if name == "flatten":
        return Layout.ROWS  # flattening from dimension 0 keeps the samples in order, too
    if name == "squeeze":
        return Layout.ROWS if told is None or (place is not None and place != 0) else Layout.UNKNOWN
    if name == "unsqueeze":
        if place is None or (rank is None and place < -2):
            return Layout.UNKNOWN
        return Layout.COLUMNS if place == 0 or (rank is not None and place == -rank - 1) else Layout.ROWS
    if name == "t" or swaps(name, given):
        return Layout.COLUMNS
    if name in ("unbind", "split", "chunk", "tensor_split"):
        if name != "unbind" and cuts(name, call, offset):
            return Layout.PIECES if all(size in FIXED for size in others) else Layout.UNKNOWN
        place = integer(argument(call, offset + (name != "unbind"), "dim"))
        return Layout.UNKNOWN if place is None or place == 0 else Layout.BATCH
    if name in ("transpose", "swapaxes"):
        places = [integer(a) for a in given[:2]]
        return Layout.ROWS if len(places) == 2 and None not in places and 0 not in places else Layout.UNKNOWN
    if name == "permute":
        return Layout.ROWS if place == 0 else Layout.UNKNOWN
    if name in ("gather", "scatter", "scatter_", "index_select", "narrow", "select"):
        return Layout.ROWS if place is not None and place != 0 else Layout.UNKNOWN
    if name == "expand":
        sized = (others and others[0] in (Layout.COUNT, Layout.SHAPE)) or place == -1
        return Layout.ROWS if sized else Layout.UNKNOWN
    return Layout.UNKNOWN


def cuts(name: str, call: ast.Call, offset: int) -> bool:
    """Whether a function cuts a tensor in pieces one after the other: samples that it has several times, once each."""
    if name not in ("chunk", "split", "tensor_split"):
        return False
    dimension = argument(call, offset + 1, "dim")
    return dimension is None or integer(dimension) == 0


def halves(name: str, sizes: list[ast.expr], layouts: list[Shape]) -> bool:
    """Whether samples are put beside each other that are halves, or thirds, of the batch apart: `x.view(2, -1, d)`."""
    given = sizes[0].elts if sizes and isinstance(sizes[0], (ast.Tuple, ast.List)) else sizes
    many = integer(given[0]) if name in ("view", "reshape") and len(given) > 2 else None
    return many is not None and many > 1 and _runs_on(sizes, layouts)


def _runs_on(sizes: list[ast.expr], layouts: list[Shape]) -> bool:
    """Whether the second size that a tensor is given is that of the batch, or what is left."""
    of = layouts[0] if layouts and isinstance(layouts[0], tuple) else layouts
    given = sizes[0].elts if sizes and isinstance(sizes[0], (ast.Tuple, ast.List)) else sizes
    return len(given) > 1 and (integer(given[1]) == -1 or (len(of) > 1 and of[1] is Layout.COUNT))


def is_wide(call: ast.Call) -> bool:
    """Whether what is expanded was given a new dimension 1 for that: `x.unsqueeze(1).expand(n, m, d)`."""
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    made = isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and of.func.attr == "unsqueeze"
    return made and bool(of.args) and integer(of.args[-1]) == 1  # type: ignore[union-attr]
