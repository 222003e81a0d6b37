"""Checks files: what `accelift check` is a shell over."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from accelift_codemod import diff, gates, remembered, timelimit
from accelift_codemod.api import guarded
from accelift_codemod.conversion import line_limit
from accelift_codemod.facts.accelerate import AccelerateFacts
from accelift_codemod.facts.index import FUNCTIONS, Index
from accelift_codemod.facts.reached import Reached
from accelift_codemod.facts.world import World
from accelift_codemod.lints import all_lints
from accelift_codemod.plan import Finding, Outcome, Plan
from accelift_codemod.project import parts
from accelift_codemod.project.linking import link
from accelift_codemod.project.naming import CannotLink
from accelift_codemod.project.program import Program
from accelift_codemod.project.recent import understood
from accelift_codemod.project.surface import accelerates, led_to_accelerate
from accelift_codemod.refusals import already_uses
from accelift_codemod.results import FileResult
from accelift_codemod.rewrite import CannotRewrite, rewrite
from accelift_codemod.source import BadSource, Source, read_bytes


@dataclass(frozen=True)
class Choice:
    """The lints that were asked for: all, only some, all but some."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fix: bool = False  # set right what certainly can be; the findings are those that are left
    time_limit: float = timelimit.DEFAULT  # for one file, in seconds

    def chooses(self, code: str) -> bool:
        return (not self.select or code in self.select) and code not in self.ignore


def check_source(source: Source, choice: Choice, place: Path | None = None) -> FileResult:
    """Check one decoded script, with the project files that it imports if it has a place.

    What is found in those files is in the result's members.

    Raises:
        BadSource: it does not parse.
    """
    program = _program(source, place) if place is not None else None
    facts = AccelerateFacts(program or source)
    if already_uses(facts.index) is None and not _star(facts):
        return FileResult(source.path, skipped=True)
    findings = _found(World(facts), choice)
    fixes = choice.fix and not source.path.endswith(".ipynb")
    edits = tuple(edit for finding in findings for edit in finding.fix) if fixes else ()
    left = tuple(finding for finding in findings if not (fixes and finding.fix))
    whole = Plan(source.path, source.digest, (), findings, Outcome.CHECKED)
    plan = replace(whole, edits=edits, findings=left)
    if program is None:
        return _fixed(source, facts.written, plan, whole, choice)
    told = parts.divide(program, whole)
    try:
        divided = parts.divide(program, plan)
    except parts.CannotSpell:  # a fix would need what its file does not import
        divided = told
    plans = {unit: (replace(divided.get(unit, one), outcome=Outcome.CHECKED), one) for unit, one in told.items()}
    results = {unit: _fixed(unit.source, unit.index, one, all_, choice) for unit, (one, all_) in plans.items()}
    return replace(results.pop(program.entry), members=tuple(results.values()))


def _program(source: Source, place: Path) -> Program | None:
    """A script with the project files that it imports, if they can be followed; their functions do nothing that it
    does not run."""
    try:
        program = link(source, place)
    except CannotLink:
        return None
    if program is not None:
        reached = Reached(Index(program.tree), apart=True)
        for function in reached.index.functions if reached.known else ():
            idle = program.unit(function.lineno) is not program.entry and function not in reached.functions
            if idle and isinstance(function, FUNCTIONS):
                function.body = [ast.copy_location(ast.Pass(), function.body[0])]
    return program


def _found(world: World, choice: Choice) -> tuple[Finding, ...]:
    found: list[Finding] = []
    if world.library:
        for lint in all_lints():
            if choice.chooses(lint.code) and lint.library in ("", world.library):
                found += lint.check(world)
    return tuple(sorted(dict.fromkeys(found), key=lambda f: (f.line, f.code)))


def _fixed(source: Source, index: Index, plan: Plan, whole: Plan, choice: Choice) -> FileResult:
    """A file with what is certain set right, by the same rewriter and gates as a conversion; the `whole` of what was
    found, if that fails."""
    if not plan.edits:
        return FileResult(source.path, plan)

    def again(output: Source, _: Index) -> bool:
        result = check_source(output, replace(choice, fix=False))
        return result.plan is not None and any(f.fix for f in result.plan.findings)

    try:
        rewritten = rewrite(source, index, plan.edits, line_limit(source.path))
        problems = gates.failures(source, index, rewritten, again)
    except CannotRewrite as error:
        problems = [str(error)]
    if problems:
        message = f"{source.path}: cannot be fixed ({'; '.join(problems)}); leave --fix out, and please report it"
        return FileResult(source.path, replace(whole, outcome=Outcome.CHECKED), error=message, fault=True)
    text = diff.unified(source.path, source.lines, rewritten.changes, source.bom)
    return FileResult(source.path, plan, text, source.encoding, source.encode(rewritten.text))


