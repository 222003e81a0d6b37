"""Models that are loaded from files; what is about models beyond one device is not offered."""

from __future__ import annotations

from typing import Any

from accelift.checkpoint.export import load_checkpoint_in_model as load_checkpoint_in_model
from accelift.notoffered import stand_in


def __getattr__(name: str) -> Any:
    return stand_in(name, __name__)
