"""Scripts that share files: each file is changed in one way, or the scripts that want it otherwise are left alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from accelift_codemod.plan import Finding, Outcome, Severity
from accelift_codemod.project.merging import compatible, merged
from accelift_codemod.remembered import remembered
from accelift_codemod.results import FileResult

if TYPE_CHECKING:
    from accelift_codemod.project.sharing import Sharer


_Alone = Callable[[FileResult], FileResult]
_Sparing = Callable[..., FileResult | None]
_Global = tuple[str, str]
_NAMED = 3  # files that a message names
_RACES = frozenset({"SAVE-RACE", "READ-EARLY"})  # what several processes do to one file


def settle(results: Sequence[FileResult], alone: _Alone, sparing: _Sparing) -> list[FileResult]:
    """The results of files, such that no two scripts want one file changed in different ways.

    A script whose conversion changes what another one uses is left alone, unless the other wants the same change, or
    the script does without it.

    Args:
        results: what became of each script.
        alone: converts a script, leaving other files as they are.
        sparing: converts a script, leaving the loops of some functions (`spared`, by file and name) as they are, and
            some classes without an accelerator (`apart`), and gives None if it cannot.
    """
    if not any(r.members or r.sharers for r in results):
        return list(results)
    return _Settlement(results, alone, sparing).results()


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
        found.append(_told(result, members[real]) if real in members and result.output is None else result)
        members.pop(real, None)
    return [*found, *members.values()]


def _told(script: FileResult, member: FileResult) -> FileResult:
    """What becomes of a file along with a script that imports it. If it is left alone as a script, it says why."""
    if script.plan is None or script.plan.outcome is not Outcome.REFUSED:
        return member
    if member.output is None or member.plan is None:
        return script
    findings = (*script.plan.findings, *member.plan.findings)
    outcome = Outcome.CONVERTED_WITH_FINDINGS
    return replace(member, plan=replace(member.plan, findings=findings, outcome=outcome))


_Reasons = list[tuple[FileResult, str]]


class _Settlement:
    """What becomes of scripts, one after the other, until no two of them disagree about a file."""

    def __init__(self, results: Sequence[FileResult], alone: _Alone, sparing: _Sparing) -> None:
        self.alone = alone
        self.sparing = sparing
        self.spared: dict[str, frozenset[_Global]] = {}  # what each script has done without so far
        self.own = {_real(r.path): r for r in results}
        self.users: dict[str, list[str]] = {}  # the scripts whose program has a file, by that file
        for real, result in self.own.items():
            for path in result.program:
                self.users.setdefault(path, []).append(real)

    def results(self) -> list[FileResult]:
        for clash in (self._changes_others, self._disagrees):  # who is left alone anyway, is in nobody's way
            queue = dict.fromkeys(real for real, r in self.own.items() if r.members or r.sharers)
            while queue:
                script = self.own[real := next(iter(queue))]
                del queue[real]
                losers = clash(script)
                ways = ((loser, self._otherwise(loser, message)) for loser, message in losers)
                found = next(((loser, way) for loser, way in ways if way is not None), None)
                lost = [found] if found else [(loser, self._refused(loser, message)) for loser, message in losers]
                for loser, result in lost:
                    queue.update(dict.fromkeys(user for path in loser.program for user in self.users[path]))
                    self.own[_real(loser.path)] = result
        for path in self.users:
            self._merge(path)
        return list(self.own.values())

    def _otherwise(self, script: FileResult, message: str) -> FileResult | None:
        """What becomes of a script that is in the way of others as it is, if it can be converted in another way."""
        return self._spares(script) or _instead(script, self.alone, message) or script.otherwise

    def _refused(self, script: FileResult, message: str) -> FileResult:
        together = "convert the scripts that share it together, in a way that suits all"
        users = (self.own.get(_real(s.path)) for s in script.sharers if not self._left_for_others(s))
        refused = [user for user in users if user is not None and user.outcome is Outcome.REFUSED]
        codes = {_shown(u.path): u.plan.findings[0].code for u in refused if u.plan is not None and u.plan.findings}
        first = {path: code for path, code in codes.items() if code != "SHARED-FILE"}  # the others wait for these
        if first:
            needs = _listed(f"{path} needs ({code})" for path, code in first.items())
            together = f"do first what {needs}, and convert them together"
        remedy = f"{together}, or give this one a copy of its own, with the files that it imports"
        digest = script.plan.digest if script.plan is not None else ""
        finding = Finding("SHARED-FILE", Severity.ERROR, 0, message, remedy)
        return replace(FileResult.refused(script.path, digest, finding), left=script.program)

    def _spares(self, script: FileResult) -> FileResult | None:
        """A script's conversion that leaves alone what others use that are not converted, or not in that way, if there
        is one."""
        real = _real(script.path)
        alone = [name for sharer in script.sharers if self._differs(script, sharer) for name in sharer.reasons]
        before = self.spared.get(real, frozenset())
        spared = before.union(alone, self._disputed(script))
        if spared == before:
            return None
        self.spared[real] = spared
        results = (self.sparing(script, spared=spared, apart=apart) for apart in (False, True))
        ways = (
            way for result in results if result is not None for way in (result, result.otherwise) if way is not None
        )
        ways = (w for w in ways if any(w.changes.get(name) != script.changes.get(name) for name in spared - before))
        fits = (way for way in ways if not self._changes_others(way) and not _errors(way) - _errors(script))
        return next(fits, None)

    def _using(self, path: str) -> list[FileResult]:
        """The scripts that are converted, and whose program has a file."""
        found = (self.own[real] for real in self.users.get(path, ()))
        return [result for result in found if path in result.program]

    def _users_of(self, script: FileResult, sharer: Sharer) -> list[FileResult]:
        """The other scripts that are converted, and that run what a file does with what a script changes."""
        path = _real(sharer.path)
        users = [r for r in self._using(path) if r is not script]
        itself = path == _real(sharer.member)  # when it is run
        further = frozenset() if itself else sharer.runners
        if further is None:
            return users
        return [r for r in users if _real(r.path) == path or any(p in further and p != path for p in r.program)]

    def _differs(self, script: FileResult, sharer: Sharer) -> bool:
        """Whether a file would find something else than before, and belongs to no script that wants that, too."""
        users = self._users_of(script, sharer)
        missing = any(name not in user.changes for name in sharer.reasons for user in users)
        return missing or bool(sharer.names and not users)

    def _changes_others(self, script: FileResult) -> _Reasons:
        """A script that changes what is used by files that are not converted, or not in that way."""
        found = [sharer for sharer in script.sharers if self._differs(script, sharer)]
        if not found:
            return []
        member = found[0].member
        sharers = [sharer for sharer in found if sharer.member == member]
        sharers = [sharer for sharer in sharers if not self._left_for_others(sharer)] or sharers
        names = dict.fromkeys(name for sharer in sharers for name in sharer.names)
        itself = "its own `if __name__` block"
        users = dict.fromkeys(itself if _real(s.path) == _real(member) else _shown(s.path) for s in sharers)
        uses = "uses" if len(users) == 1 else "use"
        changes = f"the conversion changes {_listed(names)} in {_shown(member)}"
        taking = dict.fromkeys(f"{name}()" for sharer in sharers for name in sharer.otherwise)
        told = f": {_listed(taking)} would take other arguments" if taking else ""
        return [(script, f"{changes}, which {_listed(users)} {uses}, too{told}")]

    def _left_for_others(self, sharer: Sharer) -> bool:
        """Whether who uses a file is itself a script that is only left alone for others: these are in the way."""
        result = self.own.get(_real(sharer.path))
        findings = result.plan.findings if result is not None and result.plan is not None else ()
        return bool(findings) and findings[0].code == "SHARED-FILE" and findings[0].severity is Severity.ERROR

    def _disagrees(self, script: FileResult) -> _Reasons:
        """Scripts of which not all can be converted, with the reasons."""
        for member in script.members:
            real = _real(member.path)
            for other in self._using(real):
                theirs = _version(other, real)
                if other is not script and theirs is not None and not compatible((member, theirs)):
                    names = [name for at, name in script.changes if at == real]
                    return _both(script, other, member.path, [n for n in names if _differ(script, other, (real, n))])
        for sharer in script.sharers:
            real = _real(sharer.member)
            for user in self._users_of(script, sharer):
                if clashing := self._clashing(script, user, sharer):
                    return _both(script, user, sharer.member, [name for at, name in clashing if at == real])
                if sharer.asking and user.cpu and not _same(script, user, real):
                    said = f"{user.path} may say that it means the CPU when {sharer.member} has asked for the processes"
                    return [(loser, said) for loser, _ in _both(script, user, sharer.member, ())[:1]]
        return self._changes_others(script)

    def _clashing(self, script: FileResult, user: FileResult, sharer: Sharer) -> list[_Global]:
        """What a script changes for a file that another script runs, which wants it changed in another way."""
        return [name for name in sharer.reasons if _differ(script, user, name)]

    def _disputed(self, script: FileResult) -> set[_Global]:
        """What a script changes that others want changed in another way."""
        pairs = [(user, sharer) for sharer in script.sharers for user in self._users_of(script, sharer)]
        return {name for user, sharer in pairs for name in self._clashing(script, user, sharer)}

    def _merge(self, path: str) -> None:
        """Give all scripts one version of a file."""
        versions = {_real(r.path): v for r in self._using(path) if (v := _version(r, path)) is not None}
        if len({version.output for version in versions.values()}) > 1:
            for script, version in versions.items():
                others = [v for other, v in versions.items() if other != script]
                self.own[script] = _with(self.own[script], path, merged([version, *others]) or version)


def _differ(script: FileResult, other: FileResult, name: _Global) -> bool:
    """Whether two scripts want a global changed, each in another way."""
    return script.changes.get(name) != other.changes.get(name)


def _both(script: FileResult, other: FileResult, path: str, names: Sequence[str]) -> _Reasons:
    """Two scripts that cannot both be converted: one of them, if it can leave the other files as they are."""
    pairs = ((script, other), (other, script))
    others = ((one, "when it is run itself" if two.path == path else f"for {two.path}") for one, two in pairs)
    what = f"{_listed(names)} in {path}" if names else path
    clash = [(one, f"{what} would have to be changed in another way {told}") for one, told in others]
    return [pair for pair in clash if pair[0].separable and pair[0].members][:1] or clash


def _same(script: FileResult, other: FileResult, real: str) -> bool:
    """Whether another script's conversion makes the same of a file by itself, in its own order."""
    mine, theirs = _version(script, real), _version(other, real)
    return mine is not None and theirs is not None and mine.output == theirs.output


