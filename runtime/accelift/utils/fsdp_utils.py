"""Sharded models: names that are not offered."""

from __future__ import annotations

from typing import Any

from accelift.notoffered import stand_in


def __getattr__(name: str) -> Any:
    return stand_in(name, __name__)
