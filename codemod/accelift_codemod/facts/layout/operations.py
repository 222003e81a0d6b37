"""What torch functions and tensor methods make of the layouts of their arguments."""

from __future__ import annotations

import ast

from accelift_codemod.facts import torch_ops as ops
from accelift_codemod.facts.layout.algebra import (
    CURVING,
    FIXED,
    SCALARS,
    Layout,
    Record,
    Shape,
    element,
    tensor,
    written_out,
)
from accelift_codemod.facts.layout.arithmetic import ALTERED, ARITHMETIC, COMPARING, altered, combine, elementwise
from accelift_codemod.facts.layout.by_class import of_classes
from accelift_codemod.facts.layout.columns import columns, over_samples
from accelift_codemod.facts.layout.contracted import einsum, tensordot
from accelift_codemod.facts.layout.last_dimensions import along_last
from accelift_codemod.facts.layout.pairs import adds_copies, attended, broadcast, expanded, paired, spread
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.layout.reshaping import cuts, is_wide, reshaped
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tree import is_constant

_MOST_DIMENSIONS = 5
# What has one of each piece, or their number, if it is given pieces.
_GOES_THROUGH = frozenset("zip enumerate list tuple reversed len range iter".split())


def builtin(name: str, arguments: list[Shape]) -> Shape:
    first = arguments[0] if arguments else Layout.CONST
    if name in _GOES_THROUGH and (Layout.PIECES in arguments or (name == "len" and first is Layout.PIECED)):
        return Layout.PIECES
    if name == "len":
        if first is Layout.PICKED:
            return Layout.SUM  # of one for each that is picked
        return Layout.COUNT if first is Layout.ROWS else Layout.CONST if first in FIXED else Layout.UNKNOWN
    if name == "range" and len(arguments) > 2 and arguments[1] is Layout.COUNT:
        return Layout.PIECES if arguments[0] in FIXED and arguments[2] in FIXED else Layout.UNKNOWN
    if first is Layout.UNSURE and name in ("sum", "max", "min", "list", "tuple", "sorted", "reversed"):
        return first
    if name == "sum" and first is Layout.PIECED:
        return first
    if name == "abs" and first in CURVING:
        return curved(name, first)
    if name in ("float", "int", "abs", "bool") and not isinstance(first, tuple):
        return first
    if name == "pow" and len(arguments) > 1:
        return combine(ast.Pow(), first, arguments[1])
    if name == "sum" and first is Layout.ROWS and len(arguments) == 1:
        return Layout.SUM
    if name in ("list", "tuple", "sorted") and first is Layout.ROWS:
        return Layout.UNSURE  # a list of them, one for each sample
    if name == "sum" and isinstance(first, tuple) and first:
        total: Shape = Layout.ZERO
        for part in first:
            total = combine(ast.Add(), total, part)
        return total
    if name in ("max", "min"):
        compared = [*first] if len(arguments) == 1 and isinstance(first, tuple) else arguments
        if not isinstance(first, Record) and len(compared) > 1 and (larger := extreme(compared)) is not None:
            return larger
        if first is Layout.ROWS and len(arguments) == 1:
            return Layout.MIXED
    if isinstance(first, Record) and name in ("list", "tuple", "sorted", "len", "iter", "reversed"):
        return Layout.CONST  # its keys
    if name in ("list", "tuple") and (isinstance(first, tuple) or first is Layout.MIXED):
        return first
    if name in ("max", "min", "sum", "round") and Layout.MIXED in arguments:
        return Layout.MIXED
    if name == "super":
        return Layout.CONST
    if name == "zip" and Layout.MIXED in arguments:
        return (tuple(map(element, arguments)),)
    return Layout.CONST if all(a in FIXED for a in arguments) else Layout.UNKNOWN


def extreme(parts: list[Shape]) -> Layout | None:
    """The larger or smaller of numbers some of which are one for the whole batch; None for others.

    Which of two means is larger in a share may not be so in the batch.
    """
    if not any(part in CURVING for part in parts) or not all(part in (*CURVING, *FIXED) for part in parts):
        return None
    return Layout.PART_SUM if set(parts) <= {Layout.SUM, *FIXED} else Layout.MIXED


