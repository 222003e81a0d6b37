"""What operators, and functions of each number by itself, make of the layouts of values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from accelift_codemod.facts.layout.algebra import CURVING, FIXED, SCALARS, Layout, Listed, Shape, tensor, written_out

# Operators by the names of torch functions.
ARITHMETIC: dict[str, ast.operator] = {
    "add": ast.Add(),
    "sub": ast.Sub(),
    "mul": ast.Mult(),
    "div": ast.Div(),
}
_MEANS = (Layout.MEAN, Layout.WEIGHTED)
_SUMS = (Layout.SUM, Layout.PART_SUM)
# What brings every sample together with every other, as matrices or by broadcasting: similarities, covariances.
COMPARING: tuple[set[Shape], ...] = (
    {Layout.ROWS, Layout.COLUMNS},
    {Layout.STACKED, Layout.COLUMNS},
    {Layout.TURNED, Layout.COLUMNS},
    {Layout.PICKED, Layout.COLUMNS},
    {Layout.ROWS, Layout.TURNED},
    {Layout.WIDE, Layout.COLUMNS},
    {Layout.ROWS, Layout.TALL},
    {Layout.WIDE, Layout.TALL},
)
# Tensors that have, in dimension 0, something other than the samples one by one; and what becomes of them where that
# of the samples themselves is something else. How many are picked is itself a sum over the samples.
_INSTEAD: dict[Shape, dict[Shape, Shape]] = {
    Layout.TURNED: {Layout.ROWS: Layout.TURNED},
    # A sum of what has each sample as often as there are samples is none over these.
    Layout.WIDE: {
        Layout.ROWS: Layout.WIDE,
        Layout.COLUMNS: Layout.TALL,
        Layout.SUM: Layout.UNSURE,
        Layout.SHAPE: (Layout.COUNT, Layout.UNKNOWN, Layout.UNKNOWN, Layout.UNKNOWN),
    },
    Layout.TALL: {
        Layout.COLUMNS: Layout.TALL,
        Layout.ROWS: Layout.WIDE,
        Layout.SUM: Layout.UNSURE,
    },
    Layout.STACKED: {
        Layout.ROWS: Layout.STACKED,
        Layout.COUNT: Layout.UNKNOWN,
        Layout.SHAPE: Layout.UNKNOWN,
    },
    Layout.PIECE: {
        Layout.ROWS: Layout.PIECE,
        Layout.COUNT: Layout.UNKNOWN,
        Layout.SHAPE: Layout.UNKNOWN,
        Layout.BATCH: Layout.UNKNOWN,
        Layout.PIECES: Layout.UNKNOWN,
    },
    Layout.PICKED: {
        Layout.ROWS: Layout.PICKED,
        Layout.MEAN: Layout.WEIGHTED,
        Layout.COUNT: Layout.SUM,
        Layout.SHAPE: (Layout.SUM, Layout.CONST, Layout.CONST, Layout.CONST),
        Layout.BATCH: Layout.UNKNOWN,
    },
    # How many there are is not known, and so neither is what their mean is.
    Layout.CHOSEN: {
        Layout.ROWS: Layout.CHOSEN,
        Layout.MEAN: Layout.UNKNOWN,
        Layout.WEIGHTED: Layout.UNKNOWN,
        Layout.SUM: Layout.UNKNOWN,
        Layout.COUNT: Layout.UNKNOWN,
        Layout.SHAPE: Layout.UNKNOWN,
        Layout.SHIFTED: Layout.UNKNOWN,
        Layout.COLUMNS: Layout.UNKNOWN,
        Layout.BATCH: Layout.UNKNOWN,
    },
}
ALTERED = tuple(_INSTEAD)
_PLAIN: dict[Shape, Shape] = {Layout.TALL: Layout.COLUMNS}  # what such a tensor is otherwise: if none is told, ROWS


def combine(operator: ast.operator, left: Shape, right: Shape) -> Shape:
    """The layout of `left operator right`."""
    if Layout.STATES in (left, right) and {left, right} <= {Layout.STATES, *FIXED}:
        return Layout.UNKNOWN if isinstance(operator, ast.MatMult) else Layout.STATES
    left, right = tensor(left), tensor(right)
    if isinstance(left, tuple) or isinstance(right, tuple):
        return _lists(operator, left, right)
    if Layout.MIXED in (left, right):
        return Layout.MIXED
    if Layout.UNSURE in (left, right):
        return Layout.UNSURE
    if Layout.RATE in (left, right):
        return _rated(operator, left, right)
    if isinstance(operator, ast.Div) and right in _SUMS and left in FIXED:
        return Layout.RATE
    if isinstance(operator, ast.Div) and Layout.PART_SUM in (left, right) and right not in FIXED:
        return Layout.QUOTIENT if {left, right} <= {Layout.COUNT, *_SUMS} else _compared({left, right})
    if Layout.PART_SUM in (left, right):
        kept = {left, right} <= {Layout.PART_SUM, *SCALARS, *FIXED}
        return Layout.PART_SUM if kept else _compared({left, right})
    if left in FIXED and right in FIXED:
        return Layout.ZERO if left is right is Layout.ZERO else Layout.CONST
    curved = left in CURVING and isinstance(operator, (ast.Pow, ast.Mod))
    if {left, right} in COMPARING or curved or (right in CURVING and isinstance(operator, ast.Pow)):
        return Layout.MIXED
    if Layout.SHIFTED in (left, right) and not isinstance(operator, (ast.Add, ast.Sub)):
        scaled = isinstance(operator, (ast.Mult, ast.Div)) and right in FIXED
        return Layout.SHIFTED if scaled or (isinstance(operator, ast.Mult) and left in FIXED) else Layout.MIXED
    if left in ALTERED or right in ALTERED:
        return altered((left, right), lambda pair: combine(operator, *pair))
    if Layout.PLACES in (left, right):
        return Layout.PLACES if {left, right} <= {Layout.PLACES, Layout.COUNT, *FIXED} else Layout.UNKNOWN
    if isinstance(operator, (ast.Add, ast.Sub)):
        return _add(left, right)
    if isinstance(operator, ast.Mult):
        return _multiply(left, right)
    if isinstance(operator, (ast.Div, ast.FloorDiv)):
        whole = isinstance(operator, ast.FloorDiv) and left in FIXED and right is Layout.COUNT
        return Layout.UNKNOWN if whole else _divide(left, right)
    if isinstance(operator, ast.MatMult) and left is Layout.ROWS and right in CURVING:
        return Layout.MIXED
    if isinstance(operator, ast.MatMult) and Layout.COLUMNS in (left, right):
        return Layout.COLUMNS if {left, right} <= {Layout.COLUMNS, *FIXED} and left is not right else Layout.UNSURE
    if Layout.ROWS in (left, right) and {left, right} <= {Layout.ROWS, *FIXED}:
        if isinstance(operator, ast.MatMult) and left is not Layout.ROWS:
            return Layout.UNKNOWN
        return Layout.UNKNOWN if isinstance(operator, ast.MatMult) and right is Layout.ROWS else Layout.ROWS
    return Layout.UNKNOWN


def _lists(operator: ast.operator, left: Shape, right: Shape) -> Shape:
    """What becomes of lists: one after the other, if no sample is in them."""
    plain = written_out(left) in FIXED and written_out(right) in FIXED
    if isinstance(operator, ast.Add) and isinstance(left, Listed) and isinstance(right, Listed) and not plain:
        return Listed((*left, *right))
    return Layout.CONST if plain and isinstance(operator, ast.Add) else Layout.UNKNOWN


def elementwise(parts: Iterable[Shape]) -> Shape:
    """The layout of an elementwise function of several values."""
    found = list(map(tensor, parts))
    met = Layout.ROWS in found and any(part in (*CURVING, Layout.SHIFTED) for part in found)
    if (
        Layout.MIXED in found
        or Layout.RATE in found
        or Layout.SHIFTED in found
        or met
        or any(pair <= set(found) for pair in COMPARING)
    ):
        return Layout.MIXED
    if Layout.UNSURE in found:
        return Layout.UNSURE
    if any(part in ALTERED for part in found):
        return altered(found, elementwise)
    if all(p in FIXED for p in found):
        return Layout.CONST
    if any(p is Layout.ROWS for p in found) and all(p is Layout.ROWS or p in FIXED for p in found):
        return Layout.ROWS
    return Layout.UNKNOWN


def altered(parts: Sequence[Shape], done: Callable[[list[Shape]], Shape]) -> Shape:
    """The layout of what is done with tensors that have something other than the samples one by one in dimension 0."""
    kinds = {part for part in parts if part in ALTERED}
    if len(kinds) > 1 and Layout.CHOSEN in kinds:  # as many as of the others
        kinds.remove(Layout.CHOSEN)
        parts = [next(iter(kinds)) if part is Layout.CHOSEN else part for part in parts]
    if {Layout.ROWS, Layout.TURNED} <= set(parts):
        return Layout.MIXED
    if Layout.ROWS in parts or len(kinds) > 1:
        return Layout.UNSURE if kinds & {Layout.WIDE, Layout.TALL} else Layout.UNKNOWN
    found = done([_PLAIN.get(part, Layout.ROWS) if part in kinds else part for part in parts])
    return _like(kinds.pop(), found)


def _like(kind: Shape, found: Shape) -> Shape:
    if isinstance(found, tuple):
        return tuple(_like(kind, part) for part in found)
    return _INSTEAD[kind].get(found, found)


def _add(left: Layout, right: Layout) -> Layout:
    pair = {left, right}
    if pair <= {Layout.ROWS, *FIXED}:
        return Layout.ROWS
    if pair <= {Layout.COLUMNS, *FIXED}:
        return Layout.COLUMNS
    if pair == {Layout.COUNT, Layout.SUM}:
        return Layout.SUM  # how many are none of those that are counted
    if Layout.SHIFTED in pair or pair == {Layout.ROWS, Layout.MEAN}:
        return Layout.SHIFTED if pair <= {Layout.SHIFTED, Layout.ROWS, Layout.MEAN, *FIXED} else Layout.MIXED
    if pair <= {Layout.MEAN, Layout.WEIGHTED, *FIXED}:
        return Layout.WEIGHTED if Layout.WEIGHTED in pair else Layout.MEAN
    if Layout.SHRUNK in pair and pair <= {Layout.SHRUNK, *_MEANS, *FIXED}:
        return Layout.SHRUNK
    if Layout.PIECED in pair and pair <= {Layout.PIECED, Layout.QUOTIENT, *_MEANS, *FIXED}:
        return Layout.PIECED
    if pair <= {Layout.QUOTIENT, *_MEANS, *FIXED}:
        return Layout.QUOTIENT
    if pair <= {Layout.SUM, Layout.ZERO}:
        return Layout.SUM
    if Layout.SUM in pair and pair <= {*SCALARS, *FIXED}:
        return Layout.PART_SUM
    return _compared(pair)


def _multiply(left: Layout, right: Layout) -> Layout:
    pair = {left, right}
    if pair <= {Layout.ROWS, *FIXED}:
        return Layout.ROWS
    if pair <= {Layout.COLUMNS, *FIXED}:
        return Layout.COLUMNS
    for scalar in (
        Layout.MEAN,
        Layout.WEIGHTED,
        Layout.QUOTIENT,
        Layout.PIECED,
        Layout.SUM,
        Layout.COUNT,
        Layout.INVERSE,
        Layout.SHRUNK,
    ):
        if scalar in pair and pair - {scalar} and (pair - {scalar}) <= set(FIXED):
            return scalar
    if pair == {Layout.MEAN, Layout.COUNT}:
        return Layout.SUM
    if pair in ({Layout.SUM, Layout.INVERSE}, {Layout.SHRUNK, Layout.COUNT}):
        return Layout.MEAN
    if Layout.INVERSE in pair and pair & {*_MEANS}:
        return Layout.SHRUNK
    if pair <= set(_MEANS):
        return Layout.MIXED  # a product of means is no mean
    return _compared(pair)


def _compared(pair: set[Layout]) -> Layout:
    """What becomes of samples that meet a statistic of their batch, as in `x - x.mean(0)`."""
    samples = pair & {Layout.ROWS, Layout.COLUMNS}
    return Layout.MIXED if len(samples) == 1 and pair - samples <= {*CURVING} else Layout.UNKNOWN


def _rated(operator: ast.operator, left: Layout, right: Layout) -> Layout:
    """What is multiplied by one by a sum: another sum makes a quotient of the two."""
    if isinstance(operator, (ast.Mult, ast.Div)) and right in FIXED:
        return Layout.RATE
    if isinstance(operator, ast.Mult):
        other = right if left is Layout.RATE else left
        return Layout.RATE if other in FIXED else Layout.QUOTIENT if other in _SUMS else Layout.MIXED
    return Layout.MIXED


def _divide(left: Layout, right: Layout) -> Layout:
    if right in FIXED or (left is Layout.PIECED and right is Layout.PIECES):
        return left  # perhaps by the number of pieces
    if left is right and left in (Layout.ROWS, Layout.COLUMNS):
        return left
    if left in FIXED and right in (Layout.ROWS, Layout.COLUMNS):
        return right
    if right is Layout.COUNT and (left is Layout.SUM or left in FIXED):
        return Layout.MEAN if left is Layout.SUM else Layout.INVERSE
    if right is Layout.COUNT and left in _MEANS:
        return Layout.SHRUNK
    if left is right is Layout.SUM or (left is Layout.COUNT and right is Layout.SUM):
        return Layout.QUOTIENT
    if right in _MEANS and left in (*_MEANS, *FIXED):
        return Layout.MIXED
    return _compared({left, right})
