"""Processes that work on files: they end when the one that started them does, however that ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Work = TypeVar("Work")
Done = TypeVar("Done")

_LOOK_EVERY = 0.5  # seconds


def each(work: Callable[[Work], Done], on: Iterable[Work], jobs: int, chunk: int = 1) -> Iterator[Done]:
    """What a function makes of several things, in their order, on several processes, which take `chunk` at a time."""
    warnings.simplefilter("ignore", DeprecationWarning)
    with ProcessPoolExecutor(jobs, initializer=_begin, initargs=(os.getpid(),)) as pool:
        try:
            yield from pool.map(work, on, chunksize=chunk)
        except BaseException:  # Ctrl-C, too: nobody waits for what is left
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _begin(parent: int) -> None:
    """What each process does first: Ctrl-C is for the parent, which ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: killed, it can end nobody."""
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    os._exit(1)