def curved(name: str, of: Shape) -> Shape:
    """A function that is no straight line, of a mean or a sum; a sum that is kept from zero may divide another one."""
    return Layout.PART_SUM if of is Layout.SUM and name.startswith(("clamp", "clip")) else Layout.MIXED


def operation(
    name: str, call: ast.Call, arguments: list[Shape], keywords: dict[str, Shape], offset: int, rank: int | None = None
) -> Shape:
    """A torch function or tensor method; `offset` is how many of the call's own arguments are the tensor, `rank` how
    many dimensions this surely has."""
    if name in ops.OF_NUMBERS:
        arguments = list(map(written_out, arguments))
        if name == "new_tensor" and arguments[1:2] and arguments[1] in (Layout.PLACES, *FIXED):
            return Layout.PLACES if arguments[1] is Layout.PLACES else Layout.CONST
    if name in ops.NEW and not offset:
        return operation("zeros", call, arguments[1:], keywords, 1)
    everything = [*arguments, *keywords.values()]
    if name in ("mm", "matmul") and len(arguments) == 2:
        return combine(ast.MatMult(), arguments[0], arguments[1])
    if name in ops.FILLED or (name == "arange" and len(arguments) == 1 and not keywords.keys() & {"end", "step"}):
        everything = [Layout.CONST if e is Layout.MIXED else e for e in map(written_out, everything)]
        arguments = everything[: len(arguments)]  # as long as the longest sample: what padding is, is told elsewhere
    if Layout.MIXED in everything or Layout.RATE in everything:
        return Layout.MIXED
    if Layout.UNSURE in everything and name not in ops.LIKE:
        return Layout.UNSURE
    if name in ops.SIZED:
        return _sized(arguments)
    if name in ("cat", "concat", "concatenate", "stack", "hstack"):
        return _join_tensors(name, call, arguments)
    if arguments[:1] == [Layout.STATES] and all(e in FIXED for e in everything[1:]):
        beside = columns(name, call, offset, rank)
        return Layout.STATES if beside is Layout.COLUMNS else beside
    arguments, everything = list(map(tensor, arguments)), list(map(tensor, everything))
    if not everything or all(e in FIXED for e in everything):
        return Layout.CONST
    found = _of_several(name, call, arguments, everything, offset, rank)
    if found is None:
        found = _of_numbers(name, call, arguments, keywords, offset)
    if found is None and offset:
        found = picks(name, call, everything, offset)
    if found is not None:
        return found
    if arguments[:1] == [Layout.STACKED] and cuts(name, call, offset):
        return Layout.BATCH
    if arguments and adds_copies(name, call, arguments[0], offset, rank):
        return Layout.UNSURE
    if any(a in ALTERED for a in arguments):
        return altered(arguments, lambda parts: operation(name, call, parts, keywords, offset, rank))
    first = arguments[0] if arguments else tensor(keywords.get("input", Layout.UNKNOWN))
    found = _of_statistics(name, first, arguments)
    if found is None:
        found = of_classes(name, call, arguments, keywords, offset)
    if found is not None:
        return found
    if name == "copy" and len(arguments) > 1:
        return arguments[1]
    if first is Layout.COLUMNS and all(e in FIXED for e in everything[1:]):
        return columns(name, call, offset, rank)
    if name == "where" and offset == 1:
        return elementwise(arguments)
    if name in ops.ELEMENTWISE and len(arguments) > 1:
        return combine(ARITHMETIC.get(name.rstrip("_")[:3], ast.Mod()), first, arguments[1])
    if first is Layout.UNKNOWN:
        return Layout.MEAN if name == "mean" and len(call.args) <= offset and not call.keywords else Layout.UNKNOWN
    if first is not Layout.ROWS:
        return Layout.UNKNOWN
    return _of_rows(name, call, everything[1:] if arguments else everything, offset, rank)


def _sized(sizes: list[Shape]) -> Shape:
    """What has as many rows as it is told."""
    given = sizes[0] if sizes else Layout.UNKNOWN
    first = given[0] if isinstance(given, tuple) and given else given
    if first in (Layout.COUNT, Layout.SHAPE):
        return Layout.WIDE if spread(sizes) else Layout.ROWS
    return Layout.CONST if first in FIXED else Layout.UNKNOWN


