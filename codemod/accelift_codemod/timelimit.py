"""A bound on how long one file may take, so that no script, however it is written, holds up all others."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

DEFAULT = 60.0  # seconds; public scripts take less than a second

_AGAIN = 1.0  # seconds until it is said again: what is raised in a destructor is lost


class TookTooLong(BaseException):
    """The time is up. Not an Exception: nothing that recovers from errors may catch it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """A block that is left when it has taken so many seconds of processor time; 0 is without end.

    What other processes do in the meantime does not count, so that a busy machine changes no result. Threads other than
    the main one, and systems that have no such timer, have no bound.

    Raises:
        TookTooLong: the time is up.
    """
    if not seconds or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN)
    try:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    finally:  # once more, as the time may have been up right there
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _stop(number: int, frame: FrameType | None) -> None:
    raise TookTooLong
