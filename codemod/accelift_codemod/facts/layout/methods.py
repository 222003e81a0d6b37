"""What methods of tensors make of the layouts of their arguments."""

from __future__ import annotations

import ast

from accelift_codemod.facts import torch_ops as ops
from accelift_codemod.facts.layout.algebra import CURVING, Layout, Shape
from accelift_codemod.facts.layout.arithmetic import ALTERED, ARITHMETIC, altered, combine
from accelift_codemod.facts.layout.operations import curved, extreme, operation, picks
from accelift_codemod.facts.layout.pairs import adds_copies
from accelift_codemod.facts.layout.products import integer, swaps
from accelift_codemod.facts.layout.reshaping import cuts, halves
from accelift_codemod.facts.signatures import argument

# Methods that leave a mean or a sum, or a vector of them, what it is.
_OF_STATISTICS = frozenset(
    "detach cpu cuda to clone float double numpy mean sum squeeze unsqueeze view reshape expand expand_as t "
    "contiguous".split()
)
# Methods that return a tensor of the same shape, whatever they are given.
_OF_SHAPES = frozenset("detach cpu cuda to clone float double half type type_as contiguous requires_grad_".split())
# Methods of lists and dicts, and of what else a batch may be if it is no tensor.
_OF_COLLECTIONS = frozenset("keys values get copy pop append extend insert index count update pin_memory".split())


def method(
    name: str,
    call: ast.Call,
    receiver: Shape,
    arguments: list[Shape],
    keywords: dict[str, Shape],
    rank: int | None = None,
) -> Shape:
    """A tensor's method; `rank` is how many dimensions the tensor surely has."""
    if receiver is Layout.BATCH:
        if name == "items":
            return ((Layout.CONST, Layout.ROWS),)
        if name in ("to", "cuda"):
            return Layout.BATCH
        if name in _OF_COLLECTIONS:
            return Layout.UNKNOWN
        return method(name, call, Layout.ROWS, arguments, keywords, rank)
    if name == "item":
        return receiver if receiver in (*CURVING, Layout.COUNT, Layout.MIXED) else Layout.UNKNOWN
    if receiver is Layout.MIXED:
        return Layout.CONST if name in ("size", "numel", "dim") else Layout.MIXED
    if receiver is Layout.UNSURE:
        unsaid = name in ("size", "numel", "nelement", "dim", "ndimension")
        return Layout.UNKNOWN if unsaid else Layout.MIXED if Layout.MIXED in arguments else receiver
    if receiver is Layout.SHIFTED and name in ("detach", "cpu", "cuda", "to", "clone", "float", "double"):
        return receiver
    if receiver is Layout.SHIFTED and name in ("size", "numel", "nelement", "dim"):
        return _size(name, call)
    if receiver is Layout.COLUMNS:
        return _of_columns(name, call, arguments, keywords, rank)
    picked = picks(name, call, [receiver, *arguments], 0)
    if picked is not None:
        return picked
    if receiver is Layout.STACKED and cuts(name, call, 0):
        return Layout.BATCH
    if receiver is Layout.STACKED and halves(name, call.args, arguments):
        return Layout.UNKNOWN  # all samples once, and once more beside them
    if adds_copies(name, call, receiver, 0, rank):
        return Layout.UNSURE
    if receiver in ALTERED:
        return altered([receiver, *arguments], lambda parts: method(name, call, parts[0], parts[1:], keywords, rank))
    if receiver is Layout.PLACES:
        return receiver if name in ops.ROW_WISE | ops.REORDERS else Layout.UNKNOWN
    if receiver in CURVING and name in ops.CURVED:
        return curved(name, receiver)
    if name in ops.EXTREMES and len(arguments) == 1 and (larger := extreme([receiver, *arguments])) is not None:
        return larger
    if receiver in CURVING and name in ops.SELECTS:
        return Layout.MIXED
    if receiver is Layout.RATE:
        return receiver if name in _OF_SHAPES else Layout.MIXED
    if receiver in CURVING:
        return _of_statistic(name, receiver, arguments)
    if receiver is Layout.SHIFTED:
        return operation(name, call, [receiver, *arguments], keywords, 0)
    if receiver is Layout.UNKNOWN:
        if Layout.MIXED in (*arguments, *keywords.values()):
            return Layout.MIXED
        whole = not arguments and not keywords
        return Layout.MEAN if name == "mean" and whole else Layout.UNKNOWN
    if receiver is Layout.STATES:
        return receiver if name in _OF_SHAPES else operation(name, call, [receiver, *arguments], keywords, 0, rank)
    if receiver is not Layout.ROWS:
        return Layout.UNKNOWN
    if name in ("size", "numel", "nelement", "dim", "ndimension"):
        return _size(name, call)
    return operation(name, call, [receiver, *arguments], keywords, 0, rank)


def _of_columns(
    name: str, call: ast.Call, arguments: list[Shape], keywords: dict[str, Shape], rank: int | None
) -> Shape:
    """A method of a tensor that has the samples in dimension 1."""
    if name in ("matmul", "mm") and arguments:
        return combine(ast.MatMult(), Layout.COLUMNS, arguments[0])
    if name in _OF_SHAPES or _widens(name, arguments):
        return Layout.TALL if name == "expand" and arguments[0] is Layout.COUNT else Layout.COLUMNS
    if name == "t" or swaps(name, call.args):
        return Layout.ROWS
    return operation(name, call, [Layout.COLUMNS, *arguments], keywords, 0, rank)


def _widens(name: str, arguments: list[Shape]) -> bool:
    """Whether dimension 1 stays as it is where a tensor is expanded: that of samples can become no other size."""
    return name == "expand_as" or (name == "expand" and len(arguments) > 1)


def _of_statistic(name: str, receiver: Shape, arguments: list[Shape]) -> Shape:
    """A method of a mean or a sum, or of a vector of them."""
    arithmetic = ARITHMETIC.get(name[:3]) if name in ops.ELEMENTWISE else None
    if arithmetic is not None and len(arguments) == 1:
        return combine(arithmetic, receiver, arguments[0])
    if name in _OF_STATISTICS:
        return receiver
    if name in ("dim", "ndimension", "numel", "nelement", "size"):
        return Layout.CONST
    return Layout.UNKNOWN


def _size(name: str, call: ast.Call) -> Shape:
    if name in ("dim", "ndimension"):
        return Layout.CONST
    if name == "size" and not call.args and not call.keywords:
        return Layout.SHAPE
    if name == "size":
        place = integer(argument(call, 0, "dim"))
        return Layout.UNKNOWN if place is None or place < 0 else Layout.COUNT if place == 0 else Layout.CONST
    return Layout.COUNT
