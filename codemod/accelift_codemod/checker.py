"""Checks files: what `accelift check` is a shell over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from accelift_codemod import diff, gates, timelimit
from accelift_codemod.api import guarded
from accelift_codemod.conversion import line_limit
from accelift_codemod.facts.accelerate import AccelerateFacts
from accelift_codemod.facts.index import Index
from accelift_codemod.facts.world import World
from accelift_codemod.lints import all_lints
from accelift_codemod.plan import Finding, Outcome, Plan
from accelift_codemod.refusals import already_uses
from accelift_codemod.results import FileResult
from accelift_codemod.rewrite import CannotRewrite, rewrite
from accelift_codemod.source import BadSource, Source, read_bytes

_MARKS = (b"accelerate", b"accelift")


@dataclass(frozen=True)
class Choice:
    """The lints that were asked for: all, only some, all but some."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fix: bool = False  # set right what certainly can be; the findings are those that are left
    time_limit: float = timelimit.DEFAULT  # for one file, in seconds

    def chooses(self, code: str) -> bool:
        return (not self.select or code in self.select) and code not in self.ignore


def check_source(source: Source, choice: Choice) -> FileResult:
    """Check one decoded script.

    Raises:
        BadSource: it does not parse.
    """
    facts = AccelerateFacts(source)
    if already_uses(facts.index) is None and not _star(facts):
        return FileResult(source.path, skipped=True)
    world = World(facts)
    found: list[Finding] = []
    if world.library:
        for lint in all_lints():
            if choice.chooses(lint.code) and lint.library in ("", world.library):
                found += lint.check(world)
    findings = tuple(sorted(dict.fromkeys(found), key=lambda f: (f.line, f.code)))
    if not choice.fix or source.path.endswith(".ipynb"):
        return FileResult(source.path, Plan(source.path, source.digest, (), findings, Outcome.CHECKED))
    return _fixed(source, facts, findings, choice)


def _fixed(source: Source, facts: AccelerateFacts, findings: tuple[Finding, ...], choice: Choice) -> FileResult:
    """The script with what is certain set right, by the same rewriter and gates as a conversion."""
    edits = tuple(edit for finding in findings for edit in finding.fix)
    left = tuple(f for f in findings if not f.fix)
    plan = Plan(source.path, source.digest, edits, left, Outcome.CHECKED)
    if not edits:
        return FileResult(source.path, plan)

    def again(output: Source, _: Index) -> bool:
        result = check_source(output, replace(choice, fix=False))
        return result.plan is not None and any(f.fix for f in result.plan.findings)

    try:
        rewritten = rewrite(source, facts.written, edits, line_limit(source.path))
        problems = gates.failures(source, facts.written, rewritten, again)
    except CannotRewrite as error:
        problems = [str(error)]
    if problems:
        message = f"{source.path}: cannot be fixed ({'; '.join(problems)}); leave --fix out, and please report it"
        return FileResult(source.path, replace(plan, edits=(), findings=findings), error=message, fault=True)
    text = diff.unified(source.path, source.lines, rewritten.changes, source.bom)
    return FileResult(source.path, plan, text, source.encoding, source.encode(rewritten.text))


def _star(facts: AccelerateFacts) -> bool:
    return any(module.partition(".")[0] in ("accelerate", "accelift") for module in facts.index.star_imports)


def check_bytes(data: bytes, path: str, choice: Choice) -> FileResult:
    """Check a script or notebook given as bytes."""
    check = _check_notebook if path.endswith(".ipynb") else _check_script
    return guarded(path, lambda: check(data, path, choice), choice.time_limit)


def _check_script(data: bytes, path: str, choice: Choice) -> FileResult:
    source = Source.decode(data, path)
    if not any(mark in data for mark in _MARKS):
        source.tree  # noqa: B018  (raises if it does not parse)
        return FileResult(path, skipped=True)
    return check_source(source, choice)


def _check_notebook(data: bytes, path: str, choice: Choice) -> FileResult:
    from accelift_codemod.notebook import Notebook  # late: most files are none

    book = Notebook(data, path)
    with book.places():
        result = check_source(book.source, choice)
    if result.plan is None:
        return result
    findings = tuple(map(book.finding, result.plan.findings))
    return replace(result, plan=replace(result.plan, digest=book.digest, findings=findings))


def check_file(file: tuple[str, bool], choice: Choice) -> FileResult:
    """Check one file, given with whether the user named it: others are only looked at if they mention Accelerate."""
    path, named = file
    try:
        data = read_bytes(path)
    except BadSource as error:
        return FileResult(path, error=str(error))
    if not named and not any(mark in data for mark in _MARKS):
        return FileResult(path, skipped=True)
    return check_bytes(data, path, choice)


def check_files(files: Sequence[tuple[str, bool]], choice: Choice, jobs: int = 1) -> Iterator[FileResult]:
    """Check files, in their order, on several processes if asked to."""
    work = partial(check_file, choice=choice)
    if jobs <= 1 or len(files) < 2:
        yield from map(work, files)
        return
    from accelift_codemod import workers  # late

    yield from workers.each(work, files, jobs, chunk=max(1, len(files) // (jobs * 4)))
