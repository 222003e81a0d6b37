"""Saying who waits for whom when a collective operation takes too long, or breaks.

A thread of every process looks, about once a second, how long its process has been in a collective
operation, and whether another one calls the roll.  The process that has waited longest calls it,
collects the answers and prints one report for the whole job.  Ending the wait is left to the
backend's own timeout, just after the report; only where that does not come, and somebody is
missing, does the watchdog end the process.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.distributed import Store  # type: ignore[attr-defined]

from accelift.collective import Collective, process
from accelift.diagnosis import reports
from accelift.diagnosis.frames import place, place_of_error
from accelift.diagnosis.rollcall import Answer, RollCall
from accelift.peers import timeout

if TYPE_CHECKING:
    from accelift.state import PartialState

NOTE_AFTER = 60.0  # seconds of waiting that are worth a word
DEAD_AFTER = 5.0  # ... where one of the others has ended
_NOTHING, _NOTE, _ALARM, _END = range(4)  # what has been said of a wait


@dataclass(frozen=True)
class Schedule:
    """What happens after how many seconds of waiting.

    Attributes:
        limit: the backend gives up.
        alarm: the report, a little before.
        end: the process is ended, as the backend should have given up long ago.
        tick: the time between two looks.
        patience: the time for everybody to answer.
    """

    limit: float
    alarm: float
    end: float
    tick: float
    patience: float

    @classmethod
    def of(cls, limit: float) -> Schedule:
        """The schedule for a backend that gives up after ``limit`` seconds."""
        ahead = min(limit / 4, 15.0)
        tick = min(ahead / 8, 1.0)
        return cls(limit, limit - ahead, limit + max(limit / 4, 10.0), tick, 4 * tick)


class Wait(NamedTuple):
    """A stay in a collective operation; ``since`` tells it from all others."""

    operation: str
    since: float
    thread: int
    computes: bool


class Watchdog:
    """Watches this process, and answers for it.

    Args:
        state: the processes.
    """

    def __init__(self, state: PartialState) -> None:
        self._rank = state.process_index
        self._schedule = Schedule.of(timeout(state.collective_device))
        self._roll = RollCall(state, (_NOTE, _ALARM, _END))
        self._said = (0.0, _NOTHING)  # of which wait, and what
        self._broken = 0.0  # the wait that failed
        self._noted: set[str] = set()  # where this process was when something was said
        self._explained = threading.Event()
        self._busy_until = 0.0  # with a call of another process
        self._wake = threading.Event()
        self._stopping = False
        self._process = os.getpid()
        # nccl's operations return at once; whether they are done shows in what is queued behind them.
        self.follows = state.backend == "nccl"
        self._behind: Any = torch.cuda.Event() if self.follows else None  # type: ignore[no-untyped-call]
        self._queued: Wait | None = None
        self._thread = threading.Thread(target=self._watch, name="accelift-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        process.observer = self
        self._thread.start()

    def stop(self, how: str | None = None) -> None:
        """Stop watching, and tell the others that this process takes part in nothing more.

        Args:
            how: what it did; by default that its script has ended, or failed.
        """
        if self._stopping or os.getpid() != self._process:  # a fork has no thread, and must not speak for us
            return
        self._stopping = True
        if process.observer is self:
            process.observer = None
        self._wake.set()
        self._thread.join(self._schedule.patience + 1)
        if not self._thread.is_alive():
            self._roll.farewell(how or how_the_script_ended())

    def returned(self, collective: Collective) -> None:
        """Note what this process's device may still be at."""
        self._behind.record()
        self._queued = _wait_of(collective)

    def failed(self, collective: Collective, error: BaseException) -> None:
        """Have it explained, if the operation fails for what other processes did."""
        if not _is_about_others(error):
            return
        self._explained.clear()
        self._broken = collective.since
        self._wake.set()
        # Where another process explains it, this one must not end before that is done.
        self._explained.wait(self._schedule.patience + self._schedule.tick)

    def _watch(self) -> None:
        while not self._stopping:
            self._wake.wait(self._schedule.tick)
            self._wake.clear()
            if not self._stopping:
                self._look()

    def _look(self) -> None:
        wait = self._wait()
        called = self._roll.news()
        if called:
            self._answer_other(wait)
        if wait is None:
            return
        said = max([self._said[1] if self._said[0] == wait.since else _NOTHING, *called])
        due, why = self._due(wait)
        self._said = (wait.since, max(said, due))
        if due > said:
            self._say(wait, due, why)
        elif wait.since == self._broken and time.monotonic() > self._busy_until:
            self._explained.set()

    def _answer_other(self, wait: Wait | None) -> None:
        answer = _answer(wait)
        self._roll.answer(answer)
        self._noted.add(answer["where"])
        self._busy_until = time.monotonic() + self._schedule.patience

    def _say(self, wait: Wait, due: int, why: str) -> None:
        answer = _answer(wait)
        if due == _NOTE and answer["where"] in self._noted:
            return
        self._noted.add(answer["where"])
        if not self._roll.call(due):
            self._answer_other(wait)
            return
        answers = self._roll.collect(due, self._schedule.patience, answer)
        if due == _ALARM or reports.somebody_is_missing(answers):
            sys.stderr.write(reports.report(why, answers))
            sys.stderr.flush()
            if due == _END:
                os._exit(1)
        self._explained.set()

    def _wait(self) -> Wait | None:
        """The collective operation that this process is in, or that its device is still at."""
        current = process.current
        if current is not None:
            return _wait_of(current)
        queued = self._queued
        if queued is None or time.monotonic() - queued.since < min(NOTE_AFTER, self._schedule.alarm) / 2:
            return None  # asking a device is for when something may be wrong
        try:
            return None if self._behind.query() else queued
        except RuntimeError:  # while a graph is captured
            return None

    def _due(self, wait: Wait) -> tuple[int, str]:
        """What should have been said of a wait by now, and why."""
        schedule = self._schedule
        waited = time.monotonic() - wait.since
        if waited >= schedule.end and not wait.computes:
            return _END, f"a collective operation did not time out after {schedule.limit:g} s; ending its process"
        if wait.since == self._broken:
            return _ALARM, "a collective operation failed"
        if waited >= schedule.alarm:
            return _ALARM, f"a collective operation is about to time out, after {schedule.limit:g} s"
        if self._roll.ended and waited >= DEAD_AFTER:
            return _ALARM, "a process has ended while others wait for it"
        if waited >= NOTE_AFTER:
            return _NOTE, f"processes wait for others, for {schedule.limit:g} s at most"
        return _NOTHING, ""


