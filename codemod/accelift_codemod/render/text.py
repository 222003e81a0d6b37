"""Results for people: diffs, findings with their place and remedy, and why files were left alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from accelift_codemod.diff import encoded
from accelift_codemod.outcomes import Outcome, Safety, Severity
from accelift_codemod.report import count
from accelift_codemod.results import FileResult

if TYPE_CHECKING:
    from accelift_codemod.plan import Finding

_COLORS = {"+": "32", "-": "31", "@": "36"}


def diff(result: FileResult, color: bool) -> bytes:
    """The diff of a file: in the file's own encoding, to be applied, or coloured for a terminal."""
    if not color:
        return encoded(result.diff, result.encoding)
    out = []
    for line in result.diff.split("\n")[:-1]:
        if line.startswith(("--- ", "+++ ")):
            out.append(_painted(line, "1"))
        elif line[:1] in _COLORS:
            out.append(_painted(line, _COLORS[line[0]]))
        else:
            out.append(line)
    return "".join(f"{line}\n" for line in out).encode("utf-8", "surrogateescape")


def _painted(line: str, code: str) -> str:
    body = line.rstrip("\r")
    return f"\x1b[{code}m{body}\x1b[0m{line[len(body) :]}"


def remarks(result: FileResult, verbosity: int) -> Iterator[str]:
    """What to say of a file beside its diff.

    Args:
        result: the file's result.
        verbosity: -1 errors only, 0 also refusals and findings, 1 also notes, edits and evidence, 2 also files
            without torch.
    """
    if result.error:
        yield result.error
        return
    if result.skipped:
        if verbosity > 1:
            yield f"{result.path}: left alone: does not mention torch"
        return
    plan = result.plan
    if plan is None or verbosity < 0:
        return
    if plan.outcome in (Outcome.REFUSED, Outcome.NOTHING):
        if plan.outcome is Outcome.REFUSED or verbosity > 0:
            word = "refused" if plan.outcome is Outcome.REFUSED else "left alone"
            reasons = [finding for finding in plan.findings if finding.message == plan.reason] or plan.findings
            for finding in plan.findings:
                if finding in reasons:
                    yield _line(result.path, finding, f"{word}: ")
                elif finding.severity is not Severity.NOTE or verbosity > 0:
                    yield _line(result.path, finding, f"{finding.severity.value}: ")
                else:
                    continue
                yield from _evidence(finding, verbosity)
        return
    for finding in plan.findings:
        if finding.severity is not Severity.NOTE or verbosity > 0:
            yield _line(result.path, finding, f"{finding.severity.value}: ")
            yield from _evidence(finding, verbosity)
    for edit in plan.edits:
        if verbosity > 0 or edit.safety is Safety.UNSAFE:
            level = "" if edit.safety is Safety.SAFE else f", {edit.safety.value}"
            yield f"{result.path}:{edit.span.line}: {edit.rule} {edit.operation.value}{level}: {edit.why}"
            if verbosity > 0:
                yield from (f"    {step}" for step in edit.evidence)
    if verbosity < 1:
        review = sum(e.safety is Safety.REVIEW for e in plan.edits)
        notes = sum(f.severity is Severity.NOTE for f in plan.findings)
        hidden = [f"{count(review, 'edit')} to review"] if review else []
        hidden += [count(notes, "note")] if notes else []
        if hidden:
            yield f"{result.path}: {' and '.join(hidden)} (-v shows them)"


def _line(path: str, finding: Finding, prefix: str) -> str:
    where = f"{path}:{finding.line}" if finding.line else path
    return f"{where}: {prefix}{finding}"


def _evidence(finding: Finding, verbosity: int) -> Iterator[str]:
    if verbosity > 0:
        for step in finding.evidence:
            yield f"    {step}"
