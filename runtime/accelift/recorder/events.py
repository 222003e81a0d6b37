"""The file that a recording is written to, and where in the script something happens."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any


class Enough(BaseException):
    """Ends a script that has made as many optimizer steps as were asked for."""


class Events:
    """The events of one process, one JSON object a line, in the order in which they happen.

    Args:
        folder: where the file goes, which is called after the rank.
        script: the script, whose folder tells which code is the author's.
    """

    def __init__(self, folder: Path, script: Path) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.folder = folder
        self._project = f"{script.resolve().parent}{os.sep}"
        self._script = str(script.resolve())
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{self.rank}.jsonl").open("w", encoding="utf-8")
        self._noted: set[str] = set()

    def put(self, event: str, /, **data: Any) -> None:
        """Write an event."""
        if not self._file.closed:
            self._file.write(json.dumps({"event": event, **data}) + "\n")

    def put_once(self, event: str, key: str = "", /, **data: Any) -> None:
        """Write an event unless there was one of its kind and key."""
        if f"{event}/{key}" not in self._noted:
            self._noted.add(f"{event}/{key}")
            self.put(event, **data)
            self._file.flush()

    def flush(self) -> None:
        """Let what was put reach the file."""
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def place(self, frame: FrameType | None = None) -> str:
        """The innermost line of the author's code that is being run, as ``file.py:12``; empty if there is none."""
        frame = frame or sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if self.is_own(name):
                return f"{os.path.relpath(name, self._project)}:{frame.f_lineno}"
            frame = frame.f_back
        return ""

    def is_own(self, file: str) -> bool:
        """Whether a file is the author's code."""
        return file == self._script or (file.startswith(self._project) and "site-packages" not in file)
