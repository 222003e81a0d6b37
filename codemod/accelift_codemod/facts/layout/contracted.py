"""Products of tensors along dimensions that are told: `torch.einsum`, `torch.tensordot`."""

from __future__ import annotations

import ast

from accelift_codemod.facts.layout.algebra import FIXED, Layout, Shape
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument


def einsum(call: ast.Call, arguments: list[Shape]) -> Shape:
    """A product of tensors, with the dimensions of each told by letters: `"id,jd->ij"` compares each with each. They
    may be told by numbers in lists, too: `einsum(a, [0, 1], b, [2, 1], [0, 2])`."""
    told = _lettered(call, arguments)
    samples = any(part in _SAMPLES for part in arguments)
    if told is None:
        return Layout.UNSURE if samples else Layout.UNKNOWN
    given, result = told
    letters = {term[place] for term, layout in given if (place := _SAMPLES.get(layout, 9)) < len(term)}
    if not letters:
        return Layout.UNSURE if samples else Layout.UNKNOWN
    if any(layout not in (*_SAMPLES, *FIXED) for _, layout in given):
        return Layout.UNKNOWN
    if len(letters) > 1:
        return Layout.MIXED
    (letter,) = letters
    if letter not in result and all(layout in _SAMPLES or letter not in term for term, layout in given):
        return Layout.SUM
    if result[:1] == [letter]:
        return Layout.ROWS
    return Layout.COLUMNS if result[1:2] == [letter] else Layout.UNKNOWN


_SAMPLES: dict[Shape, int] = {Layout.ROWS: 0, Layout.COLUMNS: 1}  # the dimension of the samples
_Terms = list[tuple[list[str], Shape]]


def _lettered(call: ast.Call, arguments: list[Shape]) -> tuple[_Terms, list[str]] | None:
    """The letters of the dimensions of each tensor, and of the result; None if they cannot be told."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        terms, arrow, result = first.value.replace(" ", "").partition("->")
        layouts = arguments[1:]
        if len(layouts) == 1 and isinstance(layouts[0], tuple):
            layouts = list(layouts[0])
        split = [_letters(term) for term in terms.split(",")]
        if len(split) != len(layouts):
            return None
        every = [letter for term in split for letter in term]
        free = sorted(letter for letter in {*every} if every.count(letter) == 1 or letter == "...")
        return list(zip(split, layouts, strict=True)), _letters(result) if arrow else free
    numbered = [_numbers(node) for node in call.args]
    pairs = list(zip(arguments[0::2], numbered[1::2], strict=False))
    if len(arguments) % 2 == 0 or numbered[-1] is None or any(dims is None for _, dims in pairs):
        return None
    return [(dims or [], layout) for layout, dims in pairs], numbered[-1]


def _letters(term: str) -> list[str]:
    before, dots, after = term.partition("...")
    return [*before, dots, *after] if dots else [*before]


def _numbers(node: ast.expr) -> list[str] | None:
    """The numbers in a list that is written out, as letters."""
    if not isinstance(node, (ast.List, ast.Tuple)):
        return None
    found = [integer(part) for part in node.elts]
    return None if None in found else [str(number) for number in found]


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