def _of_several(
    name: str, call: ast.Call, arguments: list[Shape], everything: list[Shape], offset: int, rank: int | None
) -> Shape | None:
    """What functions make of several tensors, in which samples may meet; None for others."""
    if name in ops.COMPARES and any(pair <= set(everything) for pair in COMPARING):
        return Layout.MIXED
    if Layout.SHIFTED in everything:
        arithmetic = ARITHMETIC.get(name.rstrip("_")) if len(everything) == 2 else None
        if arithmetic is not None:
            return combine(arithmetic, everything[0], everything[1])
        return Layout.MEAN if name == "mean" and _reduce(name, call, offset) is Layout.MEAN else Layout.MIXED
    if name == "cdist" and Layout.ROWS in arguments and any(a in SCALARS for a in arguments):
        return Layout.MIXED
    pairs = paired(name, call, arguments, offset, rank)
    if pairs is not None:
        return pairs
    if name == "einsum":
        return einsum(call, everything)
    if name == "broadcast_tensors":
        return broadcast(everything)
    if name == "scaled_dot_product_attention":
        return attended(arguments[:3], rank)
    if name == "tensordot" and len(arguments) > 1:
        return tensordot(call, arguments[0], arguments[1], offset)
    if name in ("dot", "vdot") and everything == [Layout.ROWS, Layout.ROWS]:
        return Layout.SUM
    return None


def _of_numbers(
    name: str, call: ast.Call, arguments: list[Shape], keywords: dict[str, Shape], offset: int
) -> Shape | None:
    """Tensors of numbers that are told, and windows of the samples; None for others."""
    if name in ops.OF_NUMBERS | {"from_numpy"} and arguments and arguments[0] in CURVING:
        return arguments[0]
    if name == "unfold" and not offset and len(call.args) > 1 and arguments[0] is Layout.ROWS:
        place = integer(call.args[0])
        return Layout.UNSURE if place is None else Layout.MIXED if place == 0 else Layout.ROWS
    if name == "arange" and arguments == [Layout.COUNT] and not keywords.keys() & {"end", "step"}:
        return Layout.PLACES
    if name in ("linspace", "logspace") and len(arguments) == 3 and arguments[2] is Layout.COUNT:
        return Layout.PLACES
    return None


def _of_statistics(name: str, first: Shape, arguments: list[Shape]) -> Shape | None:
    """What functions make of a mean or a sum, perhaps beside the samples; None for others."""
    if first in CURVING and name in ("mean", "sum"):
        return first
    if first in CURVING and name in ops.CURVED:
        return curved(name, first)
    if name in ops.EXTREMES and len(arguments) == 2 and (larger := extreme(arguments)) is not None:
        return larger
    if first in CURVING and name in ops.SELECTS:
        return Layout.MIXED
    if name in ops.BENDING and Layout.ROWS in arguments[:2] and any(part in CURVING for part in arguments[:2]):
        return Layout.MIXED  # `torch.maximum(z, z.mean(0))`
    return None


def _of_rows(name: str, call: ast.Call, others: list[Shape], offset: int, rank: int | None) -> Shape:
    """What functions make of the samples, given other things."""
    if name == "linear" and Layout.ROWS in others[:1]:
        return Layout.MIXED  # the samples are the weights
    if name == "layer_norm" and Layout.SHAPE in others[:1]:
        return Layout.MIXED  # over all of them
    if name in ops.ROW_WISE and any(o in CURVING for o in others):
        return Layout.MIXED  # `F.linear(x, prototypes)`
    if name == "expand" and (wide := expanded(call, others, offset, rank)) is not None:
        return wide
    if name == "expand" and is_wide(call):
        return Layout.ROWS
    if any(o in (Layout.UNKNOWN, *SCALARS) for o in others):
        return Layout.UNKNOWN
    if name in ops.ROW_WISE or name in ops.LIKE:
        return Layout.ROWS
    if name in ops.REDUCES:
        return _reduce(name, call, offset, rank)
    if (found := along_last(name, call, [Layout.ROWS, *others], offset, rank)) is not None:
        return found
    return reshaped(name, call, others, offset, rank)


