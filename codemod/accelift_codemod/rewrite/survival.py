"""Checks that every statement which no edit touches is in the output: the same one, in the same place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.rewrite.places import first_line
from accelift_codemod.rewrite.result import Rewritten

_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
_Home = tuple[ast.AST, str, int]  # the statement around, which of its blocks, and how many headers stand between


def displaced(before: ast.Module, after: ast.Module, rewritten: Rewritten) -> ast.stmt | None:
    """The first statement without edits that is not in the output; None if all are.

    A statement on lines that no edit changes is in the output if one of its kind starts at its place: its text is the
    same. The others, on lines that were shifted or written anew, are compared by their syntax trees.
    """
    return _Survival(before, after, rewritten).run()


class _Survival:
    def __init__(self, before: ast.Module, after: ast.Module, rewritten: Rewritten) -> None:
        self.rewritten = rewritten
        self.before = {s: (owner, block) for s, owner, block in _statements(before, before)}
        self.after = {s: (owner, block) for s, owner, block in _statements(after, after)}
        self.kept: dict[ast.AST, ast.AST] = {after: before}  # statement of the output -> of the original
        self.offsets: list[tuple[int, int, int]] = []  # lines of the original, from and to, and how far they moved
        self.new_lines: set[int] = set()
        at = offset = 0
        for region in rewritten.regions:
            self.offsets.append((at + 1, region.start, offset))
            first = region.start + offset + 1
            self.new_lines.update(range(first, first + len(region.lines)))
            offset += len(region.lines) - (region.end - region.start)
            at = region.end
        self.offsets.append((at + 1, 1 << 60, offset))

    def run(self) -> ast.stmt | None:
        at = {(s.lineno, s.col_offset): s for s in self.after}
        new = iter([s for s in self.after if s.lineno in self.new_lines])
        place = 0
        for statement in self.before:
            if statement in self.rewritten.edited:
                continue
            first, last = first_line(statement), _last_line(statement)
            while self.offsets[place][1] < first and place + 1 < len(self.offsets):
                place += 1
            start, end, offset = self.offsets[place]
            found: ast.stmt | None
            if start <= first:
                found = at.get((statement.lineno + offset, statement.col_offset))
                if type(found) is not type(statement):
                    return statement
                if last > end and _header(found) != _header(statement):
                    return statement
            else:
                header = _header(statement)
                found = next((s for s in new if _header(s) == header and self._stays(statement, s)), None)
            if found is None or not self._stays(statement, found):
                return statement
            self.kept[found] = statement
        return None

    def _stays(self, statement: ast.stmt, found: ast.stmt) -> bool:
        """Whether a statement of the output is where one of the original was, headers of ours aside."""
        owner, block = self.after[found]
        level = 0
        while owner not in self.kept:
            level += 1
            owner, block = self.after[owner]  # type: ignore[index]
        return (self.kept[owner], block, level) == self._home(statement)

    def _home(self, statement: ast.stmt) -> _Home:
        headers = self.rewritten.headers
        owner, block = self.before[statement]
        level = headers.get(statement, 0)
        while owner in self.rewritten.edited:
            level += (owner not in self.rewritten.bared) + headers.get(owner, 0)
            owner, block = self.before[owner]  # type: ignore[index]
        return owner, block, level


def _statements(owner: ast.AST, home: ast.AST, branch: str = "") -> Iterator[tuple[ast.stmt, ast.AST, str]]:
    """The statements below a node in source order, each with the statement around it and the block it is in."""
    for block in _BLOCKS:
        for i, child in enumerate(getattr(owner, block, ())):
            if isinstance(child, ast.stmt):
                yield child, home, branch + block
                if hasattr(child, "body") or hasattr(child, "cases"):
                    yield from _statements(child, child)
            else:
                yield from _statements(child, home, f"{block} {i} ")


def _last_line(statement: ast.stmt) -> int:
    """The last line of a statement, or of the header of one that holds others."""
    body = getattr(statement, "body", None)
    return max(statement.lineno, first_line(body[0]) - 1) if body else statement.end_lineno or statement.lineno


def _header(node: ast.AST) -> list[str]:
    """A statement's syntax tree as text, without the statements in it."""
    found = [type(node).__name__]
    for _, value in ast.iter_fields(node):
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, (ast.ExceptHandler, ast.match_case)):
                found += _header(item)
            elif not isinstance(item, ast.stmt):
                found.append(ast.dump(item) if isinstance(item, ast.AST) else repr(item))
    return found
