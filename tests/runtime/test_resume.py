"""Going on from a checkpoint is the same, bit for bit, as never having stopped."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest
from resuming import CASES
from runtime_jobs import HERE, fork_ranks

from tests.forks import Forks

WORKER = str(HERE / "workers" / "resuming.py")
Outcomes = Callable[[int], list[dict[str, str | None]]]


@pytest.fixture(scope="module")
def outcomes(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What came of all cases on one process and on two, on each process, both begun and gone on with."""
    folder = tmp_path_factory.mktemp("resume")
    found: dict[int, list[dict[str, str | None]]] = {}

    def run(ranks: int) -> list[dict[str, str | None]]:
        reports = []
        for one in (1, 2):
            if not (folder / str(one)).exists():
                command = [WORKER, str(folder / f"begin-{one}"), str(folder / str(one)), "begin"]
                begun = fork_ranks(forks, command, one, folder)
                assert all(code == -signal.SIGKILL for code, _ in begun), begun
            if one == ranks:
                reports += [json.loads((folder / f"begin-{one}.{rank}.json").read_text()) for rank in range(one)]
        other = str(folder / str(3 - ranks))
        command = [WORKER, str(folder / f"check-{ranks}"), str(folder / str(ranks)), "check", other]
        fork_ranks(forks, command, ranks, folder)
        return reports + [json.loads((folder / f"check-{ranks}.{rank}.json").read_text()) for rank in range(ranks)]

    def of(ranks: int) -> list[dict[str, str | None]]:
        if ranks not in found:
            found[ranks] = run(ranks)
        return found[ranks]

    return of


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_going_on_changes_no_bit(name: str, ranks: int, outcomes: Outcomes) -> None:
    for report in outcomes(ranks):
        assert report[name] is None, report[name]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_another_number_of_processes(ranks: int, outcomes: Outcomes) -> None:
    for report in outcomes(ranks)[ranks:]:
        assert report["other_processes"] is None, report["other_processes"]