def _instead(script: FileResult, alone: Callable[[FileResult], FileResult], message: str) -> FileResult | None:
    """A script's conversion that leaves other files as they are, if there is one; it tells so."""
    if not script.separable or not script.members:
        return None
    result = alone(script)
    if result.output is None or result.plan is None:
        return None
    told = Finding(
        "SHARED-FILE",
        Severity.WARNING,
        0,
        f"{message}; so the files that it imports stay as they are: every process prints and writes what they do, and "
        "what the script computes in them is not known here",
        "convert the scripts one by one, or give each its own files",
    )
    findings, outcome = (*result.plan.findings, told), Outcome.CONVERTED_WITH_FINDINGS
    return replace(result, plan=replace(result.plan, findings=findings, outcome=outcome))


def _errors(script: FileResult) -> set[str]:
    """What is wrong with a script's conversion, and its files."""
    plans = [result.plan for result in (script, *script.members) if result.plan is not None]
    found = (finding for plan in plans for finding in plan.findings)
    return {finding.code for finding in found if finding.severity is Severity.ERROR or finding.code in _RACES}


def _with(script: FileResult, real: str, version: FileResult) -> FileResult:
    """The result of a script with a version of a file: of itself, or of a member."""
    if _real(script.path) == real:
        return replace(script, plan=version.plan, diff=version.diff, output=version.output, hunks=version.hunks)
    return replace(script, members=tuple(version if _real(m.path) == real else m for m in script.members))


def _version(script: FileResult, real: str) -> FileResult | None:
    """What a script's conversion makes of a file: of the script itself, or of a member."""
    return next((r for r in (script, *script.members) if _real(r.path) == real), None)


def _listed(names: Iterable[str]) -> str:
    """`a, b and c`; of many, the first."""
    all_names = list(names)
    first, rest = all_names[:_NAMED], len(all_names) - _NAMED
    last = f"{rest} more" if rest > 0 else first.pop()
    return f"{', '.join(first)} and {last}" if first else last


@remembered
def _real(path: str) -> str:
    return os.path.realpath(path)


def _shown(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
