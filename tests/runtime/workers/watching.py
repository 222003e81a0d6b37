"""What the watchdog says while processes wait for one that comes late, and that it lets them go on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelift import PartialState, utils
from accelift.collective import Collective
from accelift.diagnosis import watchdog
from accelift.diagnosis.rollcall import RollCall
from runtime_checks import Checks, accelerator, raises
from torch import nn
from torch.utils.data import DataLoader

check = Checks()
acc = accelerator()
RANK, WORLD = acc.process_index, acc.num_processes
LAST = WORLD - 1
FILE = "tests/runtime/workers/watching.py"
OTHERS = {2: "rank 0", 3: "ranks 0, 1"}[WORLD]
DOG = next(iter(watchdog._watchdogs.values()))
USUAL = DOG._schedule
DOG._schedule = replace(USUAL, tick=0.05, patience=6.0)
PATIENCE = 30.0  # seconds, for a report to come


def report(number: int) -> Path:
    return Path(f"{sys.argv[1]}.said.{number}")


class Recording:
    """Stands in for stderr, of all processes together, for the time of a check."""

    count = 0

    def __enter__(self) -> Recording:
        Recording.count += 1
        self.path = report(Recording.count)
        self.stderr, sys.stderr = sys.stderr, self.path.open("a")
        acc.wait_for_everyone()
        return self

    def __exit__(self, *exception: Any) -> None:
        sys.stderr.close()
        sys.stderr = self.stderr

    @property
    def text(self) -> str:
        return self.path.read_text()

    def awaits(self, part: str) -> None:
        """Wait until something has been said."""
        until = time.monotonic() + PATIENCE
        while part not in self.text:
            assert time.monotonic() < until, f"{part!r} never came: {self.text}"
            time.sleep(0.02)


def late(seen: Recording, part: str) -> None:
    """What a process does that is late, until that was said of it."""
    seen.awaits(part)


def lines(text: str) -> list[str]:
    """What was said, without seconds."""
    return [line.partition(", for")[0] for line in text.splitlines()]


def alarm_after(seconds: float, note: float = 60.0) -> None:
    DOG._schedule = replace(DOG._schedule, alarm=seconds)
    watchdog.NOTE_AFTER = note


@check
def who_waits_where_and_who_is_elsewhere() -> None:
    alarm_after(1.0)
    with Recording() as seen:
        if RANK == LAST:
            late(seen, f"rank {LAST}: at ")
        gathered = acc.gather(torch.tensor([RANK]))
        assert gathered.tolist() == list(range(WORLD)), "it should have gone on"
        waiting = sys._getframe().f_lineno - 2
        alarm_after(USUAL.alarm)
        acc.wait_for_everyone()
        said, *of = lines(seen.text)
        assert said == "accelift: a collective operation is about to time out, after 40 s:", seen.text
        site = f"{FILE}:{waiting} in who_waits_where_and_who_is_elsewhere"
        assert of[0] == f"  {OTHERS}: waiting in gather at {site}"
        assert of[1].startswith(f"  rank {LAST}: at {FILE}:") and of[1].endswith((" in awaits", " in text"))
        assert len(of) == 2, f"there should have been one report: {seen.text}"


def operations() -> list[tuple[str, Callable[[], Any]]]:
    """All that processes wait in, and what it is called."""
    model = acc.prepare(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    shuffled = acc.prepare(DataLoader(torch.arange(8.0), batch_size=2, shuffle=True))  # type: ignore[arg-type]
    plain = acc.prepare(nn.Linear(2, 2))
    return [
        ("reduce", lambda: acc.reduce(torch.ones(1))),
        ("broadcast", lambda: acc.broadcast(torch.ones(1))),
        ("gather_object", lambda: utils.gather_object([RANK])),
        ("broadcast_object_list", lambda: utils.broadcast_object_list([RANK])),
        ("pad_across_processes", lambda: acc.pad_across_processes(torch.ones(RANK))),
        ("gather_for_metrics", lambda: acc.gather_for_metrics(torch.ones(1))),
        ("check_trigger", acc.check_trigger),
        ("wait_for_everyone", acc.wait_for_everyone),
        ("backward", lambda: acc.backward(plain(torch.ones(1, 2)).sum())),
        ("the forward of Sequential", lambda: model(torch.ones(4, 2))),
        ("the loop over a prepared loader", lambda: list(shuffled)),
        ("prepare", lambda: acc.prepare(nn.Linear(3, 3))),
        ("main_process_first", lambda: acc.main_process_first().__enter__()),
    ]


@check
def all_that_processes_wait_in() -> None:
    for name, operation in operations():
        alarm_after(0.2)
        with Recording() as seen:
            if RANK == 0:
                late(seen, f": waiting in {name} at ")
            operation()
            if name == "main_process_first" and RANK == 0:
                acc.reduce(torch.tensor(1), "min")  # what the end of the block does
            alarm_after(USUAL.alarm)
            acc.wait_for_everyone()


@check
def notes_and_alarms() -> None:
    with Recording() as seen:
        for alarm, said in ((USUAL.alarm, "wait for others"), (1.0, "about to time out")):
            alarm_after(alarm, note=0.5)  # a second note, of the same place, is not needed
            if RANK == LAST:
                late(seen, said)
            acc.wait_for_everyone()
        alarm_after(USUAL.alarm)
        acc.wait_for_everyone()
        assert [line for line in lines(seen.text) if line.startswith("accelift")] == [
            "accelift: processes wait for others",
            "accelift: a collective operation is about to time out, after 40 s:",
        ], seen.text


@check
def nobody_is_missing() -> None:
    alarm_after(USUAL.alarm, note=1.0)
    with Recording() as seen:
        with Collective("backward", acc.state, computes=True):
            time.sleep(1.5)
            acc.wait_for_everyone()
        acc.wait_for_everyone()
        assert seen.text == "", "all of them compute"


@check
def different_operations() -> None:
    alarm_after(1.0)
    with Recording() as seen:
        if RANK == LAST:
            with Collective("gather", acc.state):
                seen.awaits("waiting in gather")
        else:
            with Collective("reduce", acc.state):
                seen.awaits("waiting in gather")
        alarm_after(USUAL.alarm)
        acc.wait_for_everyone()
        told = {line.strip()[:6]: line.partition(" at ")[0].split()[-1] for line in lines(seen.text)[1:]}
        assert told.pop(f"rank {LAST}") == "gather" and set(told.values()) == {"reduce"}, seen.text


LOST = "[/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:36037."


@check
def operations_that_break() -> None:
    alarm_after(USUAL.alarm)
    with Recording() as seen:
        if RANK == 0:
            with raises(RuntimeError, "Connection closed"), Collective("gather", acc.state):
                raise RuntimeError(LOST)
        seen.awaits("rank 0: waiting in gather at ")
        acc.wait_for_everyone()
        assert lines(seen.text)[0] == "accelift: a collective operation failed:", seen.text
        assert f"rank {LAST}: at {FILE}:" in seen.text or f"ranks 1, {LAST}: at {FILE}:" in seen.text, seen.text


@check
def errors_of_the_script_itself() -> None:
    with Recording() as seen:
        with raises(TypeError, "gather works on"):
            acc.gather("text")
        with raises(RuntimeError, "mine"), Collective("backward", acc.state):
            raise RuntimeError("mine")
        acc.wait_for_everyone()
        assert seen.text == ""


@check
def devices_that_are_behind() -> None:
    """With nccl an operation returns at once; an event behind it tells whether it is done."""

    class Event:
        pending = False

        def record(self) -> None:
            self.pending = True

        def query(self) -> bool:
            return not self.pending

    alarm_after(1.0)
    DOG._behind = event = Event()
    DOG.follows = True
    try:
        with Recording() as seen:
            with Collective("gather", acc.state):
                pass
            seen.awaits(": waiting in gather at ")
            event.pending = False
            alarm_after(USUAL.alarm)
            acc.wait_for_everyone()
            assert seen.text.count("accelift:") == 1, seen.text
    finally:
        DOG._behind = DOG._queued = None
        DOG.follows = False


@check
def one_of_those_who_call_at_once_is_heard() -> None:
    roll = RollCall(acc.state, (9,))
    acc.wait_for_everyone()
    called = acc.gather(torch.tensor([roll.call(9)]))
    assert called.sum() == 1, f"who has called: {called}"
    assert roll.news() == [], "the others came too late; taken for a second call, it would hush who is to report"
    acc.wait_for_everyone()
    assert RANK != LAST or roll.call(9)
    acc.wait_for_everyone()
    assert roll.news() == ([] if RANK == LAST else [9])


@check
def debug_mode_waits_too() -> None:
    alarm_after(0.3)
    PartialState().debug = True
    with Recording() as seen:
        if RANK == 0:
            late(seen, "waiting in reduce")
        acc.reduce(torch.ones(1))
        PartialState().debug = False
        alarm_after(USUAL.alarm)
        acc.wait_for_everyone()


if __name__ == "__main__":
    check.main()
