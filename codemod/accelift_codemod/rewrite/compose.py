"""Puts the new text together: every line that no edit touches is the author's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from accelift_codemod.facts.index import Index
from accelift_codemod.plan import Edit, Operation
from accelift_codemod.rewrite.layout import indentation, indented, outdented, statements, string_lines, unit_at
from accelift_codemod.rewrite.result import CannotRewrite, Change, Rewritten
from accelift_codemod.source import Source


@dataclass
class Composer:
    """What is to happen to the lines of a source (from 1), and the text that comes of it."""

    source: Source
    index: Index
    unit: str  # one level of indentation
    line_length: int
    replaced: dict[int, tuple[int, list[str]]] = field(default_factory=dict)  # first line -> (last line, new lines)
    before: dict[int, list[tuple[Edit, list[str]]]] = field(default_factory=dict)
    apart: dict[int, int] = field(default_factory=dict)  # blank lines after what is put before a line
    after: dict[int, list[tuple[Edit, list[str]]]] = field(default_factory=dict)
    encloses: list[tuple[int, int, Edit]] = field(default_factory=list)
    bares: list[tuple[int, int, Edit, tuple[int, int]]] = field(default_factory=list)  # and what white space goes

    @property
    def lines(self) -> list[str]:
        """The author's lines."""
        return self.source.lines

    def compose(self) -> Rewritten:
        """Apply everything noted."""
        self._settle_headers()
        count = len(self.lines)
        frozen = self._frozen()
        changes: list[Change] = []

        def emit(start: int, end: int, new: Iterable[str]) -> None:
            if changes and changes[-1].end == start:
                changes[-1] = Change(changes[-1].start, end, (*changes[-1].lines, *new))
            else:
                changes.append(Change(start, end, tuple(new)))

        line = 1
        waiting = set(self.before)
        while line <= count:
            waiting.discard(line)
            for edit, new in self.before.get(line, ()):
                emit(line - 1, line - 1, self._moved(new, line, edit))
            if line in self.before:
                emit(line - 1, line - 1, [self.source.newline] * self.apart.get(line, 0))
            for first, _, edit in self.encloses:
                if first == line:
                    header = statements(
                        edit.code, self._indent(first), self.unit, self.source.newline, self.line_length
                    )
                    emit(line - 1, line - 1, self._moved(header, line, edit))
            moves = bool(self._deeper(line, None) or self._lost(line, None))
            last, replacement = self.replaced.get(line, (line, None))
            if replacement is not None:
                emit(line - 1, last, self._moved(replacement, line, None))
            elif moves and line not in frozen and self.lines[line - 1].strip():
                emit(line - 1, line, self._moved([self.lines[line - 1]], line, None))
            for at in range(line, last + 1):
                for edit, new in self.after.get(at, ()):
                    if at == count and not (changes and changes[-1].end == count):
                        emit(count - 1, count, [self.lines[-1]])
                    emit(last, last, self._moved(new, at, edit))
            line = last + 1
        if waiting:
            raise CannotRewrite(f"line {min(waiting)}: what is put before it would be lost, for others take its place")
        return self._finished(changes)

    def _finished(self, changes: list[Change]) -> Rewritten:
        """The text, with a final newline just if the author's has one."""
        newline = self.source.newline
        if changes and changes[-1].end == len(self.lines) and changes[-1].lines:
            ended = self.lines[-1].endswith(("\n", "\r"))
            tail = [line if line.endswith(("\n", "\r")) else line + newline for line in changes[-1].lines]
            if not ended:
                tail[-1] = tail[-1].rstrip("\r\n")
            changes[-1] = Change(changes[-1].start, changes[-1].end, tuple(tail))
        return composed(self.lines, changes)

    def _deeper(self, line: int, edit: Edit | None) -> list[str]:
        """The indentations of the headers that are put around a line, inner ones first.

        Of an inserted line: of those around its own statement.
        """
        return sorted(
            (
                self._indent(first)
                for first, last, outer in self.encloses
                if outer is not edit
                and first <= line <= last
                and (edit is None or _inside(edit, outer) or self._follows(edit, outer))
            ),
            key=len,
            reverse=True,
        )

    def _follows(self, edit: Edit, outer: Edit) -> bool:
        """Whether a header goes under another one that is put around the same."""
        headers = [header for _, _, header in self.encloses if header.span == outer.span]
        return outer in headers and edit in headers and headers.index(outer) < headers.index(edit)

    def _indent(self, first: int) -> str:
        """The indentation of a statement, comments above it left out."""
        return indentation(self.lines[_code_line(self.lines, first) - 1])

    def _lost(self, line: int, edit: Edit | None) -> list[tuple[int, int]]:
        """What of its indentation a line, or an inserted one, loses with the headers taken from around it."""
        return sorted(
            (
                lost
                for first, last, outer, lost in self.bares
                if first <= line <= last and (edit is None or _inside(edit, outer))
            ),
            reverse=True,
        )

    def _moved(self, lines: Sequence[str], at: int, edit: Edit | None) -> list[str]:
        """Lines that come of a line, or that an edit puts next to it, where they belong."""
        headers, lost = self._deeper(at, edit), self._lost(at, edit)
        if not headers and not lost:
            return list(lines)
        frozen = string_lines("".join(lines)) if len(lines) > 1 else set()
        return [
            line if i in frozen or not line.strip() else self._under(line, headers, lost)
            for i, line in enumerate(lines)
        ]

    def _under(self, line: str, headers: Sequence[str], lost: Sequence[tuple[int, int]]) -> str:
        """A line without what it loses, below headers of these indentations."""
        for cut in lost:
            line = outdented(line, cut)
        for indent in headers:
            line = indented(line, unit_at(indent, self.unit), indent)
        return line

    def _frozen(self) -> set[int]:
        """Lines (from 1) that move and that start inside a string: their white space is content."""
        moved = [e[:2] for e in self.encloses] + [e[:2] for e in self.bares]
        return {first + i for first, last in moved for i in string_lines("".join(self.lines[first - 1 : last]))}

    def _settle_headers(self) -> None:
        """A header stands right before the first line that is left of what it encloses."""
        settled = []
        for first, last, edit in self.encloses:
            while first < last:
                end, new = self.replaced.get(first, (first, None))
                if new == []:
                    first = end + 1
                elif new is None and not self.lines[first - 1].strip():
                    first += 1
                else:
                    break
            settled.append((first, last, edit))
        # Around the same, what all processes come to (`with ...main_process_first():`) goes around what only one does.
        self.encloses = sorted(settled, key=lambda e: (-e[1], not e[2].code.startswith("with ")))


