"""Scripts that share files: each file is changed in one way, or the scripts that want it otherwise are left alone."""

from __future__ import annotations

import os
from collections.abc import Sequence

from accelift_codemod.plan import Finding, Severity
from accelift_codemod.remembered import remembered
from accelift_codemod.results import FileResult


def settle(results: Sequence[FileResult]) -> list[FileResult]:
    """The results of files, such that no two scripts want one file changed in different ways.

    A script whose conversion changes what another one uses is left alone, unless the other wants the same change.
    """
    if not any(r.members for r in results):
        return list(results)
    own = {_real(r.path): r for r in results}
    while True:
        changing = _changing(own)
        spoiled = next(
            (found for r in own.values() if r.members and (found := _spoiled(r, changing)) is not None), None
        )
        if spoiled is None:
            break
        for result in spoiled:
            own[_real(result.path)] = result
    return list(own.values())


def _changing(own: dict[str, FileResult]) -> dict[str, list[FileResult]]:
    """The scripts whose conversion changes a file, which may be the script itself, by that file."""
    found: dict[str, list[FileResult]] = {}
    for real, result in own.items():
        for path in dict.fromkeys([real, *(_real(m.path) for m in result.members)]):
            found.setdefault(path, []).append(result)
    return found


def flattened(results: Sequence[FileResult]) -> list[FileResult]:
    """The results of files, with those of the files that change along with scripts among them, each file once."""
    if not any(r.members for r in results):
        return list(results)
    own = {_real(r.path): r for r in results}
    members: dict[str, FileResult] = {}
    for script in results:
        for member in script.members:
            members.setdefault(_real(member.path), member)
    found: list[FileResult] = []
    for real, result in own.items():
        found.append(members.pop(real) if real in members and result.output is None else result)
        members.pop(real, None)
    return [*found, *members.values()]


def _spoiled(script: FileResult, changing: dict[str, list[FileResult]]) -> list[FileResult] | None:
    """What becomes of a script, and of another, if both cannot be converted; None if they can."""
    for member in script.members:
        real = _real(member.path)
        for other in changing[real]:
            theirs = other if _real(other.path) == real else _member(other, real)
            if other is script or theirs is None or theirs.output is None or theirs.output == member.output:
                continue
            return [
                _refused(script, f"{member.path} would have to be changed in another way for {other.path}"),
                _refused(other, f"{member.path} would have to be changed in another way for {script.path}"),
            ]
    for sharer in script.sharers:
        real = _real(sharer.member)
        mine = _member(script, real)
        if not any(_agrees(r, sharer.path, mine, real) for r in changing.get(real, ()) if r is not script):
            user = "its own `if __name__` block" if _real(sharer.path) == real else _shown(sharer.path)
            message = f"the conversion changes {sharer.name} in {sharer.member}, which {user} uses, too"
            return [script.instead or _refused(script, message)]
    return None


def _agrees(other: FileResult, path: str, mine: FileResult | None, real: str) -> bool:
    """Whether a file that uses a member belongs to a script that changes that member in the same way."""
    theirs = _member(other, real)
    return _real(path) in other.program and theirs is not None and mine is not None and theirs.output == mine.output


def _member(script: FileResult, real: str) -> FileResult | None:
    return next((m for m in script.members if _real(m.path) == real), None)


def _refused(script: FileResult, message: str) -> FileResult:
    remedy = "convert the scripts that share it together, in a way that suits all, or give this one a copy of its own"
    finding = Finding("SHARED-FILE", Severity.ERROR, 0, message, remedy)
    digest = script.plan.digest if script.plan is not None else ""
    return FileResult.refused(script.path, digest, finding)


@remembered
def _real(path: str) -> str:
    return os.path.realpath(path)


def _shown(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