def picks(name: str, call: ast.Call, parts: list[Shape], offset: int) -> Shape | None:
    """What functions return that pick elements by what they are, or tell the places of these; None for others."""
    if all(part in FIXED for part in parts) or Layout.MIXED in parts:
        return None
    if name == "masked_select":
        return Layout.PICKED
    if name in ("nonzero", "argwhere") or (name == "where" and offset and len(parts) == 1):
        split = argument(call, None, "as_tuple")
        each = name == "where" or is_constant(split, True)
        return tuple([Layout.PICKED] * _MOST_DIMENSIONS) if each else Layout.PICKED
    if name == "index_select" and integer(argument(call, offset, "dim")) == 0 and parts[-1] is Layout.PICKED:
        return Layout.PICKED
    return None


def _join_tensors(name: str, call: ast.Call, arguments: list[Shape]) -> Shape:
    parts = arguments[0] if arguments else Layout.UNKNOWN
    if isinstance(parts, tuple) and Layout.MIXED in parts:
        return Layout.MIXED
    if parts is Layout.UNSURE or (isinstance(parts, tuple) and Layout.UNSURE in parts):
        return Layout.UNSURE
    parts = tuple(map(tensor, parts)) if isinstance(parts, tuple) else parts
    if isinstance(parts, tuple) and Layout.ROWS in parts and any(part in CURVING for part in parts):
        return Layout.MIXED  # samples beside a statistic of them all
    if parts is Layout.PIECED or (parts is Layout.PIECES and name.startswith("c")):
        return Layout.PIECED if parts is Layout.PIECED else Layout.ROWS
    if isinstance(parts, tuple) and parts and parts[0] in (*SCALARS, Layout.QUOTIENT) and len(set(parts)) == 1:
        return parts[0]  # one of them beside the other
    dimension = argument(call, 1, "dim") or argument(call, None, "axis")
    place = 1 if name == "hstack" else integer(dimension) if dimension is not None else 0
    if place == 0 and name != "stack" and (parts is Layout.BATCH or _all_rows(parts)):
        return Layout.STACKED
    if not isinstance(parts, tuple):
        return Layout.CONST if parts in FIXED else Layout.UNKNOWN
    if all(p in FIXED for p in parts):
        return Layout.CONST
    for kind in (Layout.PICKED, Layout.CHOSEN):
        if (place == 0 and kind in parts) or (place and all(p is kind for p in parts)):
            return kind
    if place == 0 and name == "stack" and _all_rows(parts):
        return Layout.STATES
    if place is None or place == 0:
        return Layout.UNKNOWN
    return Layout.ROWS if all(p is Layout.ROWS for p in parts) else Layout.UNKNOWN


def _all_rows(parts: Shape) -> bool:
    return isinstance(parts, tuple) and bool(parts) and all(part is Layout.ROWS for part in parts)


def _reduce(name: str, call: ast.Call, offset: int, rank: int | None = None) -> Shape:
    kind, over = ops.REDUCES[name], over_samples(name)
    place = ops.DIMENSION_PLACE.get(name, 0) + offset
    if name == "cosine_similarity":
        place = 1 + offset
    dimension = next((d for k in ("dim", "axis", "dims") if (d := argument(call, place, k)) is not None), None)
    if dimension is None:
        assumed = ops.DIMENSION_DEFAULT.get(name)
        if assumed is None:
            if kind == "rows":
                return Layout.ROWS
            return Layout.TURNED if name in ops.TURNS else over if kind != "same" else Layout.UNKNOWN
        dimensions: list[int | None] = [assumed]
    elif isinstance(dimension, (ast.Tuple, ast.List)):
        dimensions = [integer(d) for d in dimension.elts]
    else:
        dimensions = [integer(dimension)]
    if None in dimensions and 0 not in dimensions:
        return Layout.UNKNOWN
    # Of a vector the last dimension is that of the samples. Sorted lengths are a way to put all into another order.
    if 0 in dimensions or (rank is not None and -rank in dimensions and name not in ("sort", "argsort")):
        return Layout.TURNED if name in ops.TURNS else over
    return (Layout.ROWS, Layout.ROWS) if kind == "pair" else Layout.ROWS