def _inside(edit: Edit, outer: Edit) -> bool:
    """Whether what one edit is about is a part of what another is about.

    What is put before the first of several statements under one header, or after the last, is not.
    """
    inner, around = edit.span, outer.span
    if inner == around or not around.contains(inner):
        return False
    if edit.operation is Operation.BEFORE:
        return inner[:2] != around[:2]
    return edit.operation is not Operation.AFTER or inner[2:] != around[2:] or inner.column != around.column


def composed(lines: Sequence[str], changes: Sequence[Change]) -> Rewritten:
    """The outcome of changes to lines."""
    out: list[str] = []
    at = 0
    for change in changes:
        out += lines[at : change.start]
        out += change.lines
        at = change.end
    out += lines[at:]
    refined = tuple(part for change in changes for part in _refined(change, lines))
    return Rewritten("".join(out), refined, tuple(changes))


def rebased(
    lines: Sequence[str], here: Sequence[str], origins: Sequence[int | None], changes: Sequence[Change]
) -> Rewritten:
    """The outcome of changes to lines that were made of others, as one of these.

    Args:
        lines: the original ones.
        here: those that change.
        origins: the place of each among the original ones (from 0); None for those that are new.
        changes: to them.
    """
    result: list[tuple[str, int | None]] = []
    at = 0
    for change in changes:
        result += zip(here[at : change.start], origins[at : change.start], strict=True)
        result += [(line, None) for line in change.lines]
        at = change.end
    result += zip(here[at:], origins[at:], strict=True)
    found: list[Change] = []
    new: list[str] = []
    following = 0
    for line, origin in [*result, ("", len(lines))]:
        if origin is None:
            new.append(line)
            continue
        if new or origin > following:
            found.append(Change(following, origin, tuple(new)))
            new = []
        following = origin + 1
    return composed(lines, found)


def _refined(change: Change, lines: Sequence[str]) -> list[Change]:
    """A change without the lines that it leaves as they are."""
    old = lines[change.start : change.end]
    if not old or not change.lines:
        return [change]
    matcher = SequenceMatcher(None, old, change.lines, autojunk=False)
    return [
        Change(change.start + i1, change.start + i2, change.lines[j1:j2])
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _code_line(lines: Sequence[str], line: int) -> int:
    """The first line from here on that is neither blank nor a comment."""
    while line < len(lines) and (not lines[line - 1].strip() or lines[line - 1].lstrip(" \t").startswith("#")):
        line += 1
    return line
