"""Applies edits to a source: every line that no edit touches is the author's own."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from accelift_codemod.facts.index import Index
from accelift_codemod.plan import STATEMENT_OPERATIONS, Edit, Operation, Span
from accelift_codemod.rewrite.compose import Change, Composer, Rewritten
from accelift_codemod.rewrite.layout import (
    DEFAULT_LINE_LENGTH,
    indent_unit,
    indentation,
    statements,
)
from accelift_codemod.rewrite.transform import CannotRewrite
from accelift_codemod.rewrite.units import Unit, Units, first_line, merged
from accelift_codemod.source import Source

__all__ = ["CannotRewrite", "Change", "Rewritten", "rewrite"]


def rewrite(source: Source, index: Index, edits: Sequence[Edit], line_length: int = DEFAULT_LINE_LENGTH) -> Rewritten:
    """Apply a plan's edits to its source.

    Raises:
        CannotRewrite: an edit does not fit the code; nothing is changed then.
    """
    return _Rewriter(source, index, edits, line_length).run()


class _Rewriter:
    def __init__(self, source: Source, index: Index, edits: Sequence[Edit], line_length: int) -> None:
        self.source = source
        self.line_length = line_length
        self.lines = source.lines
        self.index = index
        self.edits = list(dict.fromkeys(edits))
        self.unit = indent_unit(source)
        self.units = Units(source, index, line_length)
        self.composer = Composer(source, index, self.unit, line_length)

    def run(self) -> Rewritten:
        nodes = self._locate()
        units: list[Unit] = []
        removed: list[tuple[ast.stmt, Edit]] = []
        for edit in self.edits:
            node = edit.node or nodes[edit.span, _kind(edit.operation)]
            if edit.operation in STATEMENT_OPERATIONS:
                statement = node
                assert isinstance(statement, ast.stmt)
                if edit.operation in (Operation.DROP, Operation.SWAP):
                    removed.append((statement, edit))
                else:
                    self._place(statement, edit)
            else:
                units.append(self.units.around(node, edit))
        gone = {s for s, _ in removed}
        for statement, edit in removed:
            if any(p in gone for p in self.index.ancestors(statement)):
                continue
            self._remove(statement, edit, units, gone)
        for unit in merged(units):
            if not any(p in gone for n in unit.nodes for p in (n, *self.index.ancestors(n))):
                self.composer.replaced[unit.first] = (unit.last, self.units.rewritten(unit))
        return self.composer.compose()

    # ---- finding nodes

    def _locate(self) -> dict[tuple[Span, str], ast.AST]:
        """The node of each edit: the outermost of its kind at its place."""
        wanted = {(e.span, _kind(e.operation)) for e in self.edits if e.node is None}
        starts = {span.line for span, _ in wanted}
        found: dict[tuple[Span, str], ast.AST] = {}
        for node in self.index.parents:
            if getattr(node, "lineno", 0) not in starts:
                continue
            key = (Span.of(node), _node_kind(node))
            if key in wanted:
                known = found.get(key)
                if known is None or known in self.index.ancestors(node):
                    found.setdefault(key, node)
                else:
                    found[key] = node
        for span, operation in wanted:
            if (span, operation) in found:
                continue
            first = next(
                (
                    n
                    for n in self.index.parents
                    if isinstance(n, ast.stmt) and (n.lineno, n.col_offset) == (span.line, span.column)
                ),
                None,
            )
            if operation != "statement" or first is None:
                raise CannotRewrite(f"line {span.line}: there is no such {operation}")
            found[span, operation] = first  # a run of statements: its first
        return found

    # ---- statements

    def _alone(self, statement: ast.stmt) -> bool:
        """Whether a statement has its lines for itself (a trailing comment aside)."""
        return self.units.starts_line(statement) and self.units.ends_line(statement)

    def _place(self, statement: ast.stmt, edit: Edit) -> None:
        """Note what is put before, after or around a statement."""
        last = edit.span.end_line if edit.operation is Operation.ENCLOSE else statement.end_lineno or 0
        fits = {
            Operation.BEFORE: self.units.starts_line(statement),
            Operation.AFTER: self.units.ends_line(statement),
            Operation.ENCLOSE: self._alone(statement),
        }
        if not fits[edit.operation]:
            raise CannotRewrite(f"line {statement.lineno}: the statement shares its line with another")
        first = first_line(statement)
        if edit.operation is Operation.ENCLOSE:
            block, place = self.index.block(statement)
            if place == 0 and len(block) > 1 and Span.of(block[-1]).end_line == last:
                first = self._with_comments(first)
            self.composer.encloses.append((first, last, edit))
            return
        indent = indentation(self.lines[first - 1])
        new = statements(edit.code, indent, self.unit, self.source.newline, self.line_length)
        if edit.operation is Operation.BEFORE:
            self.composer.before.setdefault(self._with_comments(first), []).append((edit, new))
        else:
            while last < len(self.lines) and self._inner_comment(self.lines[last], indent):
                last += 1
            self.composer.after.setdefault(last, []).append((edit, new))

    def _inner_comment(self, line: str, indent: str) -> bool:
        return line.lstrip(" \t").startswith("#") and len(indentation(line)) > len(indent)

    def _with_comments(self, line: int) -> int:
        """The first of the comment lines that stand directly above a line."""
        indent = indentation(self.lines[line - 1])
        while line > 1:
            above = self.lines[line - 2]
            if not above.lstrip(" \t").startswith("#") or indentation(above) != indent or line == 2:
                break
            line -= 1
        return line

    def _remove(self, statement: ast.stmt, edit: Edit, units: list[Unit], gone: set[ast.stmt]) -> None:
        if not self._alone(statement):
            if edit.operation is Operation.SWAP:
                raise CannotRewrite(f"line {statement.lineno}: the statement shares its line with another")
            units.append(self.units.around(statement, edit))
            gone.discard(statement)
            return
        first, last = first_line(statement), statement.end_lineno or statement.lineno
        indent = indentation(self.lines[first - 1])
        new: list[str] = []
        if edit.operation is Operation.SWAP:
            last = max(last, edit.span.end_line)
            new = statements(edit.code, indent, self.unit, self.source.newline, self.line_length) if edit.code else []
        block, _ = self.index.block(statement)
        kept = self._comments(first, last)
        if not new and all(s in gone for s in block) and block[0] is statement:
            new = [f"{indent}pass{self.source.newline}"]
        new = [*(f"{indent}{comment}{self.source.newline}" for comment in kept), *new]
        if not new:
            first, last = self._blank_with(first, last)
        self.composer.replaced[first] = (last, new)

    def _comments(self, first: int, last: int) -> list[str]:
        """The comments on the lines of a statement that goes."""
        found = []
        for line in self.lines[first - 1 : last]:
            if "#" not in line:
                continue
            comment = trailing_comment(line)
            if comment:
                found.append(comment)
        return found

    def _blank_with(self, first: int, last: int) -> tuple[int, int]:
        """When a paragraph goes, one of the blank lines around it goes, too."""
        above = first == 1 or not self.lines[first - 2].strip() or self.lines[first - 2].rstrip().endswith(":")
        below = last == len(self.lines) or not self.lines[last].strip()
        if above and below and last < len(self.lines):
            return first, last + 1
        return first, last


def trailing_comment(line: str) -> str:
    """The comment at the end of a line of code; empty if there is none."""
    quote = ""
    i = 0
    while i < len(line):
        c = line[i]
        if quote:
            if c == "\\":
                i += 1
            elif line.startswith(quote, i):
                i += len(quote) - 1
                quote = ""
        elif c in "\"'":
            quote = line[i : i + 3] if line[i : i + 3] in ('"""', "'''") else c
            i += len(quote) - 1
        elif c == "#":
            return line[i:].rstrip()
        i += 1
    return ""


def _kind(operation: Operation) -> str:
    if operation in STATEMENT_OPERATIONS or operation in (Operation.ADD_PARAMETER, Operation.TEST):
        return "statement"
    if operation is Operation.KEYWORD:
        return "keyword"
    if operation is Operation.PARAMETER:
        return "parameter"
    if operation is Operation.DROP_NAME:
        return "alias"
    return "expression"


def _node_kind(node: ast.AST) -> str:
    if isinstance(node, ast.stmt):
        return "statement"
    if isinstance(node, ast.expr):
        return "expression"
    return {ast.keyword: "keyword", ast.arg: "parameter", ast.alias: "alias"}.get(type(node), "")
