"""How `accelift verify` judges the ends of processes."""

from __future__ import annotations

import pytest
from accelift_codemod.verify.answers import Answer, Verdict
from accelift_codemod.verify.processes import compare_processes
from accelift_codemod.verify.recording import Rank, Recording

CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:27364."


def stack(line: int) -> str:
    return f'  File "/scratch/train.py", line {line} in <module>'


def judged(*ranks: Rank, timed_out: bool = False) -> Answer:
    return compare_processes(Recording([Rank(end="finished")]), Recording([*ranks]), timed_out, "")[0]


def test_a_process_that_loses_another_as_the_run_is_ended_was_waiting() -> None:
    answer = judged(
        Rank(stack=stack(40)),
        Rank(end="failed", error=CLOSED, error_place="train.py:31", stack=stack(31)),
        timed_out=True,
    )
    assert [one.code for one in answer.suspicions] == ["HANG"]
    assert answer.detail == "they do not come to an end: process 0 is at train.py:40; process 1 is at train.py:31"


def test_all_processes_that_lose_each_other_as_the_run_is_ended_were_waiting() -> None:
    ranks = [Rank(end="failed", error=CLOSED, error_place=f"train.py:{line}", stack=stack(line)) for line in (40, 31)]
    answer = judged(*ranks, timed_out=True)
    assert [(one.code, one.place) for one in answer.suspicions] == [("HANG", "train.py:40")]


def test_a_process_that_loses_another_before_has_failed() -> None:
    answer = judged(Rank(stack=stack(40)), Rank(end="failed", error=CLOSED, error_place="train.py:31"), timed_out=True)
    assert [one.code for one in answer.suspicions] == ["FAILED"]
    assert "Connection closed" in answer.detail


def test_a_process_that_fails_by_itself_has_failed_however_the_run_ends() -> None:
    failed = Rank(end="failed", error="ValueError: no such file", error_place="train.py:9", stack=stack(31))
    answer = judged(Rank(stack=stack(40)), failed, timed_out=True)
    assert [one.code for one in answer.suspicions] == ["FAILED"]
    assert "no such file" in answer.detail


def test_processes_that_end_are_right() -> None:
    assert judged(Rank(end="finished"), Rank(end="enough")).verdict is Verdict.IDENTICAL


LIMIT = "it ran for more than 600 seconds (--timeout)"


@pytest.mark.parametrize(
    ("ranks", "verdict", "causes"),
    [
        ([Rank(stack=stack(40)), Rank(stack=stack(41))], Verdict.UNDECIDED, []),
        ([Rank(stack=stack(40)), Rank(end="failed", error=CLOSED, stack=stack(41))], Verdict.UNDECIDED, []),
        ([Rank(stack=stack(40)), Rank(end="finished")], Verdict.DIFFERS, ["HANG"]),  # one waits for the other
        ([Rank(stack=stack(40)), Rank(end="failed", error="ValueError")], Verdict.DIFFERS, ["FAILED"]),
    ],
)
def test_processes_that_take_too_long_do_not_wait_for_each_other_for_good(
    ranks: list[Rank], verdict: Verdict, causes: list[str]
) -> None:
    answer = compare_processes(Recording([Rank(end="finished")]), Recording(ranks), True, "", LIMIT)[0]
    assert (answer.verdict, [one.code for one in answer.suspicions]) == (verdict, causes)
    assert answer.detail.startswith(LIMIT) is (verdict is Verdict.UNDECIDED)
