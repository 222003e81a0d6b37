"""The bounds of the runs that `accelift verify` makes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from accelift_codemod.verify.runs import Idle, done_by


def test_processes_that_work_are_not_idle() -> None:
    idle = Idle(60, now=100.0)
    assert not any(idle.over(done=10.0 * minute, now=100.0 + 60 * minute) for minute in range(1, 50))


def test_processes_that_wait_are_idle() -> None:
    idle = Idle(60, now=100.0)
    assert not idle.over(done=7.0, now=110.0)  # they import what they need
    assert not idle.over(done=7.1, now=169.0)
    assert idle.over(done=7.2, now=171.0)  # a launcher looks now and then


def test_an_end_is_no_idleness() -> None:
    idle = Idle(60, now=0.0)
    assert not idle.over(done=50.0, now=10.0)
    assert not idle.over(done=20.0, now=69.0)  # one of two has ended: what it did counts no more
    assert not idle.over(done=20.0, now=128.0)
    assert idle.over(done=20.0, now=130.0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes count as busy")
def test_what_a_process_does() -> None:
    before = done_by(os.getpid())
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert done_by(os.getpid()) - before > 0.05
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as waits:
        assert done_by(waits.pid) < 5
    assert done_by(waits.pid) == 0
