"""Answers that hold for one run, as they depend on what lies in the file system."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

Answer = TypeVar("Answer", bound=Callable[..., Any])

_MOST = 16_384  # answers of a function
_FUNCTIONS: list[Any] = []


def remembered(function: Answer) -> Answer:
    """A function that is asked once in a run for the same arguments."""
    cached = lru_cache(maxsize=_MOST)(function)
    _FUNCTIONS.append(cached)
    return cached  # type: ignore[return-value]


def forget() -> None:
    """Have all looked at anew: files may have come and gone."""
    for function in _FUNCTIONS:
        function.cache_clear()
