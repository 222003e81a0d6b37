"""How far a long run is, on a terminal."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

_FROM = 50  # files


def progress(doing: str, count: int, quiet: bool) -> Any:
    """A context that gives what is to be called after every file: it moves a bar on stderr, if that is a terminal and
    there are many files."""
    if count < _FROM or not sys.stderr.isatty() or quiet:
        return nullcontext(lambda: None)
    return _Bar(doing, count)


class _Bar:
    """rich's progress bar."""

    def __init__(self, doing: str, count: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self.progress = Progress(console=Console(stderr=True), transient=True)
        self.doing = doing
        self.count = count

    def __enter__(self) -> Any:
        self.progress.start()
        task = self.progress.add_task(self.doing, total=self.count)
        return lambda: self.progress.advance(task)

    def __exit__(self, *_: object) -> None:
        self.progress.stop()
