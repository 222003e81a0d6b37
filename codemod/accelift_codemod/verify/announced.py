"""Which printed lines and saved numbers the findings of a conversion speak of."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from accelift_codemod.plan import Finding, Severity
from accelift_codemod.source import BadSource, Source
from accelift_codemod.verify.showing import Key, Showing

METRICS = frozenset({"METRIC-LOCAL", "METRIC-TRAIN"})
PRINTS = frozenset({"PRINT-ALL"})
_NAMED = re.compile(r"`([^`]+)`")  # what a finding speaks of


@dataclass(frozen=True)
class Announcement:
    """A finding on what one process has measured or all print, and the lines of the statement that it stands at."""

    code: str
    place: str
    first: int
    last: int
    tells: bool  # it only tells of numbers: nothing is decided by them
    names: tuple[str, ...] | None = None  # what it speaks of, besides what its statement sets; None: it does not say

    def has(self, place: str) -> bool:
        """Whether a place (`train.py:12`) is in the statement."""
        file, _, line = place.rpartition(":")
        return file == self.place and line.isdigit() and self.first <= int(line) <= self.last


@dataclass(frozen=True)
class Announced:
    """The findings of a conversion on what one process has measured, or all print, and the files that show it."""

    said: tuple[Announcement, ...] = ()
    trees: Mapping[str, ast.Module] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.said)

    def spoken_of(self, place: str) -> list[str]:
        """The codes of the findings that may be about what the original printed or saved at a place (`train.py:12`);
        none if all are about others.

        One on a decision may be about anything. Another one is about what its own statement shows, and about what
        statements show that what it names, or what its statement sets, may flow into.
        """
        loose = [a for a in self.said if not a.tells]
        return sorted({a.code for a in loose or self.said if a in loose or a.has(place) or self._may_show(a, place)})

    def prints(self, place: str) -> bool:
        """Whether a finding on what all print may be about a place: it stands in the same function."""
        return any(self._is_beside(one, place) for one in self.said)

    def _is_beside(self, one: Announcement, place: str) -> bool:
        file, _, number = place.rpartition(":")
        tree = self.trees.get(one.place)
        if tree is None or not one.first or not number.isdigit():
            return True
        return file == one.place and _function(tree, int(number)) is _function(tree, one.first)

    def _may_show(self, one: Announcement, place: str) -> bool:
        file, _, number = place.rpartition(":")
        shown = _statement(self.trees.get(file), int(number)) if number.isdigit() else None
        stands = _statement(self.trees.get(one.place), one.first)
        if shown is None or stands is None or one.names is None:
            return True
        if one not in self._reached:
            self._reached[one] = self._showing.reached(one.place, stands, one.names)
        keys = self._reached[one]
        return keys is None or self._showing.may_show(shown, keys)

    @cached_property
    def _showing(self) -> Showing:
        return Showing(self.trees)

    @cached_property
    def _reached(self) -> dict[Announcement, frozenset[Key] | None]:
        return {}


def announcements(
    found: Collection[tuple[str, Finding]],
    project: Path,
    files: Iterable[Path] = (),
    codes: Collection[str] = METRICS,
) -> Announced:
    """The findings of a conversion on what one process has measured, or on what all print.

    Args:
        found: all of its findings, with their files.
        project: the folder that places are relative to.
        files: other files of the project, through which what a finding names may flow.
        codes: those of the findings that are meant.
    """
    measured = [(Path(path).resolve(), finding) for path, finding in found if finding.code in codes]
    paths = dict.fromkeys([path for path, _ in measured] + [path.resolve() for path in files if measured])
    names = {path: str(path.relative_to(project)) if path.is_relative_to(project) else str(path) for path in paths}
    trees = {names[path]: tree for path in paths if (tree := _tree(path)) is not None}
    said = []
    for path, finding in measured:
        statement = _statement(trees.get(names[path]), finding.line)
        first, last = _span(statement) if statement is not None else (0, 0)
        tells = finding.severity is Severity.NOTE or finding.tells is not None
        about = (
            tuple(dict.fromkeys(_NAMED.findall(finding.message))) or None if finding.tells is None else finding.tells
        )
        said.append(Announcement(finding.code, names[path], first, last, tells, about))
        said += [Announcement(finding.code, names[path], line, line, tells, about) for line in finding.also]
    return Announced(tuple(said), trees)


def _tree(path: Path) -> ast.Module | None:
    try:
        return None if path.suffix == ".ipynb" else Source.read(path).tree
    except BadSource:
        return None


def _statement(tree: ast.Module | None, line: int) -> ast.stmt | None:
    """The smallest statement that has a line: of one with a body, its header alone."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.stmt)] if tree is not None else []
    around = [n for n in found if _span(n)[0] <= line <= _span(n)[1]]
    return min(around, key=lambda n: _span(n)[1] - _span(n)[0], default=None)


def _function(tree: ast.Module, line: int) -> ast.AST | None:
    """The innermost function that has a line; None outside of functions."""
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    around = [n for n in functions if n.body[0].lineno <= line <= (n.end_lineno or n.lineno)]
    return max(around, key=lambda n: n.lineno, default=None)


def _span(statement: ast.stmt) -> tuple[int, int]:
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if isinstance(body, list) and body else statement.end_lineno or statement.lineno
    return statement.lineno, max(statement.lineno, last)
