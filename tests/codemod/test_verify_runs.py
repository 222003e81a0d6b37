"""The bounds of the runs that `accelift verify` makes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from accelift_codemod.verify.runs import Idle, Limits, Order, done_by

from tests.forks import Forks
from tests.verify.runs import Runs


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


class Counted(Runs):
    """Runs that are only counted."""

    count = 0

    def _run(self, order: Any, limits: Any) -> int:
        self.count += 1
        return self.count


@pytest.mark.parametrize(
    "changed, again",
    [
        ({}, 1),
        ({"train.py": "import parts\nprint(1)\n"}, 2),
        ({"parts/__init__.py": "lr = 0.2\n"}, 2),
        ({"data.csv": "1\n"}, 2),
    ],
)
def test_tests_remember_a_run_by_all_that_it_may_import_or_read(
    changed: dict[str, str], again: int, tmp_path: Path
) -> None:
    files = {"train.py": "import parts\n", "parts/__init__.py": "lr = 0.1\n"}
    runs = Counted(Forks(), tmp_path / "kept")

    def execute(name: str, written: dict[str, str], processes: int | None = None) -> Any:
        root = tmp_path / name / "project"
        for path, text in written.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        order = Order(root / "train.py", (), root, root, tmp_path / name / "out", processes)
        return runs.execute(order, Limits())

    assert execute("first", files) == 1
    assert execute("second", files | changed) == again
    assert execute("both", files, processes=2) == again + 1  # several processes are not remembered
