"""Where statements stand: which lines are theirs, and with which others they share one."""

from __future__ import annotations

import ast
import re
from itertools import islice, takewhile

from accelift_codemod.facts.index import Index
from accelift_codemod.plan import Span
from accelift_codemod.rewrite.layout import indentation, trailing_comment
from accelift_codemod.source import Source

_WHITE = " \t\f\r\n"
_SEMICOLON = re.compile(r"(?:[ \t\f]|\\\r?\n?)*;(?:[ \t\f]|\\\r?\n?)*")


class Places:
    """The lines of statements, from 1."""

    def __init__(self, source: Source, index: Index) -> None:
        self.lines = source.lines
        self.index = index

    def head(self, statement: ast.stmt) -> tuple[int, str]:
        """Where the line of a statement starts, and what stands before the statement: a header, or another one.

        A backslash joins a line to the one above.
        """
        line = first_line(statement)
        head = _cut(self.lines[line - 1], 0, statement.col_offset).rstrip(_WHITE)
        while not head and line > 1 and _goes_on(self.lines[line - 2]):
            line -= 1
            head = self.lines[line - 1].rstrip(_WHITE)[:-1].rstrip(_WHITE)
        return line, head

    def tail(self, statement: ast.stmt) -> tuple[int, str]:
        """Where the line of a statement ends, and what stands behind the statement: a comment, or another one."""
        line = statement.end_lineno or statement.lineno
        tail = _cut(self.lines[line - 1], statement.end_col_offset or 0, None).strip(_WHITE + ";")
        while tail == "\\" and line < len(self.lines):
            line += 1
            tail = self.lines[line - 1].strip(_WHITE + ";")
        return line, tail

    def starts(self, statement: ast.stmt) -> bool:
        """Whether a statement is the first on its line."""
        return not self.head(statement)[1]

    def ends(self, statement: ast.stmt) -> bool:
        """Whether a statement is the last on its line (a comment aside)."""
        tail = self.tail(statement)[1]
        return not tail or tail.startswith("#")

    def alone(self, statement: ast.stmt) -> bool:
        """Whether a statement has its lines for itself (a comment aside)."""
        return self.starts(statement) and self.ends(statement)

    def last(self, statement: ast.stmt) -> int:
        """The last line of a statement, with the empty one that a backslash joins to it."""
        return self.tail(statement)[0] if self.ends(statement) else statement.end_lineno or statement.lineno

    def with_comments(self, line: int) -> int:
        """The first of the comment lines that stand directly above a line."""
        indent = indentation(self.lines[line - 1])
        while line > 1:
            above = self.lines[line - 2]
            if not above.lstrip(" \t").startswith("#") or indentation(above) != indent or line == 2:
                break
            if above.startswith("# %%"):
                break  # where a cell begins
            line -= 1
        return line

    def company(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements on the line of a statement, with itself. The header before them is not one of them."""
        block, place = self.index.block(statement)
        first = last = place
        while first > 0 and self._joined(block[first - 1], block[first]):
            first -= 1
        while last + 1 < len(block) and self._joined(block[last], block[last + 1]):
            last += 1
        return block[first : last + 1]

    def covered(self, statement: ast.stmt, span: Span) -> list[ast.stmt]:
        """The statements of a span, which starts with this one."""
        block, place = self.index.block(statement)
        end = (span.end_line, span.end_column)
        following = takewhile(lambda s: Span.of(s)[2:] <= end, islice(block, place + 1, None))
        return [statement, *following]

    def _joined(self, left: ast.stmt, right: ast.stmt) -> bool:
        """Whether a semicolon joins two neighbours."""
        end, start = left.end_lineno or 0, right.lineno
        if end == start:
            return True
        gap = [
            _cut(self.lines[end - 1], left.end_col_offset or 0, None),
            *self.lines[end : start - 1],
            _cut(self.lines[start - 1], 0, right.col_offset),
        ]
        return "\\" in gap[0] and _SEMICOLON.fullmatch("".join(gap)) is not None


def first_line(statement: ast.stmt) -> int:
    """The first line of a statement, or of its decorators."""
    decorators = getattr(statement, "decorator_list", None)
    return min([statement.lineno, *(d.lineno for d in decorators)]) if decorators else statement.lineno


def _goes_on(line: str) -> bool:
    """Whether a backslash joins a line to the next."""
    return line.rstrip("\r\n").endswith("\\") and not trailing_comment(line)


def _cut(line: str, start: int, end: int | None) -> str:
    """Columns of `ast`, which count UTF-8 bytes."""
    return line[start:end] if line.isascii() else line.encode()[start:end].decode()
