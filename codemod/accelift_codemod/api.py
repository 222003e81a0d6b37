"""Converts files: what the command line is a shell over."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from accelift_codemod import diff, gates, groups, settings, timelimit
from accelift_codemod.blueprint import Options
from accelift_codemod.facts import Facts
from accelift_codemod.facts.index import Index
from accelift_codemod.plan import Finding, Need, Outcome, Plan, Severity
from accelift_codemod.planner import make_plan
from accelift_codemod.project import finder, parts, sharing
from accelift_codemod.project.linking import link
from accelift_codemod.project.naming import CannotLink
from accelift_codemod.project.program import Program
from accelift_codemod.refusals import already_uses
from accelift_codemod.results import FileResult
from accelift_codemod.rewrite import CannotRewrite, rewrite
from accelift_codemod.rewrite.layout import line_length
from accelift_codemod.source import BadSource, Python2Source, Source, read_bytes

_MARK = b"torch"
_TRAINS = (b"backward", b"Trainer", b"lightning", b"fastai", b"ignite", b"accelerate", b"accelift")


def convert_source(source: Source, options: Options, limit: int | None = None) -> FileResult:
    """Convert one decoded script. Nothing is written.

    Raises:
        BadSource: it does not parse.
    """
    if not any(mark in source.data for mark in _TRAINS):
        source.tree  # noqa: B018  (raises if it does not parse)
        finding = Finding("NO-TRAINING", Severity.NOTE, 0, "runs no backward pass", "convert the script that trains")
        plan = Plan(source.path, source.digest, (), (finding,), Outcome.NOTHING, finding.message)
        return FileResult(source.path, plan)
    facts = Facts(source, settings.roles(Path(source.path)))
    plan, draft = make_plan(facts, options)
    plan = _without_ignored(plan, options)
    if draft is None:
        return _left_alone(facts, plan, options)
    result = _rewritten(source, facts.written, plan, limit, _would_change)
    if result.output is None:
        return result
    return replace(result, config=_config(facts, draft, options), distributes=facts.processes.managed)


def convert_program(program: Program, options: Options) -> FileResult:
    """Convert a script and the project files that it imports. Nothing is written."""
    if not program.mentions(*_TRAINS):
        return convert_source(program.entry.source, options)
    facts = Facts(program, settings.roles(program.entry.path))
    plan, draft = make_plan(facts, options)
    if draft is None:
        return _left_alone(facts, parts.refusal(program, plan), options)
    try:
        plans = parts.divide(program, _without_ignored(plan, options))
    except parts.CannotSpell as error:
        finding = Finding("ACC-REACH", Severity.ERROR, 0, str(error), "import it there")
        return FileResult(
            program.path, Plan(program.path, program.digest, (), (finding,), Outcome.REFUSED, finding.message)
        )
    ready: list[bool] = []  # for each file: whether it now uses the accelerator; one is enough

    def noted(source: Source, index: Index) -> bool:
        ready.append(not _would_change(source, index))
        return False

    results = {unit: _rewritten(unit.source, unit.index, own, None, noted) for unit, own in plans.items()}
    failed = next((r for r in results.values() if r.output is None and r.outcome is not Outcome.CHECKED), None)
    if failed is not None:
        return replace(failed, path=program.path)
    if ready and not any(ready):
        return _clash(program.entry.source, gates.UNSTABLE, fault=True)
    changed = {unit: result for unit, result in results.items() if unit is not program.entry}
    entry = replace(
        results[program.entry],
        config=_config(facts, draft, options),
        distributes=facts.processes.managed,
        members=tuple(changed.values()),
        program=tuple(str(unit.path) for unit in program.units),
    )
    sharers = sharing.sharers(program, {unit: result.plan.edits for unit, result in changed.items() if result.plan})
    if not sharers:
        return entry
    needed = any(e.need is Need.STRONG for r in changed.values() if r.plan for e in r.plan.edits)
    alone = convert_source(program.entry.source, options)
    return replace(entry, sharers=sharers, instead=alone if alone.output is not None and not needed else None)


def _left_alone(facts: Facts, plan: Plan, options: Options) -> FileResult:
    framework = any(f.code == "FRAMEWORK" for f in plan.findings)
    config = _config(facts, None, options) if framework else ""
    return FileResult(plan.path, plan, config=config, distributes=facts.processes.managed)


def _rewritten(
    source: Source, index: Index, plan: Plan, limit: int | None, again: Callable[[Source, Index], bool]
) -> FileResult:
    """A file as its plan wants it, or why it cannot be had."""
    if plan.outcome is Outcome.CHECKED:
        return FileResult(source.path, plan)
    try:
        rewritten = rewrite(source, index, plan.edits, limit or line_limit(source.path))
        problems = gates.failures(source, index, rewritten, again)
    except CannotRewrite as error:
        return _clash(source, str(error), fault=False)
    if problems:
        return _clash(source, "; ".join(problems), fault=True)
    return FileResult(
        source.path,
        plan,
        diff.unified(source.path, source.lines, rewritten.changes, source.bom),
        source.encoding,
        source.encode(rewritten.text),
    )


def _config(facts: Facts, draft: Any, options: Options) -> str:
    from accelift_codemod.launch_config import launch_config  # late: yaml

    return launch_config(facts, draft, options)


def line_limit(path: str) -> int:
    """The length of lines that the file's project asks for."""
    return line_length(Path(os.path.normpath(Path(path).absolute())).parent)


