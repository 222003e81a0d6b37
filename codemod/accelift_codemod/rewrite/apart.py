"""Puts statements that share a line on lines of their own, so that edits can stand around each."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from accelift_codemod.facts.index import Index
from accelift_codemod.plan import STATEMENT_OPERATIONS, Edit, Span
from accelift_codemod.rewrite.compose import rebased
from accelift_codemod.rewrite.layout import indentation, split_lines, unit_at
from accelift_codemod.rewrite.places import Places
from accelift_codemod.rewrite.result import CannotRewrite, Rewritten
from accelift_codemod.source import BadSource, Source


@dataclass
class Apart:
    """A source with some statements put on lines of their own."""

    original: Source
    places: Places  # of the original
    source: Source
    index: Index
    origins: list[int | None]  # the original line (from 0) of each line; None for those that are new
    twins: dict[ast.AST, ast.AST]  # original node -> the same node here

    @classmethod
    def of(cls, source: Source, places: Places, statements: Iterable[ast.stmt], unit: str) -> Apart:
        """Put each of the statements, and those on its line, on a line of its own."""
        groups = {tuple(places.company(s)) for s in statements}
        lines: list[str] = []
        origins: list[int | None] = []
        at = 0
        for group in sorted(groups, key=lambda g: g[0].lineno):
            first, last, new = _pieces(source, places, group, unit)
            lines += [*source.lines[at : first - 1], *new]
            origins += [*range(at, first - 1), *[None] * len(new)]
            at = last
        lines += source.lines[at:]
        origins += range(at, len(source.lines))
        apart = replace(source, text="".join(lines))
        try:
            index = Index(apart.tree)
        except BadSource:
            raise CannotRewrite("statements that share a line cannot be put on lines of their own") from None
        old, new_nodes = list(places.index.parents), list(index.parents)
        if [*map(type, old)] != [*map(type, new_nodes)]:
            raise CannotRewrite("statements that share a line cannot be put on lines of their own")
        return cls(source, places, apart, index, origins, dict(zip(old, new_nodes, strict=True)))

    def moved(self, edit: Edit, node: ast.AST) -> tuple[Edit, ast.AST]:
        """An edit of the original as one of this source."""
        twin = self.twins[node]
        span = Span.of(twin)
        if edit.operation in STATEMENT_OPERATIONS and isinstance(node, ast.stmt):
            last = self.twins[self.places.covered(node, edit.span)[-1]]
            span = Span(span.line, span.column, *Span.of(last)[2:])
        return replace(edit, span=span, node=twin), twin

    def rebased(self, rewritten: Rewritten) -> Rewritten:
        """A rewrite of this source as one of the original."""
        return rebased(self.original.lines, self.source.lines, self.origins, rewritten.changes)


def _pieces(source: Source, places: Places, group: Sequence[ast.stmt], unit: str) -> tuple[int, int, list[str]]:
    """The first and last line of statements on one line, and the lines that take their place."""
    first, head = places.head(group[0])
    last, comment = places.tail(group[-1])
    new = []
    indent = indentation(source.lines[first - 1])
    if head:
        owner = places.index.parents[group[0]]
        start = cast(ast.stmt, getattr(owner, "pattern", owner)).lineno  # a `case` has no place of its own
        indent = indentation(source.lines[start - 1])
        indent += unit_at(indent, unit)
        new.append(head)
    new += [indent + source.segment(statement) for statement in group]
    if comment:
        new[-1] += f"  {comment}"
    lines = [line for text in new for line in split_lines(text + source.newline)]
    if not source.lines[last - 1].endswith(("\n", "\r")):
        lines[-1] = lines[-1].rstrip("\r\n")
    return first, last, lines
