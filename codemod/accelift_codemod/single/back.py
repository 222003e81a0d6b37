"""The conversion of a script without its own distribution, as one of the script that was written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from accelift_codemod import diff
from accelift_codemod.facts.values import Evidence
from accelift_codemod.plan import Assumption, Edit, Finding, Operation, Plan, Severity, Span
from accelift_codemod.results import FileResult
from accelift_codemod.rewrite.compose import rebased
from accelift_codemod.rewrite.result import CannotRewrite, Change, Rewritten
from accelift_codemod.rules.distributed import Distributed
from accelift_codemod.single import Single
from accelift_codemod.single.folding import Gone

_LINES = re.compile(r"`[^`]*`|\b(lines? )(\d+(?:, \d+)*)( of [^ ,;)]+)?")
_REASON = "only the script's own distribution has a use for it"


def back(single: Single, result: FileResult) -> FileResult:
    """The result for the written script, with what was taken out among its edits.

    Raises:
        CannotRewrite: the diff would not lead to the output.
    """
    if result.plan is None:
        return result
    back = _Back(single)
    path, original = single.original.path, single.original
    rewritten = back.rewritten(result.hunks)
    plan = back.plan(result.plan, path)
    whole = replace(
        plan,
        digest=original.digest,
        edits=tuple(sorted((*back.taken_out(), *plan.edits), key=lambda edit: edit.span)),
        findings=tuple(sorted((back.note(), *plan.findings), key=lambda finding: finding.line)),
    )
    text = diff.unified(path, original.lines, rewritten.changes, original.bom)
    if result.output != original.encode(rewritten.text):
        raise CannotRewrite("the lines of the output cannot be told from those that were written")
    members = tuple(replace(m, plan=back.plan(m.plan, "") if m.plan else None) for m in result.members)
    return replace(
        result,
        plan=whole,
        diff=text,
        hunks=rewritten.changes,
        members=members,
    )


class _Back:
    def __init__(self, single: Single) -> None:
        self.single = single
        self.path = single.original.path

    def rewritten(self, hunks: Sequence[Change]) -> Rewritten:
        """How the written script changes, from how what was left of it does."""
        here, written = self.single.source.lines, self.single.original.lines
        same = zip(here, self.single.lines, strict=True)
        return rebased(written, here, [n - 1 if text == written[n - 1] else None for text, n in same], hunks)

    def plan(self, plan: Plan, own: str) -> Plan:
        """A plan with the written script's lines; `own` is its path if the plan is the script's."""
        return replace(
            plan,
            edits=tuple(self._edit(edit, own) for edit in plan.edits),
            findings=tuple(self._finding(finding, own) for finding in plan.findings),
        )

    def _edit(self, edit: Edit, own: str) -> Edit:
        span = self.single.written(edit.span) if own else edit.span
        otherwise = self._finding(edit.otherwise, own) if edit.otherwise is not None else None
        reason, evidence = self._text(edit.reason, own), self._evidence(edit.evidence, own)
        return replace(edit, span=span, reason=reason, evidence=evidence, otherwise=otherwise, node=None)

    def _finding(self, finding: Finding, own: str) -> Finding:
        return replace(
            finding,
            line=self.single.written_line(finding.line) if own else finding.line,
            message=self._text(finding.message, own),
            remedy=self._text(finding.remedy, own),
            evidence=self._evidence(finding.evidence, own),
        )

    def _evidence(self, steps: tuple[Evidence, ...], own: str) -> tuple[Evidence, ...]:
        mine = ("", self.path) if own else (self.path,)
        return tuple(
            replace(step, line=self.single.written_line(step.line)) if step.path in mine else step for step in steps
        )

    def _text(self, text: str, own: str) -> str:
        def renamed(found: re.Match[str]) -> str:
            of = (found[3] or "").removeprefix(" of ")
            if not found[1] or of != ("" if own and not found[3] else self.path):
                return found[0]
            return (
                found[1]
                + ", ".join(str(self.single.written_line(int(n))) for n in found[2].split(", "))
                + (found[3] or "")
            )

        return _LINES.sub(renamed, text)

    def taken_out(self) -> Iterator[Edit]:
        """What is taken out, as edits."""
        assumes = Assumption(f"nobody starts it by `{self.single.switch}`")
        outer: list[Span] = []
        for span, operation, code in sorted(self.single.gone, key=_outer_first):
            if not any(other.contains(span) for other in outer):
                yield Edit(Distributed.code, span, operation, _REASON, code, assumes=assumes)
            if operation is not Operation.BARE:
                outer.append(span)

    def note(self) -> Finding:
        """What a person has to know."""
        return Finding(
            "DIST-SINGLE",
            Severity.NOTE,
            self.single.line,
            f"the script distributes itself by `{self.single.switch}`; that is taken out, with what only it used, and "
            "the accelerator shares out what the script does on one process",
            "start it with `accelift launch --num_processes N`; options for its own way have no effect, or are gone",
        )


def _outer_first(one: Gone) -> tuple[int, ...]:
    span = one[0]
    return span.line, span.column, -span.end_line, -span.end_column
