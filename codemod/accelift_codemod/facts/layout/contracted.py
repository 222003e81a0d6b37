"""Products of tensors along dimensions that are told: `torch.einsum`, `torch.tensordot`."""

from __future__ import annotations

import ast

from accelift_codemod.facts.layout.algebra import FIXED, Layout, Shape
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument


def einsum(call: ast.Call, arguments: list[Shape]) -> Shape:
    """A product of tensors, with the dimensions of each told by letters: `"id,jd->ij"` compares each with each."""
    equation = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    terms, arrow, result = equation.replace(" ", "").partition("->") if isinstance(equation, str) else ("", "", "")
    given = list(zip(terms.split(","), arguments[1:], strict=False))
    letters = {term[:1] for term, layout in given if layout is Layout.ROWS}
    if not arrow or not letters or "." in terms or any(lay not in (Layout.ROWS, *FIXED) for _, lay in given):
        return Layout.UNKNOWN
    if len(letters) > 1:
        return Layout.MIXED
    (letter,) = letters
    if letter not in result and all(layout is Layout.ROWS or letter not in term for term, layout in given):
        return Layout.SUM
    return Layout.ROWS if result[:1] == letter else Layout.UNKNOWN


def tensordot(call: ast.Call, left: Shape, right: Shape, offset: int) -> Shape:
    """A product of two tensors along some dimensions of each: along the first of both, it is a sum over the samples."""
    if not {left, right} <= {Layout.ROWS, *FIXED}:
        return Layout.UNKNOWN
    told = argument(call, 1 + offset, "dims")
    lists = told.elts if isinstance(told, (ast.Tuple, ast.List)) else []
    along = [[integer(d) for d in getattr(one, "elts", [one])] for one in lists]
    if left is right is Layout.ROWS and (len(along) == 2 or told is None or integer(told) is not None):
        summed = [0 in dimensions for dimensions in along] == [True, True]
        aligned = summed and along[0].index(0) == along[1].index(0)
        return Layout.SUM if aligned else Layout.MIXED
    if left is not Layout.ROWS or right not in FIXED:
        return Layout.UNKNOWN
    kept = along and None not in along[0] and 0 not in along[0]
    return Layout.ROWS if kept or integer(told) == 1 else Layout.UNKNOWN
