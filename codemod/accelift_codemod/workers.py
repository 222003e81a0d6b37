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
from itertools import islice
from typing import TypeVar

Work = TypeVar("Work")
Done = TypeVar("Done")

_LOOK_EVERY = 0.5  # seconds


def each(work: Callable[[Work], Done], on: Iterable[Work], jobs: int, chunk: int = 1) -> Iterator[Done]:
    """What a function makes of several things, in their order, on several processes, which take `chunk` at a time."""
    warnings.simplefilter("ignore", DeprecationWarning)
    with ProcessPoolExecutor(jobs, initializer=_begin, initargs=(os.getpid(),)) as pool:
        try:
            # `pool.map` would cancel what is left when it is interrupted: the pool, whose processes end meanwhile, then
            # fails to say so of what is cancelled, and waits for ever
            for done in [pool.submit(_all, work, some) for some in _pieces(on, chunk)]:
                yield from done.result()
        except BaseException:  # Ctrl-C, too: nobody waits for what is left
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _pieces(on: Iterable[Work], size: int) -> Iterator[tuple[Work, ...]]:
    left = iter(on)
    while piece := tuple(islice(left, size)):
        yield piece


def _all(work: Callable[[Work], Done], on: tuple[Work, ...]) -> list[Done]:
    return [work(one) for one in on]


def _begin(parent: int) -> None:
    """What each process does first: Ctrl-C is for the parent, which ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: killed, it can end nobody."""
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    os._exit(1)
