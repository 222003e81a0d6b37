"""Which printed lines the findings of a conversion speak of."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from accelift_codemod.plan import Finding, Severity
from accelift_codemod.source import BadSource, Source
from accelift_codemod.verify.recording import Line
from accelift_codemod.verify.showing import SHOWS, Key, Showing

_METRICS = frozenset({"METRIC-LOCAL", "METRIC-TRAIN"})
_NAMED = re.compile(r"`([^`]+)`")  # what a finding speaks of


@dataclass(frozen=True)
class Announcement:
    """A finding on what one process has measured, and the lines of the statement that it stands at.

    `elsewhere` tells that the statement itself shows the number, but prints no line.
    """

    code: str
    place: str
    first: int
    last: int
    elsewhere: bool
    tells: bool  # it only tells of a number: nothing is decided by it
    names: tuple[str, ...] = ()  # what it speaks of, as the script has it

    def has(self, place: str) -> bool:
        """Whether a place (`train.py:12`) is in the statement."""
        file, _, line = place.rpartition(":")
        return file == self.place and line.isdigit() and self.first <= int(line) <= self.last


@dataclass(frozen=True)
class Announced:
    """The findings of a conversion on what one process has measured, of the files of a project."""

    said: tuple[Announcement, ...] = ()
    project: Path = field(default_factory=Path)

    def __bool__(self) -> bool:
        return bool(self.said)

    def spoken_of(self, line: Line, lines: Sequence[Line]) -> list[str]:
        """The codes of the findings that may be about a line which the original printed; none if all are about others.

        A finding that prints nothing where it stands may be about any line, as what it speaks of may be kept and
        printed later; and so may be one on a decision. Another one is about its own lines, and about those of
        statements that what it names may flow into.
        """
        places = {one.place for one in lines}
        loose = [a for a in self.said if not a.tells or not (a.elsewhere or any(map(a.has, places)))]
        if loose:
            return sorted({a.code for a in loose})
        return sorted({a.code for a in self.said if a.has(line.place) or self._may_show(a, line.place, lines)})

    def _may_show(self, one: Announcement, place: str, lines: Sequence[Line]) -> bool:
        files = frozenset({a.place for a in self.said} | {other.place.rpartition(":")[0] for other in lines})
        if files not in self._graphs:
            trees = {file: tree for file in files if (tree := _tree(str(self.project / file))) is not None}
            self._graphs[files] = trees, Showing(trees)
        trees, showing = self._graphs[files]
        file, _, number = place.rpartition(":")
        shown = _statement(trees.get(file), int(number)) if number.isdigit() else None
        stands = _statement(trees.get(one.place), one.first)
        if shown is None or stands is None or not one.names:
            return True
        if (files, one) not in self._reached:
            self._reached[files, one] = showing.reached(one.place, stands, one.names)
        keys = self._reached[files, one]
        return keys is None or showing.may_show(shown, keys)

    @cached_property
    def _graphs(self) -> dict[frozenset[str], tuple[dict[str, ast.Module], Showing]]:
        return {}

    @cached_property
    def _reached(self) -> dict[tuple[frozenset[str], Announcement], frozenset[Key] | None]:
        return {}


def announcements(found: Collection[tuple[str, Finding]], project: Path) -> Announced:
    """The findings of a conversion on what one process has measured, of the files of a project."""
    trees: dict[str, ast.Module | None] = {}
    said = []
    for path, finding in found:
        if finding.code in _METRICS:
            if path not in trees:
                trees[path] = _tree(path)
            statement = _statement(trees[path], finding.line)
            first, last = _span(statement) if statement is not None else (0, 0)
            place = Path(path).resolve()
            name = str(place.relative_to(project)) if place.is_relative_to(project) else path
            shows = statement is not None and _shows(statement, last)
            names = tuple(dict.fromkeys(_NAMED.findall(finding.message)))
            tells = finding.severity is Severity.NOTE
            said.append(Announcement(finding.code, name, first, last, shows, tells, names))
    return Announced(tuple(said), project)


def _tree(path: str) -> ast.Module | None:
    try:
        return None if path.endswith(".ipynb") else Source.read(Path(path)).tree
    except BadSource:
        return None


def _statement(tree: ast.Module | None, line: int) -> ast.stmt | None:
    """The smallest statement that has a line: of one with a body, its header alone."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.stmt)] if tree is not None else []
    around = [n for n in found if _span(n)[0] <= line <= _span(n)[1]]
    return min(around, key=lambda n: _span(n)[1] - _span(n)[0], default=None)


def _span(statement: ast.stmt) -> tuple[int, int]:
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if isinstance(body, list) and body else statement.end_lineno or statement.lineno
    return statement.lineno, max(statement.lineno, last)


def _shows(statement: ast.stmt, last: int) -> bool:
    calls = (n for n in ast.walk(statement) if isinstance(n, ast.Call) and n.lineno <= last)
    return any(isinstance(call.func, ast.Attribute) and call.func.attr in SHOWS for call in calls)
