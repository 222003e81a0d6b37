"""The watchdog's timetable, its reports, and jobs whose processes really wait for one that will not come."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from accelift.diagnosis import frames
from accelift.diagnosis.reports import elsewhere, report, somebody_is_missing, waiting
from accelift.diagnosis.watchdog import Schedule, how_the_script_ended
from runtime_jobs import HERE, run_ranks


@pytest.mark.parametrize("limit", [1.0, 8.0, 60.0, 1800.0])
def test_schedule(limit: float) -> None:
    """The report is printed, by whoever is late to see, before the backend gives up; the end comes long after."""
    schedule = Schedule.of(limit)
    assert 0 < schedule.tick <= 1 and schedule.alarm >= 0.75 * limit
    assert schedule.alarm + schedule.tick + schedule.patience < limit < schedule.end - 9


def test_report() -> None:
    gather = waiting("gather", "train.py:41 in main", 36.4)
    answers: dict[int, dict[str, Any] | None] = {
        0: gather,
        1: elsewhere("train.py:57 in evaluate"),
        2: {**gather, "seconds": 35.0},
        3: {"ended": "failed with ValueError at train.py:30"},
        4: None,
    }
    assert report("something happened", answers).splitlines() == [
        "accelift: something happened:",
        "  ranks 0, 2: waiting in gather at train.py:41 in main, for 36 s",
        "  rank 1: at train.py:57 in evaluate",
        "  rank 3: failed with ValueError at train.py:30",
        "  rank 4: not heard of; it was killed, hangs outside of Python, or its machine is out of reach",
    ]
    assert somebody_is_missing(answers) and somebody_is_missing({0: gather, 1: None})
    assert not somebody_is_missing({0: gather, 1: gather})


def test_places() -> None:
    line = sys._getframe().f_lineno + 1
    assert frames.call_site().endswith(f"test_watchdog.py:{line}")
    line = sys._getframe().f_lineno + 1
    assert frames.place(sys._getframe()).endswith(f"test_watchdog.py:{line} in test_places")
    try:
        Path("/no/such/file").read_text()
    except OSError as error:
        line = sys._getframe().f_lineno - 2
        assert frames.place_of_error(error.__traceback__).endswith(f"test_watchdog.py:{line}")
    assert frames.place(None) == frames.place_of_error(None) == "an unknown place"


def test_how_a_script_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "last_value", raising=False)
    assert how_the_script_ended() == "has ended its script"
    with pytest.raises(KeyError) as caught:
        raise KeyError("sample")
    monkeypatch.setattr(sys, "last_value", caught.value, raising=False)
    line = sys._getframe().f_lineno - 2
    told = how_the_script_ended()
    assert told.startswith("failed with KeyError at ") and told.endswith(f"test_watchdog.py:{line}")


JOBS = ("ends", "vanishes", "left to us", "outlives")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """How the jobs ended, and what they said; two run at a time."""

    folders = [tmp_path_factory.mktemp("waiting") for _ in JOBS]  # two threads might be given one

    def run(job: str, folder: Path) -> list[tuple[int, str]]:
        return run_ranks([str(HERE / "workers" / "waiting.py"), job, str(folder)], 2)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(JOBS, pool.map(run, JOBS, folders), strict=True))


def told(outputs: list[tuple[int, str]], waiting: int) -> list[str]:
    """The report, of which there must be one, and nothing before it but what torch's store says as soon as the process
    that keeps it has gone."""
    lines = outputs[waiting][1].splitlines()
    starts = [place for place, line in enumerate(lines) if line.startswith("accelift: ")]
    assert len(starts) == 1, outputs
    before = lines[: starts[0]]
    assert not before or (before[0].startswith(f"[rank{waiting}]:[W") and "TCPStore.cpp" in before[0]), outputs
    assert not any(line.startswith("Traceback") for line in before), outputs
    assert outputs[1 - waiting][1] == ""
    return lines[starts[0] : starts[0] + 3]


@pytest.mark.slow
def test_a_process_that_has_ended(ended: dict[str, list[tuple[int, str]]]) -> None:
    (code, _), (other, _) = ended["ends"]
    assert (code, other) == (1, 0)
    what, one, two = told(ended["ends"], waiting=0)
    assert what == "accelift: a collective operation failed:"
    assert one.startswith("  rank 0: waiting in gather at ") and "waiting.py:" in one
    assert two == "  rank 1: has ended its script"


@pytest.mark.slow
def test_a_process_that_was_killed(ended: dict[str, list[tuple[int, str]]]) -> None:
    """Even the one that kept the store, of which torch would say much."""
    assert [code for code, _ in ended["vanishes"]] == [-9, 1], ended["vanishes"]
    what, one, two = told(ended["vanishes"], waiting=1)
    assert what == "accelift: a collective operation failed:"
    assert one.startswith("  rank 0: not heard of")
    assert two.startswith("  rank 1: waiting in gather at ")


@pytest.mark.slow
def test_processes_that_end_one_after_the_other(ended: dict[str, list[tuple[int, str]]]) -> None:
    assert ended["outlives"] == [(0, ""), (0, "")]


@pytest.mark.slow
def test_a_backend_that_does_not_give_up(ended: dict[str, list[tuple[int, str]]]) -> None:
    (code, output), _ = ended["left to us"]
    assert code == 1
    assert "did not time out after 12 s; ending its process:" in output
    assert "Traceback" not in output
