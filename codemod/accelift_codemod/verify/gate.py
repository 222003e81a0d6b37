"""Letting a conversion pass only if it is proved: `accelift convert --verify`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from accelift_codemod.plan import Finding, Outcome, Plan, Severity
from accelift_codemod.results import FileResult
from accelift_codemod.verify.proof import CannotRun, Request, Say, prove
from accelift_codemod.verify.proved import UNPROVED, Proof

_STEPS = 300


def gate(result: FileResult, arguments: Sequence[str], processes: int, say: Say) -> FileResult:
    """Run a converted script beside its original; one that computes something else is refused, with the reason.

    Args:
        result: a conversion that is not written yet.
        arguments: arguments for the script.
        processes: how many processes to compare with.
        say: is told what is being done.
    """
    if result.output is None or result.error:
        return result
    script = Path(result.path)
    request = replace(
        Request(script, result.output, known(result), changed_members(result), tuple(arguments), processes, _STEPS),
        distributes=result.distributes,
        warned=warned(result),
    )
    try:
        proof = prove(request, say)
    except (CannotRun, OSError) as error:
        return replace(result, output=None, members=(), error=f"{result.path}: cannot be proved: {error}")
    return result if proof.proved else _refused(result, proof)


def known(result: FileResult) -> tuple[tuple[str, Finding], ...]:
    """The findings of a conversion, each with its file."""
    plans = [r.plan for r in (result, *result.members) if r.plan is not None]
    return tuple((plan.path, finding) for plan in plans for finding in plan.findings)


def warned(result: FileResult) -> tuple[str, ...]:
    """The errors and warnings of a conversion, with their places."""
    return tuple(
        f"{finding.code} ({path}:{finding.line})" if finding.line else f"{finding.code} ({path})"
        for path, finding in known(result)
        if finding.severity is not Severity.NOTE
    )


def changed_members(result: FileResult) -> tuple[tuple[Path, bytes], ...]:
    """The files that change along with a script, and what they become."""
    return tuple((Path(m.path), m.output) for m in result.members if m.output is not None)


def _refused(result: FileResult, proof: Proof) -> FileResult:
    comparison = next(one for one in proof.comparisons if one.verdict in UNPROVED)
    answer = next(one for one in comparison.answers if one.verdict is comparison.verdict)
    causes = ", ".join(one.code for one in comparison.suspicions[:3])
    message = f"not proved: {comparison.title}: {answer.question}? {answer.detail}"
    remedy = f"see `accelift verify {result.path}`" + (f"; likely causes: {causes}" if causes else "")
    finding = Finding("NOT-PROVED", Severity.ERROR, 0, message, remedy)
    plan = result.plan or Plan(result.path, "")
    refused = replace(plan, edits=(), findings=(finding, *plan.findings), outcome=Outcome.REFUSED, reason=message)
    return FileResult(result.path, refused)
