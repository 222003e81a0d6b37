"""Recording what a script prints, logs, saves and writes."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from accelift.recorder.chance import Chance
from accelift.recorder.events import Events
from accelift.recorder.models import Models
from accelift.recorder.values import describe

_WRITES = os.O_WRONLY | os.O_RDWR
# What Python and the compilers of torch keep for later, with locks of their own.
_CACHES = ("__pycache__", f"{os.sep}torchinductor_", f"{os.sep}.triton{os.sep}")


class Outputs:
    """Records lines on stdout, log records, what ``torch.save`` saved and which files were opened to write.

    Args:
        events: where to.
        chance: knows whether a training step is under way.
        models: know their mode.
        root: a folder whose links lead to files that must stay as they are; a file is copied into the place of its link
            before the script writes to it.
    """

    def __init__(self, events: Events, chance: Chance, models: Models, root: Path | None = None) -> None:
        self._events = events
        self._chance = chance
        self._models = models
        self._root = None if root is None else f"{root.resolve()}{os.sep}"
        self._temporary = tempfile.gettempdir()  # not later: it opens a file, which the hook would hear of
        self._line = ""
        self._begun: dict[str, None] = {}  # where what there is of this line has been written
        self._saving = False
        self._logging = False

    def install(self) -> None:
        """Begin to record."""
        write = sys.stdout.write

        def recorded(text: str) -> int:
            self._printed(text)
            return write(text)

        sys.stdout.write = recorded  # type: ignore[method-assign]
        handle = logging.Logger.callHandlers

        def logged(logger: logging.Logger, record: logging.LogRecord) -> None:
            place = self._events.place()
            if place and _emits(logger, record.levelno):
                self._put_line(record.getMessage(), place, by_library=not self._events.is_own(record.pathname))
            self._logging = True
            try:
                handle(logger, record)
            finally:
                self._logging = False

        logging.Logger.callHandlers = logged  # type: ignore[method-assign, assignment]
        save = torch.save

        def saved(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            file = f if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
            path = self._final(file) if isinstance(file, (str, os.PathLike)) else None
            if path is not None:
                self._written(os.path.abspath(path))  # noqa: PTH100
            self._saved(obj, path)
            self._saving = True
            try:
                save(obj, f, *args, **kwargs)
            finally:
                self._saving = False

        torch.save = saved
        sys.addaudithook(self._audit)

    def _printed(self, text: str) -> None:
        if self._logging:
            return
        self._line += text
        if text:
            place = self._events.place()
            self._begun.pop(place, None)  # the last one comes last
            self._begun[place] = None
        if "\n" in self._line or "\r" in self._line:
            *lines, self._line = self._line.replace("\r", "\n").split("\n")
            *others, place = self._begun
            for line in lines:
                if line.strip():
                    self._put_line(line, place, others)
                others = []
            self._begun = {place: None} if self._line else {}

    def _put_line(self, text: str, place: str, others: Sequence[str] = (), by_library: bool = False) -> None:
        told = {"text": text, "place": place, "others": [*others], "by_library": by_library}
        self._events.put("line", **told, trains=self._chance.trains, mode=self._models.mode())

    def _saved(self, obj: Any, path: str | None) -> None:
        self._events.put("save", path=path, place=self._events.place(), values=dict(_tensors(obj, "")))
        self._events.flush()

    def _final(self, f: str | os.PathLike[str]) -> str:
        """Where a file ends up which is written beside its place, in a folder ``.<name>.<random>``."""
        path = Path(f).absolute()
        if path.parent.name.startswith(f".{path.name}."):
            path = path.parent.parent / path.name
        return os.path.relpath(path)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or self._saving or not isinstance(args[0], (str, bytes)):
            return
        _, mode, flags = args
        writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITES)
        if writes:
            self._written(os.path.abspath(os.fsdecode(args[0])))  # noqa: PTH100  (links must stay links)

    def _written(self, path: str) -> None:
        """Note a file that the author's code is about to write, and do not let it write to what a link leads to."""
        if path.startswith(("/dev/", "/proc/", str(self._events.folder))) or any(cache in path for cache in _CACHES):
            return
        if self._root is not None and path.startswith(self._root) and os.path.islink(path):  # noqa: PTH114
            self._own_copy(path)
        if place := self._events.place():
            real = os.path.realpath(path)
            outside = self._root is not None and not real.startswith((self._root, self._temporary))
            shown = path if outside else os.path.relpath(path)
            self._events.put_once("write", path, path=shown, place=place, outside=outside)

    def _own_copy(self, path: str) -> None:
        self._saving = True  # what is opened here is our own business
        try:
            copy = f"{path}.copy"
            shutil.copyfile(path, copy)
            Path(copy).replace(path)
        finally:
            self._saving = False


def _emits(logger: logging.Logger | None, level: int) -> bool:
    """Whether a record of a level goes anywhere."""
    handlers: list[logging.Handler] = []
    while logger is not None:
        handlers += logger.handlers
        logger = logger.parent if logger.propagate else None
    levels = [one.level for one in handlers if not isinstance(one, logging.NullHandler)]
    return level >= (min(levels) if levels else logging.WARNING)


def _tensors(data: Any, key: str) -> Iterator[tuple[str, Any]]:
    """The tensors and numbers of nested containers, by their path in them."""
    if isinstance(data, torch.nn.Module):
        data = data.state_dict()
    if isinstance(data, torch.Tensor):
        yield key, {"shape": list(data.shape), **describe(data)}
    elif isinstance(data, Mapping):
        for name, item in data.items():
            yield from _tensors(item, f"{key}.{name}" if key else str(name))
    elif isinstance(data, (list, tuple)):
        for index, item in enumerate(data):
            yield from _tensors(item, f"{key}[{index}]")
    elif isinstance(data, (bool, int, float, str)) or data is None:
        yield key, repr(data)
    else:
        yield key, type(data).__name__
