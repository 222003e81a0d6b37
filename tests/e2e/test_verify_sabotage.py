"""Wrong conversions are caught, with what is wrong among the first three causes; right ones of any style are proved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from accelift_codemod.verify.answers import Verdict
from accelift_codemod.verify.proof import Request, prove
from accelift_codemod.verify.proved import Proof
from accelift_codemod.verify.runs import Limits

from tests.forks import Forks
from tests.verify.cases import HERE, Case, cases
from tests.verify.runs import Runs

Prove = Callable[[Case], Proof]

SECONDS = 240.0  # far more than a run takes
SECONDS_OF_HANGING = 15.0  # more than a run takes beside others
SCRIPTS = sorted(path.stem for path in (HERE / "scripts").glob("*_*.py"))
PLAIN = [Case("as it is", script) for script in SCRIPTS]


@pytest.fixture(scope="module")
def runs(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(forks, tmp_path_factory.mktemp("kept"))


@pytest.fixture
def proved(runs: Runs, tmp_path: Path) -> Prove:
    def prove_case(case: Case) -> Proof:
        script = tmp_path / "train.py"
        script.write_text(case.original)
        limits = Limits(SECONDS_OF_HANGING if case.hangs else SECONDS)
        return prove(Request(script, case.converted.encode(), limits=limits), execute=runs.execute)

    return prove_case


def partly(all_cases: list[Case]) -> list[Any]:
    """All cases, of which CI runs every third one."""
    return [
        pytest.param(case, id=str(case), marks=pytest.mark.exhaustive if index % 3 else ())
        for index, case in enumerate(all_cases)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("case", partly(cases("sabotaged.txt")))
def test_sabotaged(case: Case, proved: Prove) -> None:
    proof = proved(case)
    suspected = [
        [one.code for one in comparison.suspicions[:3]]
        for comparison in proof.comparisons
        if comparison.verdict is Verdict.DIFFERS
    ]
    assert proof.exit_code == 1
    assert any(case.cause in causes for causes in suspected), suspected


@pytest.mark.slow
@pytest.mark.parametrize("case", partly([*PLAIN, *cases("restyled.txt")]))
def test_restyled(case: Case, proved: Prove) -> None:
    proof = proved(case)
    wrong = [
        f"{comparison.title}: {answer.question}? {answer.detail}"
        for comparison in proof.comparisons
        for answer in comparison.answers
        if answer.verdict is Verdict.DIFFERS
    ]
    assert not wrong
    assert proof.exit_code == 0
    # That nothing differs is not enough: the same was seen.
    compared = {answer.question: answer.verdict for answer in proof.comparisons[-1].answers}
    assert compared["the same parameters"] in (Verdict.IDENTICAL, Verdict.EQUIVALENT)
