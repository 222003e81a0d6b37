"""Trackers: where the numbers of a run are written to.

The names here are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelift.tracking.base import GeneralTracker, on_main_process
    from accelift.tracking.choice import filter_trackers, get_available_trackers, register_tracker_class
    from accelift.tracking.jsonl import JSONLTracker
    from accelift.tracking.tensorboard import TensorBoardTracker
    from accelift.tracking.wandb import WandBTracker

_HOMES = {
    "GeneralTracker": "accelift.tracking.base",
    "JSONLTracker": "accelift.tracking.jsonl",
    "TensorBoardTracker": "accelift.tracking.tensorboard",
    "WandBTracker": "accelift.tracking.wandb",
    "filter_trackers": "accelift.tracking.choice",
    "get_available_trackers": "accelift.tracking.choice",
    "on_main_process": "accelift.tracking.base",
    "register_tracker_class": "accelift.tracking.choice",
}

__all__ = [
    "GeneralTracker",
    "JSONLTracker",
    "TensorBoardTracker",
    "WandBTracker",
    "filter_trackers",
    "get_available_trackers",
    "on_main_process",
    "register_tracker_class",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
