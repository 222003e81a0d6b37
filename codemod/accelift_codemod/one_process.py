"""The conversion of scripts that also run on one process, without their own distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from accelift_codemod.facts.index import Index
from accelift_codemod.gates import unused_imports
from accelift_codemod.plan import Outcome
from accelift_codemod.project.finder import Finder, imported, project_folder
from accelift_codemod.project.users import users
from accelift_codemod.results import FileResult
from accelift_codemod.single import Single, Understood, single
from accelift_codemod.single.back import back
from accelift_codemod.single.defaults import Several
from accelift_codemod.source import Source


@dataclass(frozen=True)
class Ways:
    """How facts are had of a script with its files, and how what is left of it is converted."""

    facts: Understood
    convert: Callable[[Single], FileResult]


def converted(result: FileResult, source: Source, place: Path | None, ways: Ways) -> FileResult:
    """The conversion of a script without its own distribution.

    Where there is none, the `result` of the script as it is, which says why if it never makes a process group.

    Raises:
        CannotRewrite: a diff would not lead to the output.
    """
    try:
        found = single(ways.facts)
    except Several as several:
        return _undecided(result, several)
    new = ways.convert(found)
    if new.output is None and found.switch:
        return _neither(result, found, new)
    if new.output is not None and place is not None and source.path in found.files and _is_used(source, place):
        return _undecided(result, Several("" if found.switch else "asks for a process group, and others use it, too"))
    if new.output is not None and (left := _left(source, found, new)):
        return _undecided(result, Several(f"uses {left}, and what it takes from it cannot be followed"))
    return replace(back(found, new), otherwise=result if found.switch else None)


def _left(source: Source, found: Single, new: FileResult) -> str:
    """A file of which something is taken out, that is not among those that change, and that the script still uses;
    empty if there is none."""
    changed = {new.path, *(member.path for member in new.members)}
    left = {Path(path).resolve(): path for path in found.files if path not in changed}
    entry = found.sources.get(source.path, source)
    finder, index = Finder(Path(entry.path), entry), Index.of(entry.tree)
    for statement in index.imports if left else ():
        if any((a.asname or a.name.partition(".")[0]) not in unused_imports(index) for a in statement.names):
            for path in (p for name, level in imported(statement) for p in finder.files(name, level, finder.script)):
                if path in left:
                    return left[path]
    return ""


def _neither(result: FileResult, found: Single, new: FileResult) -> FileResult:
    """The result of a script that is left alone, with why that for one process which it has is left alone, too."""
    plan = result.plan
    refused = new.plan.findings[:1] if new.plan is not None and new.outcome is Outcome.REFUSED else ()
    if plan is None or not refused or refused[0].code == "ALREADY-DISTRIBUTED":
        return result
    folded = found.files.get(new.path)
    line = folded.written_line(refused[0].line) if folded is not None else refused[0].line
    where = f" (line {line})" if line else ""
    why = f"without `{found.switch}`, it would be left alone, too: {refused[0].code}, {refused[0].message}{where}"
    told = tuple(
        replace(finding, message=f"{finding.message}; {why}", remedy=refused[0].remedy)
        if finding.code == "ALREADY-DISTRIBUTED"
        else finding
        for finding in plan.findings
    )
    return replace(result, plan=replace(plan, findings=told, reason=f"{plan.reason}; {why}"))


def _undecided(result: FileResult, several: Several) -> FileResult:
    """The result of a script that is left alone, with why it is not known to run on one process only."""
    plan = result.plan
    if plan is None or not several.why:
        return result
    path, line = several.at
    own = path in ("", result.path)
    where = "" if own else f"{path}:{line}: "
    message, remedy = f"{where}{several.why}", "take out what it does with other processes, or keep it"
    told = tuple(
        replace(finding, line=line if own else 0, message=message, remedy=remedy)
        if finding.code == "ALREADY-DISTRIBUTED"
        else finding
        for finding in plan.findings
    )
    return replace(result, plan=replace(plan, findings=told, reason=message))


def _is_used(source: Source, place: Path) -> bool:
    """Whether another file of the project uses something that a script defines."""
    path = place.resolve()
    names = set(Index.of(source.tree).module.bindings)
    return any(read for _, read in users(project_folder(path.parent), path, names, {path}))
