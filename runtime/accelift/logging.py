"""Logging on several processes: once, everywhere, or one process after the other."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from accelift import environment
from accelift.state import PartialState

if TYPE_CHECKING:
    Adapter = logging.LoggerAdapter[logging.Logger]
else:
    Adapter = logging.LoggerAdapter

# What was said by warning_once, and by which logger.
_said: set[tuple[str, str]] = set()


class MultiProcessAdapter(Adapter):
    """A logger whose methods take two arguments more.

    ``main_process_only=True``, the default, logs on the main process of the job only.
    ``in_order=True`` logs on every process, one after the other; every process must make the call.
    Before there is an Accelerator it goes by the variables that the launcher set.
    """

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        """Log a message; see :class:`logging.Logger` and the class.

        Raises:
            RuntimeError: for ``in_order=True`` without an Accelerator or a PartialState.
        """
        main_process_only = kwargs.pop("main_process_only", True)
        in_order = kwargs.pop("in_order", False)
        rank, count = self._place(in_order)
        enabled = self.isEnabledFor(level)
        if enabled:
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # the caller is who called this method
            if count > 1 and (in_order or not main_process_only):
                msg = f"[RANK {rank}] {msg}"
        if not in_order:
            if enabled and (rank == 0 or not main_process_only):
                self.logger.log(level, msg, *args, **kwargs)
            return
        for turn in range(count):
            if enabled and turn == rank:
                self.logger.log(level, msg, *args, **kwargs)
            # Also where the level is off: it may be on elsewhere.
            PartialState().wait_for_everyone()

    def warning_once(self, msg: object, *args: Any, **kwargs: Any) -> None:
        """Log a warning, unless this logger did so before."""
        told = (self.logger.name, str(msg) % args if args else str(msg))
        if told not in _said:
            _said.add(told)
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            self.log(logging.WARNING, msg, *args, **kwargs)

    def _place(self, in_order: bool) -> tuple[int, int]:
        """The index of this process, and how many there are."""
        if PartialState._shared:
            state = PartialState()
            return state.process_index, state.num_processes
        if in_order:
            raise RuntimeError("logging in_order=True needs an Accelerator() or a PartialState() first.")
        return int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)


def get_logger(name: str, log_level: str | int | None = None) -> MultiProcessAdapter:
    """The logger of a name, with the arguments of :class:`MultiProcessAdapter`.

    Args:
        name: usually ``__name__``.
        log_level: what to log, ``"INFO"`` for instance; by default what the environment variable
            ``ACCELERATE_LOG_LEVEL`` says, if it is set.

    Raises:
        ValueError: if there is no such level.
    """
    logger = logging.getLogger(name)
    level = environment.setting("LOG_LEVEL") if log_level is None else log_level
    if level is not None:
        try:
            logger.setLevel(level.upper() if isinstance(level, str) else level)
        except ValueError:
            raise ValueError(f"there is no log level {level!r}; say DEBUG, INFO, WARNING, ERROR or CRITICAL.") from None
    return MultiProcessAdapter(logger, {})
