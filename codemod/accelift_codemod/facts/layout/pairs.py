"""What sets every sample of a batch against every other one: by repeating them, by their places, by distances."""

from __future__ import annotations

import ast

from accelift_codemod.facts import torch_ops as ops
from accelift_codemod.facts.layout.algebra import CURVING, FIXED, Layout, Shape
from accelift_codemod.facts.layout.arithmetic import combine
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument

_SAMPLES = (Layout.ROWS, Layout.COLUMNS, Layout.PLACES)
_BENDS = frozenset("pdist outer ger kron cov corrcoef".split())
_MATRIX = 2  # dimensions
EVEN = frozenset("mean max min amax amin median mode argmax argmin any all".split())  # of copies, what one of them is


def paired(name: str, call: ast.Call, arguments: list[Shape], offset: int, rank: int | None) -> Shape | None:
    """The layout of what a function makes that pairs what it is given; None for others.

    `rank` is how many dimensions the first argument surely has.
    """
    if name in ops.PAIRS and any(part in _SAMPLES for part in arguments):
        return Layout.MIXED
    if name in _BENDS and _bent(arguments):
        return Layout.MIXED
    if name in ops.PLACES_OF_PAIRS and Layout.COUNT in arguments:
        return Layout.MIXED
    if name in ops.SPREADS and arguments:
        return _repeated(name, call, arguments, offset, rank)
    if name in ops.PRODUCTS_ADDED and len(arguments) > 2:
        product = combine(ast.MatMult(), arguments[-2], arguments[-1])
        return combine(ast.Add(), product, arguments[0])
    if name == "cdist" and len(arguments) > 1:
        return _distances(arguments[0], arguments[1], rank)
    if name == "inner" and arguments[:2] == [Layout.ROWS, Layout.ROWS]:
        return Layout.UNKNOWN if rank is None else Layout.SUM if rank == 1 else Layout.MIXED
    return None


def _bent(arguments: list[Shape], *, alone: bool = False) -> bool:
    """Whether distances or products are taken of what is one for the batch, such as the means of its classes: of
    products, those with numbers that do not depend on it (unless `alone`) are straight."""
    parts = [one for part in arguments for one in (part if isinstance(part, tuple) else (part,))]
    curving = [part for part in parts if part in CURVING]
    straight = not alone and len(parts) > 1 and len(curving) == 1 and all(p in FIXED for p in parts if p not in curving)
    return bool(curving) and not straight


def _repeated(name: str, call: ast.Call, arguments: list[Shape], offset: int, rank: int | None) -> Shape | None:
    """What repeats samples: as often as there are samples, each of them meets all."""
    given = call.args[offset:]
    told = arguments[1:]
    if given and isinstance(given[0], (ast.Tuple, ast.List)):
        given, told = given[0].elts, list(told[0]) if told and isinstance(told[0], tuple) else []
    if not given or not told or len(told) < len(given) - (name == "repeat_interleave"):
        return None
    if arguments[0] is Layout.COLUMNS and name != "repeat_interleave" and len(given) > 1:
        return Layout.COLUMNS if integer(given[1]) == 1 else None
    if arguments[0] is not Layout.ROWS:
        return None
    if name != "repeat_interleave" and integer(given[0]) == 1 and Layout.COUNT in told and rank == len(given):
        return Layout.WIDE  # each sample beside as many others
    if told[0] is not Layout.COUNT:
        return None
    if name == "repeat_interleave":
        return Layout.MIXED if integer(argument(call, offset + 1, "dim")) == 0 else None
    return Layout.MIXED


def _distances(left: Shape, right: Shape, rank: int | None) -> Shape:
    """All distances between the rows of two tensors, which are samples if these have two dimensions."""
    if _bent([left, right], alone=True):
        return Layout.MIXED
    samples = [part for part in (left, right) if part not in FIXED]
    if Layout.UNKNOWN in samples or any(part is not Layout.ROWS for part in samples):
        return Layout.UNKNOWN
    if len(samples) == 1:
        return Layout.ROWS if left is Layout.ROWS else Layout.UNKNOWN
    return Layout.UNKNOWN if rank is None else Layout.MIXED if rank == _MATRIX else Layout.ROWS


def spread(sizes: list[Shape]) -> bool:
    """Whether a dimension after the first is told to have as many places as there are samples."""
    told = sizes[0] if sizes and isinstance(sizes[0], tuple) else sizes
    return Layout.COUNT in told[1:]


def expanded(call: ast.Call, sizes: list[Shape], offset: int, rank: int | None) -> Shape | None:
    """What `expand` makes of samples where it is told their number for another dimension, or gives them one more."""
    given = call.args[offset:]
    given = given[0].elts if given and isinstance(given[0], (ast.Tuple, ast.List)) else given
    told = list(sizes[0]) if sizes and isinstance(sizes[0], tuple) else sizes
    if not told or len(told) < len(given):
        return None
    if rank is not None and len(given) > rank:
        one = len(given) == rank + 1
        return (Layout.TALL if told[0] is Layout.COUNT else Layout.COLUMNS) if one else Layout.UNKNOWN
    first = told[0] is Layout.COUNT or integer(given[0]) == -1
    return Layout.WIDE if first and spread(told) else None


def adds_copies(name: str, call: ast.Call, kind: Shape, offset: int, rank: int | None) -> bool:
    """Whether a function adds up what there is of a sample as often as there are samples, or compares that."""
    if kind is not Layout.WIDE or name not in ops.REDUCES or name in EVEN:
        return False
    told = argument(call, ops.DIMENSION_PLACE.get(name, 0) + offset, "dim")
    places = told.elts if isinstance(told, (ast.Tuple, ast.List)) else [told]
    return told is not None and any(_is_of_copies(integer(place), rank) for place in places)


def _is_of_copies(place: int | None, rank: int | None) -> bool:
    return place in (None, 1) or (rank is not None and place == 1 - rank)


def broadcast(parts: list[Shape]) -> Shape:
    """What `broadcast_tensors` makes: all of one size."""
    if Layout.ROWS in parts and Layout.COLUMNS in parts:
        sizes: dict[Shape, Shape] = {Layout.ROWS: Layout.WIDE, Layout.COLUMNS: Layout.TALL}
        return tuple(sizes.get(part, Layout.UNSURE) for part in parts)
    if all(part is Layout.ROWS or part in FIXED for part in parts):
        return tuple(Layout.ROWS for _ in parts)
    return tuple(parts)


def attended(parts: list[Shape], rank: int | None) -> Shape:
    """What attention makes of queries, keys and values, which it sets against each other along dimension -2."""
    if all(part in FIXED for part in parts):
        return Layout.CONST
    if not all(part in _SAMPLES or part in FIXED for part in parts):
        return Layout.UNKNOWN
    meets = parts[1] not in FIXED and (Layout.COLUMNS in parts or rank == _MATRIX)
    return Layout.MIXED if meets else Layout.COLUMNS if Layout.COLUMNS in parts else Layout.ROWS


def groups(call: ast.Call, offset: int, rank: int | None) -> bool:
    """Whether what has one number for each sample is put into rows of several: `each.view(-1, 2)`."""
    given = call.args[offset:]
    given = given[0].elts if given and isinstance(given[0], (ast.Tuple, ast.List)) else given
    return rank == 1 and len(given) > 1 and any(integer(size) != 1 for size in given[1:])
