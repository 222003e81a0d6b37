"""Collective operations under way: the watchdog knows of them, and debug mode compares them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from accelift.state import PartialState


class DistributedOperationException(Exception):
    """The processes do not enter the same operation with what goes together."""


class Observer(Protocol):
    """Who wants to know how collective operations go on.

    Attributes:
        follows: whether also of those that return.
    """

    follows: bool

    def returned(self, collective: Collective) -> None:
        """An operation has returned."""
        ...

    def failed(self, collective: Collective, error: BaseException) -> None:
        """An operation is about to fail."""
        ...


class Collective:
    """A context in which this process, one of several, waits for the others.

    Where contexts are nested the outermost is what the user called, and is what the watchdog
    tells of.  In debug mode each of them is compared with those of the other processes first.

    Args:
        operation: what the user calls it.
        state: the processes.
        brings: describes what this process brings, which must be the same everywhere.
        compared: ``False`` for what not every process has to enter, debug mode or not.
        computes: whether it also computes, and so may take long though nobody is missing.

    Raises:
        DistributedOperationException: in debug mode, if the processes enter different operations.
    """

    __slots__ = ("_brings", "_compared", "computes", "operation", "since", "state", "thread")

    def __init__(
        self,
        operation: str,
        state: PartialState,
        brings: Callable[[], str] | None = None,
        compared: bool = True,
        computes: bool = False,
    ) -> None:
        self.operation = operation
        self.state = state
        self.computes = computes
        self._brings = brings
        self._compared = compared

    def __enter__(self) -> None:
        if process.current is None:
            self.thread = get_ident()
            self.since = time.monotonic()
            process.current = self
        if self._compared and self.state.debug:
            try:
                self._compare()
            except BaseException as error:
                self.__exit__(type(error), error, None)
                raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if process.current is not self:
            return
        observer = process.observer
        try:
            if observer is None:
                return
            if error is not None:
                observer.failed(self, error)
            elif observer.follows:
                observer.returned(self)
        finally:
            process.current = None

    def _compare(self) -> None:
        from accelift.diagnosis import agreement

        brings = "" if self._brings is None else self._brings()
        agreement.compare(self.operation, brings, agreement.of(self.state))


class _Process:
    """What this process is at.  Not in attributes of a class, where changing them takes Python long.

    Attributes:
        current: the operation that it is in.
        observer: who wants to know.
    """

    __slots__ = ("current", "observer")

    def __init__(self) -> None:
        self.current: Collective | None = None
        self.observer: Observer | None = None


process = _Process()


def describe(data: Any, skip_dim: int | None = None) -> str:
    """``{'x': float32 (3, 4)}``: the types and shapes of tensors in containers.

    Args:
        data: tensors, containers, anything.
        skip_dim: a dimension that may differ from process to process.
    """
    if isinstance(data, Tensor):
        sizes = list(map(str, data.shape))
        if skip_dim is not None and -data.dim() <= skip_dim < data.dim():
            sizes[skip_dim] = "*"
        return f"{str(data.dtype).removeprefix('torch.')} ({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    if isinstance(data, Mapping):
        return "{" + ", ".join(f"{key!r}: {describe(item, skip_dim)}" for key, item in data.items()) + "}"
    if isinstance(data, (list, tuple)):
        return f"[{', '.join(describe(item, skip_dim) for item in data)}]"
    return type(data).__name__
