"""Numbers on the command line: seconds, and amounts of memory."""

from __future__ import annotations

import math
from typing import Any

import click


class _Finite(click.FloatRange):
    """A number that is not negative, or `above` zero, and neither `nan` nor `inf`."""

    def __init__(self, unit: str, *, above: bool = False) -> None:
        super().__init__(0, min_open=above)
        self.unit = unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no number of {self.unit}.", param, ctx)
        return number


SECONDS = _Finite("seconds")
GIGABYTES = _Finite("gigabytes", above=True)
