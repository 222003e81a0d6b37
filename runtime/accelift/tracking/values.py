"""What is logged, in the types that trackers know."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def number(value: Any) -> Any:
    """The Python number in a tensor or array with one element; anything else as it is."""
    shape = getattr(value, "shape", None)
    if shape is None or not hasattr(value, "item") or math.prod(shape) != 1:
        return value
    return value.item()


def plain(value: Any) -> Any:
    """The value in the types that JSON has.

    Tensors and arrays become numbers or lists, floats that are not finite the texts ``"NaN"``,
    ``"Infinity"`` and ``"-Infinity"``, and objects what ``str`` shows of them.
    """
    value = number(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return str(value)
