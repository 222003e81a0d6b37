"""Which trackers there are, and which of them ``log_with`` asks for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

from accelift.dataclasses import LoggerType
from accelift.packages import is_installed
from accelift.tracking.base import GeneralTracker

_BUILT_IN = {
    "jsonl": "JSONLTracker",
    "tensorboard": "TensorBoardTracker",
    "wandb": "WandBTracker",
}
_REGISTERED: dict[str, type[GeneralTracker]] = {}


def register_tracker_class(tracker_class: type[GeneralTracker]) -> None:
    """Let ``log_with`` ask for trackers of a class by its ``name``.

    They are made with the project's name, the logging directory if they require one, and what
    ``init_kwargs`` has for them.

    Raises:
        ValueError: if it is no class of trackers, or lacks ``name`` or
            ``requires_logging_directory``.
    """
    if not (isinstance(tracker_class, type) and issubclass(tracker_class, GeneralTracker)):
        raise ValueError(f"register_tracker_class takes a class derived from GeneralTracker, not {tracker_class!r}.")
    for name in ("name", "requires_logging_directory"):
        if not hasattr(tracker_class, name):
            raise ValueError(f"{tracker_class.__name__} cannot be registered: give the class an attribute {name}.")
    _REGISTERED[tracker_class.name] = tracker_class


def tracker_class(name: str) -> type[GeneralTracker]:
    """The class of the trackers of this name.

    Raises:
        ValueError: naming those there are.
    """
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name not in _BUILT_IN:
        offered = ", ".join([*_BUILT_IN, *_REGISTERED])
        raise ValueError(
            f'Accelerator(log_with="{name}") is not offered: choose from {offered} and all, or give an instance '
            "of your own subclass of GeneralTracker."
        )
    found: type[GeneralTracker] = getattr(import_module("accelift.tracking"), _BUILT_IN[name])
    return found


def get_available_trackers() -> list[str]:
    """The names of the trackers whose packages are installed."""
    return [name for name in (*_BUILT_IN, *_REGISTERED) if _is_installed(tracker_class(name))]


def _is_installed(kind: type[GeneralTracker]) -> bool:
    return not kind.packages or any(map(is_installed, kind.packages))


def filter_trackers(
    log_with: str | GeneralTracker | Sequence[str | GeneralTracker] | None,
    logging_dir: str | os.PathLike[str] | None = None,
) -> list[str | GeneralTracker]:
    """What ``log_with`` asks for, each tracker once.

    Args:
        log_with: names (a :class:`LoggerType` is one), trackers, or several of these; ``"all"`` is
            every tracker that is installed and, if it requires one, has a logging directory.
        logging_dir: the folder for trackers that require one.

    Raises:
        ImportError: if the package of a tracker is not installed.
        TypeError: if there is neither a name nor a tracker.
        ValueError: for a tracker that does not exist, or that lacks a logging directory.
    """
    asked = [] if log_with is None else [log_with] if isinstance(log_with, (str, GeneralTracker)) else list(log_with)
    wanted: list[str | GeneralTracker] = []
    for one in asked:
        if isinstance(one, GeneralTracker):
            wanted.append(one)
        elif not isinstance(one, str):
            raise TypeError(f"log_with takes names of trackers and trackers, not a {type(one).__name__}.")
        elif one == LoggerType.ALL:
            names = get_available_trackers()
            wanted += [name for name in names if logging_dir or not tracker_class(name).requires_logging_directory]
        else:
            wanted.append(_checked(str(one), logging_dir))
    return list(dict.fromkeys(wanted))


def _checked(name: str, logging_dir: str | os.PathLike[str] | None) -> str:
    kind = tracker_class(name)
    if not _is_installed(kind):
        raise ImportError(
            f'Accelerator(log_with="{name}") needs the package {" or ".join(kind.packages)}: '
            f"pip install {kind.packages[0]}."
        )
    if kind.requires_logging_directory and not logging_dir:
        raise ValueError(f'Accelerator(log_with="{name}") needs a folder to write to: give it project_dir="...".')
    return name
