"""Converts files: what the command line is a shell over."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from accelift_codemod import diff, gates, timelimit
from accelift_codemod.blueprint import Options
from accelift_codemod.facts import Facts
from accelift_codemod.facts.index import Index
from accelift_codemod.plan import Finding, Outcome, Plan, Severity
from accelift_codemod.planner import make_plan
from accelift_codemod.refusals import already_uses
from accelift_codemod.rewrite import CannotRewrite, rewrite
from accelift_codemod.rewrite.layout import line_length
from accelift_codemod.source import BadSource, Python2Source, Source, read_bytes

_MARK = b"torch"
_TRAINS = (b"backward", b"Trainer", b"lightning", b"fastai", b"ignite", b"accelerate", b"accelift")


@dataclass(frozen=True)
class FileResult:
    """What became of one file.

    `error` is set for a file that could not be processed; `skipped` for one that has nothing to do with torch;
    `fault` if one of the checks on the tool's own output failed. `diff` is text whatever the `encoding` of the file:
    `diff.encoded` makes of it what can be applied to the file.
    """

    path: str
    plan: Plan | None = None
    diff: str = ""
    encoding: str = "utf-8"
    output: bytes | None = None
    config: str = ""
    error: str = ""
    skipped: bool = False
    fault: bool = False

    @property
    def outcome(self) -> Outcome:
        return self.plan.outcome if self.plan is not None else Outcome.NOTHING

    def to_json(self) -> dict[str, Any]:
        """The result as plain data: the same keys for every file, empty if they do not apply.

        A file with an `error` may have edits all the same: those of a conversion that could not be written.
        """
        data = (self.plan or Plan(self.path, "")).to_json()
        if self.skipped:
            data["reason"] = "does not mention torch"
        if self.error:
            data["outcome"] = "error"
        return {**data, "error": self.error, "diff": self.diff, "launch_config": self.config}


def convert_source(source: Source, options: Options, width: int | None = None) -> FileResult:
    """Convert one decoded script. Nothing is written.

    Raises:
        BadSource: it does not parse.
    """
    if not any(mark in source.data for mark in _TRAINS):
        source.tree  # noqa: B018  (raises if it does not parse)
        finding = Finding("NO-TRAINING", Severity.NOTE, 0, "runs no backward pass", "convert the script that trains")
        plan = Plan(source.path, source.digest, (), (finding,), Outcome.NOTHING, finding.message)
        return FileResult(source.path, plan)
    facts = Facts(source)
    plan, draft = make_plan(facts, options)
    plan = _without_ignored(plan, options)
    if draft is None:
        config = ""
        if any(f.code == "FRAMEWORK" for f in plan.findings):
            config = _config(facts, None, options)
        return FileResult(source.path, plan, config=config)
    try:
        rewritten = rewrite(source, facts.written, plan.edits, width or limit(source.path))
        problems = gates.failures(source, facts.written, rewritten, _would_change)
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
        _config(facts, draft, options),
    )


def _config(facts: Facts, draft: Any, options: Options) -> str:
    from accelift_codemod.launch_config import launch_config  # late: yaml

    return launch_config(facts, draft, options)


def limit(path: str) -> int:
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
    return convert_bytes(data, shown, options)


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


def convert_bytes(data: bytes, path: str, options: Options) -> FileResult:
    """Convert a script or notebook given as bytes. Nothing is written."""
    convert = _convert_notebook if path.endswith(".ipynb") else _convert_script
    return guarded(path, lambda: convert(data, path, options), options.time_limit)


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
        return FileResult(path, error=f"{path}: nests too deeply; split the deepest expression")


def _convert_script(data: bytes, path: str, options: Options) -> FileResult:
    try:
        return convert_source(Source.decode(data, path), options)
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
    )


def _python2(path: str, error: Python2Source) -> FileResult:
    finding = Finding("PYTHON2", Severity.ERROR, error.line, error.problem, error.remedy)
    return FileResult(path, Plan(path, "", (), (finding,), Outcome.REFUSED, error.problem))


def convert_files(files: Sequence[tuple[Path, bool]], options: Options, jobs: int = 1) -> Iterator[FileResult]:
    """Convert files, in their order, on several processes if asked to. Nothing is written.

    Args:
        files: each with whether the user named it.
        options: the user's choices.
        jobs: processes.
    """
    if jobs <= 1 or len(files) < 2:
        for path, named in files:
            yield convert_file(path, options, named)
        return
    from concurrent.futures import ProcessPoolExecutor  # late

    warnings.simplefilter("ignore", DeprecationWarning)
    chunks = _balanced(files, jobs * 4)
    results: dict[int, FileResult] = {}
    following = 0
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        work = partial(_convert_chunk, files=files, options=options)
        for done in pool.map(work, chunks):
            results.update(done)
            while following in results:
                yield results.pop(following)
                following += 1
    for i in sorted(results):
        yield results[i]


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
