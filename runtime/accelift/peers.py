"""What the processes of a job have besides their backend: a store of small notes, and a timeout."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

_TORCHS_TIMEOUT = 1800.0  # seconds; where a group does not tell its own
_POLL_FIRST, _POLL_LAST = 0.0002, 0.05  # seconds between two looks into the store


class Lost(Exception):
    """The store is out of reach: the process that kept it has ended."""


class Board:
    """Notes that the processes leave for each other, on a connection of its own.

    A connection serves one thread at a time.  No call waits for another process.

    Raises:
        Lost: in every method, if there is no store (any more).
    """

    def __init__(self, name: str) -> None:
        store = dist.distributed_c10d._get_default_store()
        self._line = _line_to(store)
        with self._reaching():
            try:
                # Torch's own threads use the store too, and wait in it.
                own = store.clone()  # type: ignore[attr-defined]
            except (AttributeError, NotImplementedError):  # before torch 2.5
                own = store
        self._store = PrefixStore(f"accelift/{name}", own)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        if self._line is not None and not self._line.is_open():
            raise Lost
        try:
            yield
        except RuntimeError as error:
            raise Lost from error

    def count(self, name: str, more: int = 0) -> int:
        """A counter that all processes share, after adding to it."""
        with self._reaching():
            return int(self._store.add(name, more))

    def swap(self, name: str, known: str, new: str) -> str:
        """Replace a text by another if it still is what was known, ``""`` if nothing; what it is after that."""
        with self._reaching():
            return self._store.compare_set(name, known, new).decode()

    def texts(self, names: list[str]) -> list[str]:
        """Several texts or counters, which have been there before."""
        with self._reaching():
            return [value.decode() for value in self._store.multi_get(names)]

    def pin(self, name: str, note: Any) -> None:
        """Leave a note, of what JSON can tell."""
        with self._reaching():
            self._store.set(name, json.dumps(note))

    def read(self, name: str) -> Any:
        """A note; ``None`` if there is none."""
        with self._reaching():
            return json.loads(self._store.get(name)) if self._store.check([name]) else None

    def remove(self, name: str) -> None:
        """Take a note away."""
        with self._reaching():
            self._store.delete_key(name)


class _Line:
    """An idle connection to the store, by whose end one sees that the store is gone.

    Torch, asked for something by then, writes a warning of many lines to stderr.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setblocking(False)

    def __del__(self) -> None:
        self._socket.close()

    def is_open(self) -> bool:
        """Whether the store is still there, as far as is known here."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False


_lines: WeakKeyDictionary[Store, _Line] = WeakKeyDictionary()


def _line_to(store: Store) -> _Line | None:
    """The line to a store; ``None`` if it is none that runs in another process."""
    if store not in _lines:
        server = store
        while isinstance(server, PrefixStore):
            server = server.underlying_store
        if not isinstance(server, TCPStore):
            return None
        try:
            _lines[store] = _Line(socket.create_connection((server.host, server.port)))
        except OSError as error:
            raise Lost from error
    return _lines[store]


class Pause:
    """Longer and longer pauses between looks at the board."""

    def __init__(self) -> None:
        self._seconds = _POLL_FIRST

    def __call__(self) -> None:
        time.sleep(self._seconds)
        self._seconds = min(2 * self._seconds, _POLL_LAST)


def timeout(device: torch.device) -> float:
    """Seconds after which the backend gives a collective operation up.

    Args:
        device: where the backend's tensors are.
    """
    backend = dist.distributed_c10d._get_default_group()._get_backend(device)
    limit = getattr(getattr(backend, "options", None), "_timeout", None)
    return _TORCHS_TIMEOUT if limit is None else float(limit.total_seconds())
