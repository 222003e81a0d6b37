"""What functions make of tensors that have the samples in dimension 1."""

from __future__ import annotations

import ast

from accelift_codemod.facts import torch_ops as ops
from accelift_codemod.facts.layout.algebra import Layout, Shape
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tree import is_constant

_TOTALS = {"mean": Layout.MEAN, "sum": Layout.SUM, "weighted": Layout.WEIGHTED}
_SAMPLES = 1  # their dimension
_KEEPS = frozenset("neg detach clone contiguous zero_ fill_ requires_grad_".split())  # what leaves it there


def over_samples(name: str) -> Layout:
    """What a function makes of all samples where it reduces their dimension."""
    return _TOTALS.get(ops.REDUCES[name], Layout.MIXED if name in ops.STATISTICS else Layout.UNKNOWN)


def columns(name: str, call: ast.Call, offset: int, rank: int | None = None) -> Shape:
    """The layout of what a function makes of one such tensor and of numbers."""
    if name in ops.CURVED or name in _KEEPS:
        return Layout.COLUMNS
    if name in ("view", "reshape") and rank == 2 and _cuts_across(call.args[offset:]):
        return Layout.MIXED
    kind = ops.REDUCES.get(name)
    if kind is None or name in ops.TURNS:
        return Layout.UNKNOWN
    over = over_samples(name)
    told = argument(call, ops.DIMENSION_PLACE.get(name, 0) + offset, "dim")
    place = integer(told) if told is not None else ops.DIMENSION_DEFAULT.get(name)
    if told is None and place is None:
        return over
    if place is not None and place < 0:
        if rank is None:  # most likely a dimension after that of the samples, in sequences
            return Layout.COLUMNS if kind != "pair" else Layout.UNKNOWN
        place += rank
    if place == _SAMPLES:
        return over
    if place is not None and place > _SAMPLES and kind != "pair":
        return Layout.COLUMNS
    if place != 0 or kind == "pair":
        return Layout.UNKNOWN
    kept = argument(call, ops.DIMENSION_PLACE.get(name, 0) + offset + 1, "keepdim")
    whole = kind == "same" or is_constant(kept, True)
    return Layout.COLUMNS if whole else Layout.ROWS if kept is None else Layout.UNKNOWN


def _cuts_across(sizes: list[ast.expr]) -> bool:
    """Whether a matrix is cut into rows of so many places, each of which has a place of several samples then:
    `out.t().reshape(-1, 3)`."""
    given = sizes[0].elts if sizes and isinstance(sizes[0], (ast.Tuple, ast.List)) else sizes
    return len(given) == 2 and integer(given[0]) == -1 and (integer(given[1]) or 0) > 1
