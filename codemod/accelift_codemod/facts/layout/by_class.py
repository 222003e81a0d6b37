"""What functions tell of each class in a batch: how many of it there are, what its samples add up to."""

from __future__ import annotations

import ast

from accelift_codemod.facts import torch_ops as ops
from accelift_codemod.facts.layout.algebra import FIXED, Layout, Shape
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument


def of_classes(
    name: str, call: ast.Call, arguments: list[Shape], keywords: dict[str, Shape], offset: int
) -> Shape | None:
    """What a function gives that tells something of each class, or bin; None for others. `offset` is how many of the
    call's own arguments are the tensor."""
    first = arguments[0] if arguments else Layout.UNKNOWN
    if name in ("bincount", "histc") and first is Layout.ROWS:
        ranged = name == "bincount" or len(call.args) > offset + 2 or any(k.arg == "max" for k in call.keywords)
        return Layout.SUM if ranged else Layout.MIXED
    if name == "unique" and first is Layout.ROWS and "return_counts" in keywords:
        others = len(keywords.keys() - {"sorted", "dim"})
        return (*[Layout.UNKNOWN] * others, Layout.MIXED)
    if name in ops.ADDS_UP and first in FIXED and any(part not in FIXED for part in arguments[2:]):
        return Layout.SUM if integer(argument(call, offset, "dim")) == 0 else Layout.UNKNOWN
    return None
