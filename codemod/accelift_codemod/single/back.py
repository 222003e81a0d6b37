"""The conversion of a script without its own distribution, as one of the script that was written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from accelift_codemod import diff
from accelift_codemod.facts.values import Evidence
from accelift_codemod.plan import TAKEN_OUT, Assumption, Edit, Finding, Operation, Outcome, Plan, Severity, Span
from accelift_codemod.results import FileResult
from accelift_codemod.rewrite.compose import rebased
from accelift_codemod.rewrite.result import CannotRewrite, Change, Rewritten
from accelift_codemod.rules.distributed import Distributed
from accelift_codemod.single import Single
from accelift_codemod.single.files import Folded
from accelift_codemod.single.folding import Gone

_LINES = re.compile(
    r"`[^`]*`|\b(?P<word>lines? )(?P<lines>\d+(?:, \d+)*)(?P<of> of [^ ,;)]+)?|(?P<placed>\S+\.py):(?P<place>\d+):"
)


def back(single: Single, result: FileResult) -> FileResult:
    """The result for the files as they were written, with what was taken out among their edits.

    Raises:
        CannotRewrite: a diff would not lead to the output.
    """
    if result.plan is None:
        return result
    back = _Back(single)
    whole = back.result(result)
    assert whole.plan is not None
    if result.output is None:
        return whole
    note = back.note()
    findings = tuple(sorted((note, *whole.plan.findings), key=lambda finding: finding.line))
    members = tuple(back.result(member) for member in result.members)
    return replace(whole, plan=replace(whole.plan, findings=findings), members=members)


class _Back:
    def __init__(self, single: Single) -> None:
        self.single = single

    def result(self, result: FileResult) -> FileResult:
        """The result of one file."""
        if result.plan is None:
            return result
        path = result.path
        plan = self.plan(result.plan, path)
        folded = self.single.files.get(path)
        if folded is None:
            return replace(result, plan=plan)
        original = folded.original
        sums = [self.sum(line, what) for where, line, what in self.single.sums if where == path]
        plan = replace(plan, digest=original.digest)
        if result.output is None:
            return replace(result, plan=plan)
        edits = sorted((*self.taken_out(folded), *plan.edits), key=lambda edit: edit.span)
        rewritten = self.rewritten(folded, result.hunks)
        if result.output != original.encode(rewritten.text):
            raise CannotRewrite("the lines of the output cannot be told from those that were written")
        text = diff.unified(path, original.lines, rewritten.changes, original.bom)
        plan = replace(plan, edits=tuple(edits), findings=(*plan.findings, *sums))
        plan = replace(plan, outcome=Outcome.CONVERTED_WITH_FINDINGS) if sums else plan
        return replace(result, plan=plan, diff=text, hunks=rewritten.changes)

    def rewritten(self, folded: Folded, hunks: Sequence[Change]) -> Rewritten:
        """How a file as it was written changes, from how what was left of it does."""
        here, written = folded.source.lines, folded.original.lines
        same = zip(here, folded.lines, strict=True)
        return rebased(written, here, [n - 1 if text == written[n - 1] else None for text, n in same], hunks)

    def plan(self, plan: Plan, path: str) -> Plan:
        """The plan of a file with the lines that were written."""
        return replace(
            plan,
            edits=tuple(self._edit(edit, path) for edit in plan.edits),
            findings=tuple(self._finding(finding, path) for finding in plan.findings),
            reason=self._text(plan.reason, path),
        )

    def _edit(self, edit: Edit, path: str) -> Edit:
        folded = self.single.files.get(path)
        span = folded.written(edit.span) if folded is not None else edit.span
        otherwise = self._finding(edit.otherwise, path) if edit.otherwise is not None else None
        reason, evidence = self._text(edit.reason, path), self._evidence(edit.evidence, path)
        return replace(edit, span=span, reason=reason, evidence=evidence, otherwise=otherwise, node=None)

    def _finding(self, finding: Finding, path: str) -> Finding:
        return replace(
            finding,
            line=self._line(path, finding.line),
            also=tuple(self._line(path, line) for line in finding.also),
            message=self._text(finding.message, path),
            remedy=self._text(finding.remedy, path),
            evidence=self._evidence(finding.evidence, path),
        )

    def _line(self, path: str, line: int) -> int:
        folded = self.single.files.get(path)
        return folded.written_line(line) if folded is not None else line

    def _evidence(self, steps: tuple[Evidence, ...], path: str) -> tuple[Evidence, ...]:
        return tuple(replace(step, line=self._line(step.path or path, step.line)) for step in steps)

    def _text(self, text: str, path: str) -> str:
        def renamed(found: re.Match[str]) -> str:
            if found["placed"]:
                return f"{found['placed']}:{self._line(found['placed'], int(found['place']))}:"
            if not found["word"]:
                return found[0]
            of = found["of"] or ""
            own = of.removeprefix(" of ") if of.removeprefix(" of ") in self.single.files else "" if of else path
            named = ", ".join(str(self._line(own, int(n))) for n in found["lines"].split(", "))
            return found["word"] + named + of

        return _LINES.sub(renamed, text)

    def taken_out(self, folded: Folded) -> Iterator[Edit]:
        """What is taken out of a file, as edits."""
        switch, assumed = self.single.switch, self.single.assumed
        assumes = Assumption(f"nobody starts it by `{switch}`") if switch else None
        assumes = Assumption(f"nothing of {', '.join(assumed)} makes a process group") if assumed else assumes
        outer: list[Span] = []
        for span, operation, code in sorted(folded.gone, key=_outer_first):
            if not any(other.contains(span) for other in outer):
                yield Edit(Distributed.code, span, operation, TAKEN_OUT, code, assumes=assumes)
            if operation is not Operation.BARE:
                outer.append(span)

    def sum(self, line: int, what: str) -> Finding:
        """What a person has to set right where a loss is computed with something of all processes."""
        return Finding(
            "DIST-SUM",
            Severity.ERROR,
            line,
            f"the script's own distribution combines `{what}` over all processes, and may compute a loss with it: that "
            "is taken out, so each process would compute its loss with that of its own share",
            "combine it by accelerator.reduce, so that the mean of the losses of all processes is that of one",
        )

    def note(self) -> Finding:
        """What a person has to know."""
        single = self.single
        if not single.switch:
            files = ", ".join(Path(path).name for path in single.files)
            return Finding(
                "DIST-SINGLE",
                Severity.NOTE,
                0,
                f"nothing that the script runs makes a process group; what {files} would do with one is taken out, and "
                "the accelerator shares out what the script does on one process",
                "start it with `accelift launch --num_processes N`",
            )
        path, line = single.at
        where = "" if path == single.path else f" ({path}:{line})"
        return Finding(
            "DIST-SINGLE",
            Severity.NOTE,
            0 if where else line,
            f"the script distributes itself by `{single.switch}`{where}; that is taken out, with what only it used, "
            "and the accelerator shares out what the script does on one process",
            "start it with `accelift launch --num_processes N`; options for its own way have no effect, or are gone",
        )


def _outer_first(one: Gone) -> tuple[int, ...]:
    span = one[0]
    return span.line, span.column, -span.end_line, -span.end_column
