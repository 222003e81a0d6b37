"""Functions of torch that go along the last dimensions of a tensor, or along those that they are told: each sample has
its own result where these are not that of the samples, `torch.linalg.inv(r)` of matrices, one for each."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from accelift_codemod.facts.layout.algebra import FIXED, Layout, Shape, written_out
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument

# Functions of square matrices, and how many tensors they give. Of samples that are one square matrix together, each has
# been set against all before.
_SQUARE = {
    **dict.fromkeys("det logdet inv inverse cholesky matrix_exp matrix_power eigvals eigvalsh solve inv_ex".split(), 1),
    **dict.fromkeys("slogdet eig eigh".split(), 2),
}
_MATRICES = {
    **dict.fromkeys("svdvals pinv pinverse matrix_norm matrix_rank cholesky_solve".split(), 1),
    "qr": 2,
    "svd": 3,
    "lstsq": 4,
}
# Transforms, and where among the arguments after the tensor the dimension stands that they go along.
_ALONG_ONE = {
    **dict.fromkeys("fft ifft rfft irfft hfft ihfft".split(), 1),
    **dict.fromkeys(("trapz", "trapezoid", "stft", "view_as_complex", "view_as_real"), None),
}
_ALONG_TWO = frozenset("fft2 ifft2 rfft2 irfft2 hfft2 ihfft2".split())
_TWO = 2
OF_DIMENSIONS = frozenset((*_SQUARE, *_MATRICES, *_ALONG_ONE, *_ALONG_TWO, "diag_embed", "diagonal", "cross"))


def along_last(name: str, call: ast.Call, parts: Sequence[Shape], offset: int, rank: int | None) -> Shape | None:
    """What such a function makes of samples; None if it is no such, or cannot be told."""
    if name not in OF_DIMENSIONS or parts[0] is not Layout.ROWS:
        return None
    if any(part is not Layout.ROWS and written_out(part) not in FIXED for part in parts):
        return None
    if name == "matrix_norm" and (len(call.args) > offset + 1 or any(k.arg == "dim" for k in call.keywords)):
        return None
    if name in _SQUARE:
        return None if rank == _TWO else _several(Layout.ROWS, _SQUARE[name])
    if name in _MATRICES:
        return _several(Layout.ROWS, _MATRICES[name]) if rank is not None and rank > _TWO else None
    if name == "cross":  # which of the dimensions it is if none is told, depends on how many places they have
        return _past([argument(call, offset + 1, "dim")], None, rank)
    if name == "diagonal":
        given = [argument(call, offset + place, f"dim{place}") for place in (1, 2)]
        return _past(given, None, rank)
    if name == "diag_embed":
        return Layout.ROWS if len(parts) == 1 and not call.keywords and rank != 1 else None
    if name in _ALONG_TWO:
        told = argument(call, offset + 1, "dim")
        places = told.elts if isinstance(told, (ast.Tuple, ast.List)) else [None, None] if told is None else [told]
        return _past(places, [-2, -1], rank)
    place = _ALONG_ONE[name]
    return _past([argument(call, None if place is None else offset + place, "dim")], [-1], rank)


def _several(one: Shape, number: int) -> Shape:
    return one if number == 1 else tuple([one] * number)


def _past(told: Sequence[ast.expr | None], assumed: Sequence[int] | None, rank: int | None) -> Shape | None:
    """Whether all dimensions are told, or known, to be others than that of the samples."""
    if all(place is None for place in told):
        places: list[int | None] = [*(assumed or (None,))]
    else:
        places = [integer(place) for place in told]
    if any(place is None for place in places):
        return None
    first = any(place == 0 or (rank is not None and place == -rank) for place in places)
    return Layout.MIXED if first else Layout.ROWS
