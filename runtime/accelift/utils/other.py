"""This and that."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import torch
from torch import nn

from accelift.checkpoint import save
from accelift.checkpoint.export import load_checkpoint_in_model
from accelift.config import LaunchConfig
from accelift.operations import wait_for_everyone
from accelift.ports import get_free_port, is_port_in_use
from accelift.state import PartialState
from accelift.unwrap import extract_model_from_parallel, is_compiled_module

__all__ = [
    "convert_bytes",
    "extract_model_from_parallel",
    "get_free_port",
    "get_pretty_name",
    "has_compiled_regions",
    "is_compiled_module",
    "is_port_in_use",
    "load",
    "load_checkpoint_in_model",
    "merge_dicts",
    "recursive_getattr",
    "save",
    "tqdm",
    "wait_for_everyone",
    "write_basic_config",
]


def tqdm(*args: Any, main_process_only: bool = True, **kwargs: Any) -> Any:
    """A progress bar of the library tqdm, on the main process of the job only.

    Args:
        args: those of ``tqdm.auto.tqdm``.
        main_process_only: ``False`` shows one for each process.
        kwargs: those of ``tqdm.auto.tqdm``.

    Raises:
        ImportError: if tqdm is not installed.
        ValueError: if the first argument is ``True`` or ``False``.
    """
    if args and isinstance(args[0], bool):
        raise ValueError("tqdm takes what to iterate over first; give main_process_only by name.")
    try:
        bar: Any = import_module("tqdm.auto").tqdm
    except ImportError:
        raise ImportError("tqdm is not installed; install it with `pip install tqdm`.") from None
    elsewhere = main_process_only and not PartialState().is_main_process
    return bar(*args, **{**kwargs, "disable": kwargs.get("disable", False) or elsewhere})


def load(f: str | os.PathLike[str] | IO[bytes], map_location: Any = None, **kwargs: Any) -> Any:
    """``torch.load``, with ``weights_only=True`` unless it is given."""
    return torch.load(f, map_location=map_location, **{"weights_only": True, **kwargs})


def write_basic_config(
    mixed_precision: str = "no", save_location: str | os.PathLike[str] = "launch.yaml"
) -> Path | bool:
    """Write the launch configuration of this machine, for ``accelift launch --config_file``.

    Args:
        mixed_precision: ``"no"``, ``"fp16"`` or ``"bf16"``.
        save_location: the file.

    Returns:
        The file, or ``False`` if there was one, which is left as it is.

    Raises:
        accelift.config.ConfigError: for another precision.
        OSError: if it cannot be written.
    """
    from accelift.launch.devices import visible_gpus

    path = Path(save_location)
    if path.exists():
        return False
    gpus = visible_gpus()
    config = LaunchConfig(
        distributed_type="MULTI_GPU" if gpus > 1 else "NO",
        mixed_precision=mixed_precision,
        num_processes=max(gpus, 1),
        use_cpu=not gpus,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config.to_yaml(), encoding="utf-8")
    return path


def get_pretty_name(obj: Any) -> str:
    """The name of a function, class or module, or of the class of anything else."""
    for named in (obj, type(obj)):
        for attribute in ("__qualname__", "__name__"):
            if hasattr(named, attribute):
                return str(getattr(named, attribute))
    return str(obj)


def merge_dicts(source: Mapping[Any, Any], destination: MutableMapping[Any, Any]) -> MutableMapping[Any, Any]:
    """Put what is in ``source`` into ``destination``, and dicts into the dicts there."""
    for key, value in source.items():
        there = destination.get(key)
        if isinstance(value, Mapping):
            destination[key] = merge_dicts(value, there if isinstance(there, MutableMapping) else {})
        else:
            destination[key] = value
    return destination


def recursive_getattr(obj: Any, attr: str) -> Any:
    """``recursive_getattr(x, "a.b")`` is ``x.a.b``."""
    return reduce(getattr, attr.split("."), obj)


def convert_bytes(size: float) -> str:
    """A number of bytes in the unit that fits: ``1536`` is ``"1.5 KB"``."""
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if size < 1024:
            return f"{round(size, 2)} {unit}"
        size /= 1024
    return f"{round(size, 2)} PB"


def has_compiled_regions(module: nn.Module) -> bool:
    """Whether ``torch.compile`` was applied to some part of the model, but not to the whole."""
    return not is_compiled_module(module) and any(map(is_compiled_module, module.modules()))
