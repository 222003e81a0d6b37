"""Converts files: what the command line is a shell over."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from accelift_codemod import remembered, timelimit
from accelift_codemod.options import Options
from accelift_codemod.outcomes import Outcome, Severity
from accelift_codemod.results import FileResult
from accelift_codemod.source import BadSource, Python2Source, Source, read_bytes

_MARK = b"torch"
_MOST_OBJECTS = 2_000_000


def convert_file(path: str | Path, options: Options, named: bool = True) -> FileResult:
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
        if not named:
            return FileResult(shown, skipped=True)
        return guarded(shown, lambda: _without_torch(Path(path), shown, data, options), options.time_limit)
    return convert_bytes(data, shown, options, Path(path))


def _may_train(result: FileResult) -> bool:
    """Whether there is a training in a file, whoever runs it."""
    return result.plan is not None and all(finding.code != "NO-TRAINING" for finding in result.plan.findings)


def _without_torch(path: Path, shown: str, data: bytes, options: Options) -> FileResult:
    """A file that the user named, and that does not mention torch, but may import what does."""
    from accelift_codemod import by_import  # late: most files are found in folders

    return convert_bytes(data, shown, options, path) if by_import.leads_to_torch(path) else _foreign(shown, data)


def _foreign(shown: str, data: bytes) -> FileResult:
    """A file that the user named, and that does not mention torch: it is at least checked for being Python, or a
    notebook with code."""
    if shown.endswith(".ipynb"):
        from accelift_codemod.notebook import Notebook  # late: most files are none

        Notebook(data, shown)
        return FileResult(shown, skipped=True)
    try:
        Source.decode(data, shown).tree  # noqa: B018  (raises if it does not parse)
    except Python2Source as error:
        return _python2(shown, error)
    return FileResult(shown, skipped=True)


def convert_bytes(data: bytes, path: str, options: Options, place: Path | None = None) -> FileResult:
    """Convert a script or notebook given as bytes. Nothing is written.

    Args:
        data: the script.
        path: what it is called.
        options: the user's choices.
        place: where it lies, if the project files that it imports are to be converted with it.
    """

    def work() -> FileResult:
        from accelift_codemod import conversion  # late: most files of a tree have nothing to do with torch

        try:
            if path.endswith(".ipynb"):
                return conversion.convert_notebook(data, path, options, place)
            return conversion.convert_script(data, path, options, place)
        except Python2Source as error:
            return _python2(path, error)

    return guarded(path, work, options.time_limit).light()


def _python2(path: str, error: Python2Source) -> FileResult:
    from accelift_codemod.plan import Finding  # late, as above

    finding = Finding("PYTHON2", Severity.ERROR, error.line, error.problem, error.remedy)
    return FileResult.refused(path, "", finding)


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
    except Exception as error:  # of our own making: it costs this file, and no other
        from accelift_codemod import faults  # late: there are none

        return FileResult(path, error=f"{path}: {faults.told(error)}", fault=True)


def convert_files(
    files: Sequence[tuple[str | Path, bool]],
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
    remembered.forget()  # what an earlier run saw
    results: dict[int, FileResult] = {}
    if jobs <= 1 or len(files) < 2:
        for i, (path, named) in enumerate(files):
            _tidy()
            results[i] = convert_file(path, options, named)
            advance()
    else:
        from accelift_codemod import workers  # late

        work = partial(_convert_chunk, files=files, options=options)
        for done in workers.each(work, _balanced(files, jobs * 4), jobs):
            results.update(done)
            for _ in done:
                advance()
    trains = [Path(path) for i, (path, _) in enumerate(files) if _may_train(results[i])]
    if trains:
        _leave_to_imports(files, results, trains, options)
    found = [results[i] for i in range(len(files))]
    if not any(result.members or result.sharers for result in found):
        return found
    from accelift_codemod.project import groups  # late: few scripts change other files

    return groups.settle(found, partial(_alone, options=options), partial(_sparing, options=options))


def _leave_to_imports(
    files: Sequence[tuple[str | Path, bool]], results: dict[int, FileResult], trains: Sequence[Path], options: Options
) -> None:
    """Convert scripts that were passed over, as they do not mention torch, but leave the training to files that they
    import."""
    from accelift_codemod import by_import  # late: most trees have nothing to do with torch

    around = {str(folder) for path in trains for folder in path.parents}
    stems = frozenset(path.parent.name if path.name == "__init__.py" else path.stem for path in trains)
    for i, (path, _) in enumerate(files):
        beside = results[i].skipped and (os.path.dirname(path) or ".") in around  # noqa: PTH120  (of every file)
        if beside and by_import.is_run(Path(path), stems) and by_import.leads_to_torch(Path(path)):
            looked_at = convert_file(path, options)
            if not _needs_nothing(looked_at) or by_import.asks(Path(path)):
                results[i] = looked_at  # else it need not be a script


def _needs_nothing(found: FileResult) -> bool:
    """Whether a file has nothing to do with training, as far as can be read."""
    old = found.plan is not None and any(finding.code == "PYTHON2" for finding in found.plan.findings)
    return old or found.outcome is Outcome.NOTHING


def _alone(script: FileResult, options: Options) -> FileResult:
    """What becomes of a script if the files that it imports stay as they are."""

    def work() -> FileResult:
        from accelift_codemod import conversion

        path = Path(script.path)
        convert = partial(conversion.convert_alone, options=options, place=path)
        return conversion.of_code(read_bytes(path), script.path, options, convert)

    return guarded(script.path, work, options.time_limit).light()


def _sparing(
    script: FileResult, options: Options, spared: frozenset[tuple[str, str]], apart: bool
) -> FileResult | None:
    """What becomes of a script if the loops of some functions stay as they are, and classes are `apart`; None if that
    does not do."""

    def work() -> FileResult:
        from accelift_codemod import conversion

        path = Path(script.path)

        def convert(source: Source) -> FileResult:
            return conversion.convert_sparing(source, path, options, spared, apart) or FileResult(script.path)

        return conversion.of_code(read_bytes(path), script.path, options, convert)

    result = guarded(script.path, work, options.time_limit).light()
    return result if result.output is not None else None


def _convert_chunk(
    places: list[int], files: Sequence[tuple[str | Path, bool]], options: Options
) -> list[tuple[int, FileResult]]:
    found = []
    for i in places:
        _tidy()
        found.append((i, convert_file(files[i][0], options, files[i][1])))
    return found


def _tidy() -> None:
    """Free what earlier files have left of their syntax trees, if the garbage collector is off and that is much."""
    if not gc.isenabled() and gc.get_count()[0] > _MOST_OBJECTS:
        gc.collect(0)


def _balanced(files: Iterable[tuple[str | Path, bool]], count: int) -> list[list[int]]:
    """Split files into chunks of about the same size in bytes."""
    sizes = []
    for i, (path, _) in enumerate(files):
        try:
            size = os.stat(path).st_size  # noqa: PTH116  (of every file)
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
