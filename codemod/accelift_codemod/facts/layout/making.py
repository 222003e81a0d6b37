"""Arrays and tensors that are made of a size that is told, or of what they are given: `np.random.normal(size=(n, 2))`.

What torch's own functions make is told in operations.py.
"""

from __future__ import annotations

from accelift_codemod.facts.layout.algebra import Layout, Shape, tensor, written_out

# Where NumPy's functions are told the size: the place and the name of the argument.
_SIZES = {
    **{f"numpy.{name}": (0, "shape") for name in ("zeros", "ones", "full", "empty")},
    **{f"numpy.random.{name}": (0, "size") for name in ("random", "random_sample", "standard_normal")},
    "numpy.random.choice": (1, "size"),
    **{f"numpy.random.{name}": (2, "size") for name in ("normal", "uniform", "randint", "binomial", "beta", "gamma")},
}
_SIZED_BY_NUMBERS = frozenset({"numpy.random.rand", "numpy.random.randn"})


def array(qualified: str, arguments: list[Shape], keywords: dict[str, Shape]) -> Shape | None:
    """What a function of NumPy makes that is told how many rows; None for others."""
    if qualified in _SIZED_BY_NUMBERS:
        return _of_rows(arguments[0]) if arguments else None
    if qualified not in _SIZES:
        return None
    place, name = _SIZES[qualified]
    size = keywords.get(name, arguments[place] if len(arguments) > place else Layout.CONST)
    return _of_rows(size[0] if isinstance(size, tuple) and size else size)


def legacy_tensor(arguments: list[Shape]) -> Shape:
    """What a tensor's type makes: `FloatTensor(2, 3)` a tensor of this size, `FloatTensor(values)` one of values."""
    first = written_out(arguments[0]) if arguments else Layout.CONST
    if len(arguments) > 1 or first in (Layout.COUNT, Layout.SHAPE):
        return _of_rows(first) or Layout.UNKNOWN
    return Layout.UNKNOWN if isinstance(first, tuple) else tensor(first)


def _of_rows(size: Shape) -> Shape | None:
    return Layout.ROWS if size in (Layout.COUNT, Layout.SHAPE) else None