def _would_change(source: Source, index: Index) -> bool:
    """Whether converting an output again would plan anything: it imports the accelerator, so it is left alone."""
    return not already_uses(index)


def _without_ignored(plan: Plan, options: Options) -> Plan:
    if not options.ignore or plan.outcome in (Outcome.REFUSED, Outcome.NOTHING):
        return plan
    kept = tuple(f for f in plan.findings if f.code not in options.ignore)
    outcome = plan.outcome
    if outcome is Outcome.CONVERTED_WITH_FINDINGS and all(f.severity is Severity.NOTE for f in kept):
        outcome = Outcome.CONVERTED
    return replace(plan, findings=kept, outcome=outcome)


def _clash(source: Source, message: str, fault: bool) -> FileResult:
    remedy = "please report it" if fault else "put the statements on lines of their own"
    finding = Finding("CLASH", Severity.ERROR, 0, message, remedy)
    plan = Plan(source.path, source.digest, (), (finding,), Outcome.REFUSED, message)
    return FileResult(source.path, plan, error=f"{source.path}: {message}; {remedy}" if fault else "", fault=fault)


def convert_file(path: Path, options: Options, named: bool = True) -> FileResult:
    """Convert one file. Nothing is written.

    Args:
        path: the file.
        options: the user's choices.
        named: the user named the file (else it was found in a folder, where an empty or foreign file is no error).
    """
    shown = str(path)
    try:
        data = read_bytes(path)
    except BadSource as error:
        return FileResult(shown, error=str(error))
    if _MARK not in data and (not named or data.strip()) and b"\0" not in data:
        return _foreign(shown, data, named)
    return convert_bytes(data, shown, options, path)


def _foreign(shown: str, data: bytes, named: bool) -> FileResult:
    """A file that does not mention torch. One that the user named is at least checked for being Python."""
    if named:
        try:
            Source.decode(data, shown).tree  # noqa: B018  (raises if it does not parse)
        except Python2Source as error:
            return _python2(shown, error)
        except BadSource as error:
            return FileResult(shown, error=str(error))
    return FileResult(shown, skipped=True)


def convert_bytes(data: bytes, path: str, options: Options, place: Path | None = None) -> FileResult:
    """Convert a script or notebook given as bytes. Nothing is written.

    Args:
        data: the script.
        path: what it is called.
        options: the user's choices.
        place: where it lies, if the project files that it imports are to be converted with it.
    """
    if path.endswith(".ipynb"):
        return guarded(path, lambda: _convert_notebook(data, path, options), options.time_limit)
    return guarded(path, lambda: _convert_script(data, path, options, place), options.time_limit)


