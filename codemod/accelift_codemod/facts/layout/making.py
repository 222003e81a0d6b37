"""Arrays and tensors that are made of a size that is told, or of what they are given: `np.random.normal(size=(n, 2))`.

What torch's own functions make is told in operations.py.
"""

from __future__ import annotations

import ast

from accelift_codemod.facts.layout.algebra import Layout, Shape, tensor, written_out
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument

# Where NumPy's functions are told the size: the place and the name of the argument.
_SIZES = {
    **{f"numpy.{name}": (0, "shape") for name in ("zeros", "ones", "full", "empty")},
    **{f"numpy.random.{name}": (0, "size") for name in ("random", "random_sample", "standard_normal")},
    "numpy.random.choice": (1, "size"),
    **{f"numpy.random.{name}": (2, "size") for name in ("normal", "uniform", "randint", "binomial", "beta", "gamma")},
}
# What tells of all samples something that is no number of each.
_STATISTICS: dict[str, Shape] = {
    **dict.fromkeys("quantile percentile median std var max min amax amin ptp nanmax nanmin".split(), Layout.MIXED),
    "mean": Layout.MEAN,
    "average": Layout.MEAN,
    "sum": Layout.SUM,
}
_AXES = {"quantile": 2, "percentile": 2}  # where the dimension stands
_SAMPLES: tuple[Shape, ...] = (Layout.ROWS, Layout.PICKED)
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


def statistic(qualified: str, call: ast.Call, arguments: list[Shape]) -> Shape | None:
    """What a function of NumPy tells of all samples by one number, `np.percentile(losses, 70)`; None for others."""
    module, _, name = qualified.rpartition(".")
    axis = argument(call, _AXES.get(name, 1), "axis")
    over = axis is None or integer(axis) == 0
    samples = module == "numpy" and bool(arguments) and tensor(arguments[0]) in _SAMPLES
    return _STATISTICS.get(name) if samples and over else None


def legacy_tensor(arguments: list[Shape]) -> Shape:
    """What a tensor's type makes: `FloatTensor(2, 3)` a tensor of this size, `FloatTensor(values)` one of values."""
    first = written_out(arguments[0]) if arguments else Layout.CONST
    if len(arguments) > 1 or first in (Layout.COUNT, Layout.SHAPE):
        return _of_rows(first) or Layout.UNKNOWN
    return Layout.UNKNOWN if isinstance(first, tuple) else tensor(first)


def _of_rows(size: Shape) -> Shape | None:
    return Layout.ROWS if size in (Layout.COUNT, Layout.SHAPE) else None
