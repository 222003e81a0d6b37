"""Faults of whole jobs under the launcher: what is said, that they end, and what is left."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.faults import Outcome, take

FAULTS = {"guard": False, "full": True}  # and whether they are continued


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """How the jobs ended."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(FAULTS, pool.map(lambda fault: take(fault, resume=FAULTS[fault]), FAULTS), strict=True))


@pytest.mark.slow
def test_a_collective_operation_of_the_main_process_alone(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["guard"]
    assert outcome.code == 1
    assert outcome.said.startswith("accelift: a collective operation is about to time out, after 10 s:")
    assert "rank 0: waiting in gather at " in outcome.said and " in go_wrong, for " in outcome.said
    assert "rank 1: waiting in backward at " in outcome.said
    assert outcome.errors.index("about to time out") < outcome.errors.index("RuntimeError")
    assert "accelift launch: rank " in outcome.errors.splitlines()[-1]


@pytest.mark.slow
def test_a_full_disk(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["full"]
    assert outcome.code == 1 and "cannot save to " in outcome.said and "step-10" in outcome.said
    assert outcome.lost == "2 steps (continues at step 8)"