def _star(facts: AccelerateFacts) -> bool:
    return any(module.partition(".")[0] in ("accelerate", "accelift") for module in facts.index.star_imports)


def check_bytes(data: bytes, path: str, choice: Choice, place: Path | None = None) -> FileResult:
    """Check a script or notebook given as bytes.

    Args:
        data: the script.
        path: what it is called.
        choice: what is looked for.
        place: where it lies, if the project files that it imports are to be looked at with it.
    """
    if path.endswith(".ipynb"):
        return guarded(path, lambda: _check_notebook(data, path, choice, place), choice.time_limit)
    return guarded(path, lambda: _check_script(data, path, choice, place), choice.time_limit)


def _check_script(data: bytes, path: str, choice: Choice, place: Path | None) -> FileResult:
    source = Source.decode(data, path) if place is None else understood(data, path)
    if not _concerned(data, place):
        source.tree  # noqa: B018  (raises if it does not parse)
        return FileResult(path, skipped=True)
    return check_source(source, choice, place)


def _concerned(data: bytes, place: Path | None) -> bool:
    """Whether a script mentions Accelerate, or a project file that it may import does."""
    return accelerates(data) or (place is not None and place.suffix == ".py" and led_to_accelerate(place))


def _check_notebook(data: bytes, path: str, choice: Choice, place: Path | None) -> FileResult:
    from accelift_codemod.notebook import Notebook  # late: most files are none

    book = Notebook(data, path)
    with book.places():
        return book.told(check_source(book.source, choice, place))


def check_file(file: tuple[str, bool], choice: Choice) -> FileResult:
    """Check one file, given with whether the user named it: others are only looked at if they, or files that they
    import, mention Accelerate."""
    path, named = file
    try:
        data = read_bytes(path)
    except BadSource as error:
        return FileResult(path, error=str(error))
    if not named and not _concerned(data, Path(path)):
        return FileResult(path, skipped=True)
    return check_bytes(data, path, choice, Path(path)).light()


def check_files(
    files: Sequence[tuple[str, bool]], choice: Choice, jobs: int = 1, advance: Callable[[], None] = lambda: None
) -> Iterator[FileResult]:
    """Check files, on several processes if asked to: their results in order, then those of others they import.

    Args:
        files: each with whether the user named it.
        choice: what is looked for.
        jobs: processes.
        advance: is called after every file; results come when all are checked.
    """
    remembered.forget()  # what an earlier run saw
    work = partial(check_file, choice=choice)
    results: list[FileResult] = []
    for result in map(work, files) if jobs <= 1 or len(files) < 2 else _shared_out(work, files, jobs):
        results.append(result)
        advance()
    yield from _merged(results)


def _shared_out(
    work: Callable[[tuple[str, bool]], FileResult], files: Sequence[tuple[str, bool]], jobs: int
) -> Iterator[FileResult]:
    from accelift_codemod import workers  # late

    return workers.each(work, files, jobs, chunk=max(1, len(files) // (jobs * 4)))


def _merged(results: Sequence[FileResult]) -> Iterator[FileResult]:
    """Results of scripts, with what was found in a file by itself and from the scripts that import it in one place."""
    found = {os.path.realpath(result.path): replace(result, members=()) for result in results}
    for member in (member for result in results for member in result.members):
        place = os.path.realpath(member.path)
        own = found.get(place)
        found[place] = member if own is None or own.plan is None else _joined(own, member)
    yield from found.values()


def _joined(own: FileResult, member: FileResult) -> FileResult:
    """What was found in a file by itself, and what a script that imports it adds."""
    assert own.plan is not None and member.plan is not None
    known = {(finding.line, finding.code) for finding in own.plan.findings}
    more = [finding for finding in member.plan.findings if (finding.line, finding.code) not in known]
    findings = tuple(sorted((*own.plan.findings, *more), key=lambda f: (f.line, f.code)))
    edited = own if own.plan.edits else replace(member, path=own.path)
    assert edited.plan is not None
    return replace(edited, plan=replace(edited.plan, findings=findings))