def _wait_of(collective: Collective) -> Wait:
    return Wait(collective.operation, collective.since, collective.thread, collective.computes)


def _answer(wait: Wait | None) -> Answer:
    frames = sys._current_frames()
    if wait is None:
        return reports.elsewhere(place(frames.get(threading.main_thread().ident or 0)))
    return reports.waiting(wait.operation, place(frames.get(wait.thread)), time.monotonic() - wait.since)


def how_the_script_ended() -> str:
    """Whether the script, of which nothing is left to run, has failed, and where."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return "has ended its script"
    return f"failed with {type(error).__name__} at {place_of_error(error.__traceback__)}"


def _is_about_others(error: BaseException) -> bool:
    """Whether an error comes from the backend, which lost another process or waited too long for it."""
    if isinstance(error, getattr(dist, "DistError", ())):
        return True
    return isinstance(error, RuntimeError) and any(part in str(error) for part in ("gloo/transport", "NCCL"))


_watchdogs: WeakKeyDictionary[Store, Watchdog] = WeakKeyDictionary()


def watch(state: PartialState) -> None:
    """Watch this process of a job of several, until it leaves the process group or ends."""
    store = dist.distributed_c10d._get_default_store()
    if store not in _watchdogs:
        _watchdogs[store] = watchdog = Watchdog(state)
        watchdog.start()
        atexit.register(watchdog.stop)


def leave() -> None:
    """Stop watching, before this process leaves the process group."""
    for watchdog in list(_watchdogs.values()):
        watchdog.stop("has left the process group")
