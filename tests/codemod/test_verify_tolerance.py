"""How much rounding may do to a step, and when nobody can tell it from a fault."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from accelift_codemod.cli.numbers import GIGABYTES
from accelift_codemod.plan import Finding, Outcome, Plan, Severity
from accelift_codemod.render import text
from accelift_codemod.render.proof import conclusion
from accelift_codemod.results import FileResult
from accelift_codemod.verify.answers import Answer, Verdict
from accelift_codemod.verify.proof import CannotRun, Request, prove
from accelift_codemod.verify.proved import Comparison, Proof
from accelift_codemod.verify.recording import Optimizer, Rank, Recording, Step, Values
from accelift_codemod.verify.tolerance import Tolerance
from accelift_codemod.verify.training import compare_training
from cli_runs import accelift

START = (1.0, 0.0)


def values(*numbers: float) -> Values:
    """A tensor of two numbers."""
    norm = sum(n * n for n in numbers) ** 0.5
    return Values(len(numbers), hash(numbers), norm, numbers)


def recording(*steps: tuple[tuple[float, float], ...]) -> Recording:
    """A run of one optimizer, by the parameters after each of its steps."""
    kinds = Optimizer(0, "Adam", tuple("ab"[: len(steps[0])]), tuple(values(*START) for _ in steps[0]), ())
    made = [
        Step(n, n, 0, "train.py:9", (1.0,), (), (False,), "train", (0.1,), (), tuple(values(*p) for p in parameters))
        for n, parameters in enumerate(steps)
    ]
    return Recording([Rank(made, {0: kinds}, events=len(made), end="finished")])


def parameters(original: Recording, converted: Recording, disturbed: Recording | None) -> Verdict:
    """What is said of the parameters, with what a disturbed run allows."""
    tolerance = Tolerance() if disturbed is None else Tolerance.measured(original.main, disturbed.main)
    answers = {a.question: a for a in compare_training(original, converted, tolerance).answers}
    return answers["the same parameters"].verdict


MOVED = ((1.1, 0.0),)
ELSEWHERE = ((1.0, 0.1),)


@pytest.mark.parametrize(
    ("converted", "disturbed", "verdict"),
    [
        (MOVED, MOVED, Verdict.IDENTICAL),
        (((1.1, 0.00001),), ((1.1, 0.000001),), Verdict.EQUIVALENT),
        (((1.1, 0.01),), ((1.1, 0.001),), Verdict.EQUIVALENT),  # a tenth of what the step does
        (ELSEWHERE, ((1.1, 0.000001),), Verdict.DIFFERS),
        (ELSEWHERE, None, Verdict.DIFFERS),
        (ELSEWHERE, ((1.1, 0.02),), Verdict.UNDECIDED),  # another step, and chance does as much
        (((1.0, 0.0),), ((1.1, 0.02),), Verdict.UNDECIDED),  # none at all
    ],
)
def test_what_is_as_large_as_the_step_itself_is_not_decided(
    converted: tuple[tuple[float, float], ...], disturbed: tuple[tuple[float, float], ...] | None, verdict: Verdict
) -> None:
    shaken = None if disturbed is None else recording(disturbed)
    assert parameters(recording(MOVED), recording(converted), shaken) is verdict


def test_a_parameter_that_only_chance_moves_decides_nothing_for_the_others() -> None:
    """As the bias of an attention's keys, whose gradients are nothing but rounding, which Adam makes large."""
    ours, theirs = ((2.0, 0.0), (1.0, 0.001)), ((2.0, 0.0), (1.0, -0.001))
    assert parameters(recording(ours), recording(theirs), recording(theirs)) is Verdict.EQUIVALENT


@pytest.mark.parametrize(
    ("hidden", "verdict"), [(1, Verdict.EQUIVALENT), (2, Verdict.UNDECIDED), (12, Verdict.UNDECIDED)]
)
def test_a_fault_shows_in_other_steps_than_a_few(hidden: int, verdict: Verdict) -> None:
    ours = [((1.0 + 0.1 * n, 0.0),) for n in range(1, 13)]
    apart = [((first, 0.1),) if n >= 12 - hidden else ((first, 0.0001),) for n, ((first, _),) in enumerate(ours)]
    shaken = recording(*[((first, 0.04),) for ((first, _),) in ours])
    assert parameters(recording(*ours), recording(*apart), shaken) is verdict


@pytest.mark.parametrize(("added", "verdict"), [(1.1, Verdict.IDENTICAL), (2.1, Verdict.DIFFERS)])
def test_a_parameter_that_is_added_later_is_compared(added: float, verdict: Verdict) -> None:
    """As those are that `optimizer.add_param_group` gives it once they are trained, too."""
    ours, theirs = (recording(MOVED, (*MOVED, (last, 0.0))) for last in (1.1, added))
    assert parameters(ours, theirs, None) is verdict


def test_what_hardly_moves_is_no_matter() -> None:
    """Of a step that does less than rounding does, nothing is to be told."""
    tiny = ((1.0 + 1e-8, 0.0),)
    assert parameters(recording(tiny), recording(((1.0, 1e-8),)), recording(((1.0, 1e-8),))) is Verdict.EQUIVALENT


def test_what_is_undecided_is_not_proved() -> None:
    proof = Proof("train.py")
    proof.comparisons = [
        Comparison("converted, 1 process", [Answer("the same parameters", Verdict.IDENTICAL)]),
        Comparison("converted, 2 processes", [Answer("the same parameters", Verdict.UNDECIDED, "rounding")]),
    ]
    assert not proof.proved and proof.exit_code == 1
    said = "whether converted, 2 processes differs from the original cannot be decided."
    assert conclusion(proof) == f"NOT PROVED: {said}"
    proof.comparisons[0] = Comparison("converted, 1 process", [Answer("the same samples", Verdict.DIFFERS)])
    assert conclusion(proof) == "NOT PROVED: converted, 1 process differs from the original."
    proof.comparisons = [Comparison("converted, 2 processes", [Answer("the same data", Verdict.NOT_COMPARABLE)])]
    assert proof.proved


def test_without_torch_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = "torch is not installed here, so nothing can be run; install it: pip install torch"
    with pytest.raises(CannotRun, match=said):
        prove(Request(tmp_path / "train.py", b""))


@pytest.mark.parametrize("given", ["nan", "inf", "0", "-1", "much"])
def test_memory_is_some(given: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    ran = accelift("verify", tmp_path / "train.py", "--memory", given)
    assert ran.code == 2 and "Invalid value for '--memory'" in ran.stderr
    assert GIGABYTES.convert("0.5", None, None) == 0.5


def test_notes_of_a_conversion_that_is_not_proved_are_no_refusals() -> None:
    found = (
        Finding("DEV-CPU", Severity.NOTE, 3, "stays on the CPU", "use GPUs"),
        Finding("SAVE-RACE", Severity.WARNING, 4, "all write", "guard it"),
        Finding("NOT-PROVED", Severity.ERROR, 0, "not proved", "see"),
    )
    result = FileResult("train.py", Plan("train.py", "", (), found, Outcome.REFUSED, "not proved"))
    assert list(text.remarks(result, 0)) == [
        "train.py:4: warning: SAVE-RACE all write; guard it",
        "train.py: refused: NOT-PROVED not proved; see",
    ]
    assert next(iter(text.remarks(result, 1))) == "train.py:3: note: DEV-CPU stays on the CPU; use GPUs"
    assert list(text.remarks(result, -1)) == []
