"""A tracker that needs nothing: one line of JSON for each call of ``log``."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from accelift.tracking.base import GeneralTracker, on_main_process
from accelift.tracking.values import plain


class JSONLTracker(GeneralTracker):
    """Writes ``<logging_dir>/<run_name>.jsonl``, which only ever grows.

    A configuration is a line ``{"time": ..., "config": {...}}``, a call of ``log`` is a line
    ``{"step": ..., "time": ..., "loss": ...}`` with the time in seconds since 1970; values that
    are called ``step`` or ``time`` win over these.  Nested values are joined by a slash, as in
    ``"eval/loss"``.  Floats that are not finite, which JSON lacks, are the texts ``"NaN"``,
    ``"Infinity"`` and ``"-Infinity"``; objects that JSON lacks are written as ``str`` shows them.

    Every line is handed to the operating system whole before ``log`` returns, so a process that is
    killed loses none.  A run that continues, or has the same name, appends.

    Args:
        run_name: the name of the file, without its ending.
        logging_dir: the folder, which is made where it is missing.

    Raises:
        OSError: naming the file, if it cannot be written.
    """

    name = "jsonl"
    requires_logging_directory = True

    def __init__(self, run_name: str, logging_dir: str | os.PathLike[str]) -> None:
        super().__init__()
        self.path = Path(logging_dir, f"{run_name}.jsonl")

    @property
    def tracker(self) -> Path:
        """The file."""
        return self.path

    @on_main_process
    def start(self) -> None:
        """Make the folder; in a file that is there, cut off a last line that was never finished."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                file.seek(0)
                file.truncate(sum(len(line) for line in file if line.endswith(b"\n")))
        except OSError as error:
            raise self._failed(error) from error

    @on_main_process
    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Write a line with the configuration."""
        self._append({"time": time.time(), "config": plain(values)})

    @on_main_process
    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Write a line with the values; ``kwargs`` are not used."""
        line = {"step": plain(step), "time": time.time()}
        self._append(line | dict(_flat(plain(values))))

    def _append(self, record: dict[str, Any]) -> None:
        line = (json.dumps(record) + "\n").encode()
        try:
            with self.path.open("ab", buffering=0) as file:
                end = file.tell()
                if file.write(line) < len(line):
                    file.truncate(end)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> OSError:
        return OSError(error.errno, f"cannot log to {self.path}: {error.strerror}")


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}/")
        else:
            yield prefix + name, value
