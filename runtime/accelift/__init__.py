"""Run plain PyTorch training scripts on one or many processes, computing the same.

The names here are loaded on first use, so that importing :mod:`accelift` costs nothing and
:mod:`accelift.config` and :mod:`accelift.launch` work where torch is not installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelift.accelerator import Accelerator
    from accelift.dataclasses import (
        AutocastKwargs,
        DataLoaderConfiguration,
        DistributedDataParallelKwargs,
        DistributedType,
        GradientAccumulationPlugin,
        GradScalerKwargs,
        InitProcessGroupKwargs,
    )
    from accelift.random import set_seed
    from accelift.state import PartialState

__version__ = "0.1.0"

_HOMES = {
    "Accelerator": "accelift.accelerator",
    "AutocastKwargs": "accelift.dataclasses",
    "DataLoaderConfiguration": "accelift.dataclasses",
    "DistributedDataParallelKwargs": "accelift.dataclasses",
    "DistributedType": "accelift.dataclasses",
    "GradScalerKwargs": "accelift.dataclasses",
    "GradientAccumulationPlugin": "accelift.dataclasses",
    "InitProcessGroupKwargs": "accelift.dataclasses",
    "PartialState": "accelift.state",
    "set_seed": "accelift.random",
}

__all__ = [
    "Accelerator",
    "AutocastKwargs",
    "DataLoaderConfiguration",
    "DistributedDataParallelKwargs",
    "DistributedType",
    "GradScalerKwargs",
    "GradientAccumulationPlugin",
    "InitProcessGroupKwargs",
    "PartialState",
    "__version__",
    "set_seed",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