def guarded(path: str, work: Callable[[], FileResult], time_limit: float) -> FileResult:
    """What becomes of a file, or why it could not be processed."""
    try:
        with timelimit.within(time_limit):
            return work()
    except timelimit.TookTooLong:
        remedy = "give it more with --time-limit, or split its longest function"
        return FileResult(path, error=f"{path}: is not understood in {time_limit:g} s of processor time; {remedy}")
    except BadSource as error:
        return FileResult(path, error=str(error))
    except RecursionError:
        what = "nests too deeply, or too many functions call each other in a row"
        return FileResult(path, error=f"{path}: {what}; split the deepest expression, or the chain of calls")


def _convert_script(data: bytes, path: str, options: Options, place: Path | None) -> FileResult:
    try:
        source = Source.decode(data, path)
        program = link(source, place, settings.roles(place)) if place is not None else None
        return convert_source(source, options) if program is None else convert_program(program, options)
    except CannotLink:
        return convert_source(source, options)
    except Python2Source as error:
        return _python2(path, error)


def _convert_notebook(data: bytes, path: str, options: Options) -> FileResult:
    from accelift_codemod import notebook  # late: most files are none

    book = notebook.Notebook(data, path)
    with book.places():
        result = convert_source(book.source, options)
    plan = result.plan
    if plan is None or result.fault:
        return result
    edits, findings = tuple(map(book.edit, plan.edits)), tuple(map(book.finding, plan.findings))
    if result.output is None:
        return replace(result, plan=replace(plan, digest=book.digest, edits=edits, findings=findings))
    script = result.output.decode()
    try:
        output, changes = book.changed(script)
    except CannotRewrite as error:
        clash = _clash(book.source, str(error), fault=False)
        return replace(clash, plan=replace(clash.plan, digest=book.digest) if clash.plan else None)
    if "NOTEBOOK" not in options.ignore:
        findings += (notebook.note(script),)
    return replace(
        result,
        plan=replace(plan, digest=book.digest, edits=edits, findings=findings),
        diff=diff.unified(path, book.lines, changes),
        output=output,
        config=book.config(result.config),
    )


def _python2(path: str, error: Python2Source) -> FileResult:
    finding = Finding("PYTHON2", Severity.ERROR, error.line, error.problem, error.remedy)
    return FileResult(path, Plan(path, "", (), (finding,), Outcome.REFUSED, error.problem))


def convert_files(
    files: Sequence[tuple[Path, bool]],
    options: Options,
    jobs: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> list[FileResult]:
    """Convert files, in their order, on several processes if asked to. Nothing is written.

    Files that change along with a script are its `members`: `groups.flattened` lists them with the rest.

    Args:
        files: each with whether the user named it.
        options: the user's choices.
        jobs: processes.
        advance: is called after every file.
    """
    for module in (finder, sharing, settings, groups):
        module.forget()  # what an earlier run saw
    results: dict[int, FileResult] = {}
    if jobs <= 1 or len(files) < 2:
        for i, (path, named) in enumerate(files):
            results[i] = convert_file(path, options, named)
            advance()
    else:
        from concurrent.futures import ProcessPoolExecutor  # late

        warnings.simplefilter("ignore", DeprecationWarning)
        chunks = _balanced(files, jobs * 4)
        with ProcessPoolExecutor(max_workers=jobs) as pool:
            work = partial(_convert_chunk, files=files, options=options)
            for done in pool.map(work, chunks):
                results.update(done)
                for _ in done:
                    advance()
    return groups.settle([results[i] for i in range(len(files))])


def _convert_chunk(
    places: list[int], files: Sequence[tuple[Path, bool]], options: Options
) -> list[tuple[int, FileResult]]:
    return [(i, convert_file(files[i][0], options, files[i][1])) for i in places]


def _balanced(files: Iterable[tuple[Path, bool]], count: int) -> list[list[int]]:
    """Split files into chunks of about the same size in bytes."""
    sizes = []
    for i, (path, _) in enumerate(files):
        try:
            size = path.stat().st_size
        except OSError:
            size = 0
        sizes.append((size, i))
    chunks: list[list[int]] = [[] for _ in range(min(count, len(sizes)))]
    weights = [0] * len(chunks)
    for size, i in sorted(sizes, reverse=True):
        lightest = weights.index(min(weights))
        chunks[lightest].append(i)
        weights[lightest] += size + 2000
    return [sorted(c) for c in chunks if c]


def cpu_count() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
