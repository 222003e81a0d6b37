"""One version of a file that several scripts want changed, each in its own places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from accelift_codemod import diff
from accelift_codemod.plan import Outcome
from accelift_codemod.results import FileResult
from accelift_codemod.source import BadSource, Source

if TYPE_CHECKING:
    from accelift_codemod.rewrite import Change


def compatible(versions: Iterable[FileResult]) -> bool:
    """Whether versions of a file change other lines of it, or the same lines in the same way."""
    versions = list({version.output: version for version in versions}.values())
    if len(versions) < 2:
        return True
    return all(before.end <= after.start and before.start < after.start for before, after in pairwise(_hunks(versions)))


def merged(versions: Sequence[FileResult]) -> FileResult | None:
    """The first of some versions of a file with the changes of all; None if the file is no longer what they change."""
    from accelift_codemod.rewrite.compose import composed  # late: most runs have nothing to merge

    first = versions[0]
    if first.plan is None or all(version.output == first.output for version in versions):
        return first
    try:
        source = Source.read(Path(first.path))
        hunks = _joined(_hunks(versions))
        output = source.encode(composed(source.lines, hunks).text)
        Source.decode(output, first.path).tree  # noqa: B018  (raises if it does not parse)
    except BadSource:
        return None
    plans = [version.plan for version in versions if version.plan is not None]
    if any(plan.digest != source.digest for plan in plans):
        return None
    found = any(plan.outcome is Outcome.CONVERTED_WITH_FINDINGS for plan in plans)
    plan = replace(
        first.plan,
        edits=tuple(sorted(dict.fromkeys(edit for plan in plans for edit in plan.edits), key=lambda edit: edit.span)),
        findings=tuple(dict.fromkeys(finding for plan in plans for finding in plan.findings)),
        outcome=Outcome.CONVERTED_WITH_FINDINGS if found else first.plan.outcome,
    )
    text = diff.unified(first.path, source.lines, hunks, source.bom)
    return replace(first, plan=plan, diff=text, output=output, hunks=tuple(hunks))


def _hunks(versions: Iterable[FileResult]) -> list[Change]:
    found = {line for version in versions for hunk in version.hunks for line in _by_line(hunk)}
    return sorted(found, key=lambda hunk: (hunk.start, hunk.end))


def _by_line(hunk: Change) -> list[Change]:
    """A change of as many lines as there were, as one of each."""
    if len(hunk.lines) != hunk.end - hunk.start:
        return [hunk]
    return [replace(hunk, start=at, end=at + 1, lines=(line,)) for at, line in enumerate(hunk.lines, start=hunk.start)]


def _joined(hunks: Iterable[Change]) -> list[Change]:
    """Changes of lines that follow each other, as one."""
    found: list[Change] = []
    for hunk in hunks:
        if found and found[-1].end == hunk.start:
            hunk = replace(hunk, start=found[-1].start, lines=(*found.pop().lines, *hunk.lines))
        found.append(hunk)
    return found
