"""Run plain PyTorch training scripts on one or many processes, computing the same.

The names here are loaded on first use, so that importing :mod:`accelift` costs nothing and
:mod:`accelift.config` and :mod:`accelift.launch` work where torch is not installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelift.accelerator import Accelerator
    from accelift.checkpoint.export import load_checkpoint_in_model
    from accelift.data_loader import skip_first_batches
    from accelift.dataclasses import (
        AutocastKwargs,
        DataLoaderConfiguration,
        DDPCommunicationHookType,
        DistributedDataParallelKwargs,
        DistributedType,
        GradientAccumulationPlugin,
        GradScalerKwargs,
        InitProcessGroupKwargs,
        ProjectConfiguration,
    )
    from accelift.launchers import debug_launcher, notebook_launcher
    from accelift.memory import find_executable_batch_size
    from accelift.profile import ProfileKwargs
    from accelift.random import set_seed, synchronize_rng_states
    from accelift.state import PartialState

__version__ = "0.1.0"

_HOMES = {
    "Accelerator": "accelift.accelerator",
    "AutocastKwargs": "accelift.dataclasses",
    "DDPCommunicationHookType": "accelift.dataclasses",
    "DataLoaderConfiguration": "accelift.dataclasses",
    "DistributedDataParallelKwargs": "accelift.dataclasses",
    "DistributedType": "accelift.dataclasses",
    "GradScalerKwargs": "accelift.dataclasses",
    "GradientAccumulationPlugin": "accelift.dataclasses",
    "InitProcessGroupKwargs": "accelift.dataclasses",
    "PartialState": "accelift.state",
    "ProfileKwargs": "accelift.profile",
    "ProjectConfiguration": "accelift.dataclasses",
    "debug_launcher": "accelift.launchers",
    "find_executable_batch_size": "accelift.memory",
    "load_checkpoint_in_model": "accelift.checkpoint.export",
    "notebook_launcher": "accelift.launchers",
    "set_seed": "accelift.random",
    "skip_first_batches": "accelift.data_loader",
    "synchronize_rng_states": "accelift.random",
}

__all__ = [
    "Accelerator",
    "AutocastKwargs",
    "DDPCommunicationHookType",
    "DataLoaderConfiguration",
    "DistributedDataParallelKwargs",
    "DistributedType",
    "GradScalerKwargs",
    "GradientAccumulationPlugin",
    "InitProcessGroupKwargs",
    "PartialState",
    "ProfileKwargs",
    "ProjectConfiguration",
    "__version__",
    "debug_launcher",
    "find_executable_batch_size",
    "load_checkpoint_in_model",
    "notebook_launcher",
    "set_seed",
    "skip_first_batches",
    "synchronize_rng_states",
]


# What `import accelerate` makes reachable, as in `accelerate.utils.set_seed`.
_MODULES = frozenset({"data_loader", "launchers", "logging", "state", "tracking", "utils"})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        from accelift.notoffered import stand_in

        return stand_in(name, __name__)
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
