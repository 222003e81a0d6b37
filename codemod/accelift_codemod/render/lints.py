"""What `accelift check` has found: text for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from accelift_codemod.plan import Finding, Severity
from accelift_codemod.render.data import VERSION
from accelift_codemod.report import Findings
from accelift_codemod.results import FileResult

_COLORS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.NOTE: "36"}


def lines(result: FileResult, verbosity: int, color: bool = False) -> Iterator[str]:
    """What to say of a file.

    Args:
        result: the file's result.
        verbosity: -1 errors only, 0 also warnings, 1 also notes and evidence, 2 also files without Accelerate.
        color: whether codes are coloured, for a terminal.
    """
    if result.error:
        yield result.error
        return
    if result.skipped:
        if verbosity > 1:
            yield f"{result.path}: not checked: does not use Accelerate"
        return
    for finding in result.plan.findings if result.plan is not None else ():
        if not _shown(finding, verbosity):
            continue
        yield f"{_code(finding, color)} {result.path}:{finding.line}: {finding.message}; {finding.remedy}"
        if verbosity > 0:
            for step in finding.evidence:
                yield f"    {step}"


def _shown(finding: Finding, verbosity: int) -> bool:
    if finding.severity is Severity.NOTE:
        return verbosity > 0
    return finding.severity is Severity.ERROR or verbosity >= 0


def _code(finding: Finding, color: bool) -> str:
    return f"\x1b[{_COLORS[finding.severity]}m{finding.code}\x1b[0m" if color else finding.code


def as_json(results: Iterable[FileResult], counts: Findings) -> str:
    """One JSON document, in plain ASCII: every file with its findings, and the counts."""
    files = [
        {
            "path": r.path,
            "checked": r.plan is not None,
            "edits": [e.to_json() for e in r.plan.edits] if r.plan is not None else [],
            "diff": r.diff,
            "findings": [f.to_json() for f in r.plan.findings] if r.plan is not None else [],
            "error": r.error,
        }
        for r in results
    ]
    document = {"version": VERSION, "files": files, "summary": counts.to_json(), "exit_code": counts.exit_code}
    return json.dumps(document, indent=2) + "\n"
