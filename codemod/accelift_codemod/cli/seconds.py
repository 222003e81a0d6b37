"""Seconds, and amounts of memory, on the command line."""

from __future__ import annotations

import math
from typing import Any

import click


class Seconds(click.FloatRange):
    """A time from 0 on that ends: neither `nan` nor `inf`."""

    def __init__(self) -> None:
        super().__init__(0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return seconds


class Gigabytes(click.FloatRange):
    """An amount of memory, of which there is some: neither `nan` nor `inf`."""

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        amount = float(super().convert(value, param, ctx))
        if not math.isfinite(amount):
            self.fail(f"{value} is no number of gigabytes.", param, ctx)
        return amount
