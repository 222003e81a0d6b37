"""A file without what runs only on several processes, and where its lines come from."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Span
from accelift_codemod.rewrite.layout import indentation
from accelift_codemod.single.expected import expected
from accelift_codemod.single.expressions import Known
from accelift_codemod.single.folding import CannotFold, Folding, Gone
from accelift_codemod.source import BadSource, Source


@dataclass(frozen=True)
class Dead:
    """Statements, and names that are imported, that go: by their kinds and places."""

    places: frozenset[tuple[type[ast.AST], Span]] = frozenset()

    def __call__(self, node: ast.AST) -> bool:
        return isinstance(node, (ast.stmt, ast.alias)) and (type(node), Span.of(node)) in self.places


@dataclass(frozen=True)
class Folded:
    """A file without its own distribution."""

    original: Source
    source: Source
    lines: tuple[int, ...]  # for each line of the source, that of the original (from 1)
    gone: tuple[Gone, ...] = field(default=())  # what is taken out, in the original

    @classmethod
    def of(cls, source: Source) -> Folded:
        """A file of which nothing is taken out yet."""
        return cls(source, source, tuple(range(1, len(source.lines) + 1)))

    def without(self, known: Known, dead: Dead) -> Folded:
        """The file without more statements, that are dead, and with one arm of the conditions that are known.

        Raises:
            CannotFold: its layout does not allow it.
        """
        more = _folded(self.source, known, dead)
        lines = tuple(self.lines[line - 1] for line in more.lines)
        gone = tuple((self.written(span), operation, code) for span, operation, code in more.gone)
        return replace(self, source=more.source, lines=lines, gone=(*self.gone, *gone))

    def written_line(self, line: int) -> int:
        """The original's line of a line; 0 stays."""
        return self.lines[min(line, len(self.lines)) - 1] if line > 0 else line

    def written(self, span: Span) -> Span:
        """The original's place of a place: what stood under a condition that is gone was further to the right."""
        first, last = self.written_line(span.line), self.written_line(span.end_line)
        ends = self._text(self.source, span.end_line)
        whole = span.end_column == len(ends.encode())  # a line may have become shorter
        end = len(self._text(self.original, last).encode()) if whole else span.end_column + self._shift(span.end_line)
        return Span(first, span.column + self._shift(span.line), last, end)

    def _shift(self, line: int) -> int:
        before, now = self._text(self.original, self.written_line(line)), self._text(self.source, line)
        return len(indentation(before)) - len(indentation(now))

    def _text(self, source: Source, line: int) -> str:
        return source.lines[line - 1].rstrip("\r\n") if 0 < line <= len(source.lines) else ""


def _folded(source: Source, known: Known, dead: Dead) -> Folded:
    folding = Folding(source, known, dead)
    folding.fold(source.tree.body)
    if not folding.gone:
        return Folded.of(source)
    lines = folding.lines()
    text = "".join(line for line, _ in lines)
    try:
        folded = Source.decode(text.encode(source.encoding), source.path)
        same = ast.dump(folded.tree) == expected(source.text, known, dead)
    except (BadSource, UnicodeError):
        raise CannotFold("the text") from None
    if not same or _yields(folded.tree) != _yields(source.tree):  # a function without its last one is no generator
        raise CannotFold("the tree")
    return Folded(source, folded, tuple(n for _, n in lines), tuple(folding.gone))


def _yields(tree: ast.AST) -> int:
    return sum(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in walk(tree))
