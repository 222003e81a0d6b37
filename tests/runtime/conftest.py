"""What the tests of the runtime have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before torch looks: everything is compared on the CPU
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "workers"), str(HERE.parents[1] / "runtime")]

from runtime_jobs import RANK_VARIABLES, Outcome, outcomes_of  # noqa: E402

from tests.forks import Forks  # noqa: E402


@pytest.fixture(scope="session")
def jobs(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Outcome]:
    """Worker scripts run once in the session, when their first check is asked for."""
    ran: dict[tuple[str, int], Outcome] = {}

    def outcomes(worker: str, ranks: int) -> Outcome:
        if (worker, ranks) not in ran:
            folder = tmp_path_factory.mktemp(f"{worker}-{ranks}")
            ran[worker, ranks] = outcomes_of(worker, ranks, folder, forks)
        return ran[worker, ranks]

    return outcomes


@pytest.fixture(autouse=True)
def fresh_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let every test begin as one process on the CPU that knows of nothing."""
    for name in [
        *RANK_VARIABLES,
        *(n for n in os.environ if n.startswith(("ACCELERATE_", "ACCELIFT_"))),
    ]:
        monkeypatch.delenv(name, raising=False)
    from accelift.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
