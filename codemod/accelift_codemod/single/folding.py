"""The text of a script without what runs only on several processes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from accelift_codemod.plan import Operation, Span
from accelift_codemod.rewrite.layout import indentation, outdented, string_lines
from accelift_codemod.rewrite.places import first_line
from accelift_codemod.single.defaults import leaves
from accelift_codemod.single.expressions import Known, parts
from accelift_codemod.source import Source

_ELSE = re.compile(r"[ \t]*else[ \t]*:")
_ELIF = re.compile(r"([ \t]*)elif\b")
Dead = Callable[[ast.AST], bool]
Gone = tuple[Span, Operation, str]  # what happens to a node, as an edit says it


class CannotFold(Exception):
    """The code is laid out in a way that is not foreseen."""


@dataclass
class Folding:
    """What becomes of the lines of a script (from 1)."""

    source: Source
    known: Known
    dead: Dead  # whether a statement, or a name that is imported, goes
    dropped: set[int] = field(default_factory=set)
    shifted: dict[int, int] = field(default_factory=dict)  # how many columns a line loses
    headers: dict[int, str] = field(default_factory=dict)  # what stands in the place of a line
    first_arms: set[int] = field(default_factory=set)  # lines whose `elif` is an `if` now
    spliced: dict[Span, str] = field(default_factory=dict)  # what stands in the place of an expression
    gone: list[Gone] = field(default_factory=list)

    def fold(self, block: Sequence[ast.stmt], bare: bool = False) -> bool | None:
        """Fold the statements of a block; whether nothing runs behind what is left of it.

        None if nothing is left: a block that keeps its header has a `pass` then, a `bare` one has not.
        """
        kept = 0
        over = False
        for place, statement in enumerate(block):
            if over or self.dead(statement):
                self._drop(statement, block[-1] if over else [*takewhile(self.dead, block[place:])][-1])
                continue
            known = self.known.truth(statement.test) if isinstance(statement, ast.If) else None
            if isinstance(statement, ast.If) and known is not None:
                left = self._choose(statement, known)
                kept += left is not None
                over = bool(left)
                continue
            kept += 1
            self._inside(statement)
            over = leaves([statement])
        if not kept and not bare:
            first = block[0].lineno
            self.dropped.discard(first)
            self.headers[first] = indentation(self.source.lines[first - 1]) + "pass" + self.source.newline
        return over if kept else None

    def _inside(self, statement: ast.stmt) -> None:
        """Fold what is in a statement that stays."""
        if isinstance(statement, ast.If) and self._is_elif(statement.orelse):
            self._expressions(statement.test, True, alone=True)
            self.fold(statement.body)
            self._chain(statement)
            return
        if isinstance(statement, (ast.Import, ast.ImportFrom)) and any(map(self.dead, statement.names)):
            first, last = Span.of(statement.names[0]), Span.of(statement.names[-1])
            kept_names = [self.source.segment(a) for a in statement.names if not self.dead(a)]
            self.spliced[Span(*first[:2], *last[2:])] = ", ".join(kept_names)
            for alias in filter(self.dead, statement.names):
                self._note(alias, Operation.DROP_NAME)
            return
        blocks = [getattr(statement, name, None) for name in ("body", "orelse", "finalbody")]
        blocks += [part.body for name in ("handlers", "cases") for part in getattr(statement, name, ())]
        for block in filter(None, blocks):
            self.fold(block)
        for part, tested in parts(statement, False):
            if not isinstance(part, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                self._expressions(part, tested, alone=True)

    def _chain(self, statement: ast.If) -> None:
        """Fold the `elif` behind the arm of a condition that stays."""
        (following,) = statement.orelse
        assert isinstance(following, ast.If)
        known = self.known.truth(following.test)
        if known is None:
            self._inside(following)
        elif known:
            self._note(following, Operation.BARE)
            line = following.lineno
            indent = indentation(self.source.lines[line - 1])
            self._header(following)
            self.dropped.discard(line)
            self.headers[line] = f"{indent}else:{self.source.newline}"
            self.fold(following.body)
            if following.orelse:
                self._lines(self._end(following.body) + 1, self._end(following.orelse))
        else:
            self._note(following, Operation.BARE if following.orelse else Operation.DROP)
            self._lines(following.lineno, self._end(following.body))
            if self._is_elif(following.orelse):
                self._chain(following)
            elif following.orelse:
                self.fold(following.orelse)

    def _choose(self, statement: ast.If, known: bool) -> bool | None:
        """Keep one arm of a condition; whether nothing runs behind it, None if nothing is left."""
        if known or statement.orelse:
            self._note(statement, Operation.BARE)
        if known:
            begins = statement.body[0]
            if begins.lineno == statement.lineno:  # `if rank() == 0: print(x)`
                span = Span(begins.lineno, statement.col_offset, begins.lineno, begins.col_offset)
                self.spliced[span] = ""
                over = self.fold(statement.body, bare=True)
            else:
                self._header(statement)
                over = self.fold(statement.body, bare=True)
                self._shift(statement, statement.body)
            if statement.orelse:
                self._lines(self._end(statement.body) + 1, self._end(statement.orelse))
            return over
        if not statement.orelse:
            self._drop(statement, statement)
            return None
        self._lines(self._above(statement.lineno), self._end(statement.body))
        if self._is_elif(statement.orelse):
            (following,) = statement.orelse
            assert isinstance(following, ast.If)
            inner = self.known.truth(following.test)
            if inner is not None:
                return self._choose(following, inner)
            self.first_arms.add(following.lineno)
            self._inside(following)
            return leaves([following])
        self._else(statement)
        over = self.fold(statement.orelse, bare=True)
        self._shift(statement, statement.orelse)
        return over

    # ---- expressions

    def _expressions(self, node: ast.AST, tested: bool, alone: bool = False) -> None:
        """Simplify what is in an expression; `alone` if no other one is around it."""
        left = self.known.left(node, tested) if isinstance(node, ast.expr) else None
        if left is not None:
            code = str(left) if isinstance(left, bool) else self._joined(left, node, alone)
            self.spliced[Span.of(node)] = code
            self._note(node, Operation.BECOME, code)
            return
        for part, only in parts(node, tested):
            self._expressions(part, only)

    def _joined(self, kept: list[ast.expr], node: ast.AST, alone: bool) -> str:
        if len(kept) > 1:
            word = " and " if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else " or "
            return f"({word.join(self._text(part) for part in kept)})"
        text = self.source.segment(kept[0])
        return text if alone and "\n" not in text else self._text(kept[0])

    def _text(self, node: ast.expr) -> str:
        text = self.source.segment(node)
        plain = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant))
        return text if plain or (isinstance(node, ast.Tuple) and text.startswith("(")) else f"({text})"

    # ---- lines

    def _note(self, node: ast.AST, operation: Operation, code: str = "") -> None:
        self.gone.append((Span.of(node), operation, code))

    def _is_elif(self, orelse: Sequence[ast.stmt]) -> bool:
        if len(orelse) != 1 or not isinstance(orelse[0], ast.If):
            return False
        return _ELIF.match(self.source.lines[orelse[0].lineno - 1]) is not None

    def _end(self, block: Sequence[ast.stmt]) -> int:
        return block[-1].end_lineno or block[-1].lineno

    def _lines(self, first: int, last: int) -> None:
        self.dropped.update(range(first, last + 1))

    def _above(self, line: int) -> int:
        """The first of the comment lines directly above a line, which tell of what stands there."""
        indent = indentation(self.source.lines[line - 1])
        while line > 1:
            above = self.source.lines[line - 2]
            if not above.lstrip(" \t").startswith("#") or indentation(above) != indent or above.startswith("#!"):
                break
            line -= 1
        return line

    def _drop(self, statement: ast.stmt, last: ast.stmt) -> None:
        """Leave out a statement, which stands on lines of its own, with what is said of it above, and the blank lines
        that would come together; `last` is that of those that go with it."""
        lines = self.source.lines
        first, end = first_line(statement), statement.end_lineno or statement.lineno
        head = lines[first - 1].encode()[: statement.col_offset].strip()
        tail = lines[end - 1].encode()[statement.end_col_offset or 0 :].strip()
        if head not in (b"", b"@") or (tail and not tail.startswith(b"#")):
            raise CannotFold(f"line {first}")
        indent = indentation(lines[first - 1])
        below = next((line for line in lines[last.end_lineno or end :] if line.strip()), "")
        closes = not below.startswith(indent)  # they are the last of their block
        behind = lines[last.end_lineno or end :][:1]
        if closes or not behind or not behind[0].strip() or behind[0].lstrip(" \t").startswith("#"):
            first = self._above(first)  # what is said of a whole paragraph
        self._lines(first, end)
        above = lines[first - 2].strip() if first > 1 else ":"
        if closes and below and not above:
            while first > 1 and not lines[first - 2].strip():
                first -= 1
                self.dropped.add(first)
        elif not above or above.endswith(":"):
            while end < len(lines) and not lines[end].strip():
                end += 1
                self.dropped.add(end)
        self._note(statement, Operation.DROP)

    def _header(self, statement: ast.If) -> None:
        """Leave out the header of a condition, of which the body stays."""
        self._lines(statement.lineno, self._body(statement.body) - 1)
        if self._body(statement.body) <= statement.lineno:
            raise CannotFold(f"line {statement.lineno}")

    def _body(self, block: Sequence[ast.stmt]) -> int:
        """The first line of a block, with the comments that it begins with."""
        line = first_line(block[0])
        if self.source.lines[line - 1].encode()[: block[0].col_offset].strip() and not hasattr(
            block[0], "decorator_list"
        ):
            raise CannotFold(f"line {line}")
        while self.source.lines[line - 2].lstrip(" \t").startswith("#"):
            line -= 1
        return line

    def _else(self, statement: ast.If) -> None:
        """Leave out the `else:` of a condition."""
        end, begin = self._end(statement.body), self._body(statement.orelse)
        for line in range(end + 1, begin):
            if _ELSE.match(self.source.lines[line - 1]):
                self._lines(end + 1, line)
                return
        raise CannotFold(f"line {statement.lineno}")

    def _shift(self, statement: ast.If, block: Sequence[ast.stmt]) -> None:
        """Put a block in the place of the condition around it."""
        lines = self.source.lines
        outer = len(indentation(lines[statement.lineno - 1]))
        width = len(indentation(lines[first_line(block[0]) - 1])) - outer
        first, last = self._body(block), self._end(block)
        while last < len(lines) and self._is_inner(lines[last], outer):
            last += 1
        frozen = string_lines("".join(lines[first - 1 : last]))
        for i, line in enumerate(range(first, last + 1)):
            if i not in frozen:
                self.shifted[line] = self.shifted.get(line, 0) + width

    def _is_inner(self, line: str, outer: int) -> bool:
        return line.lstrip(" \t").startswith("#") and len(indentation(line)) > outer

    # ---- the text

    def lines(self) -> list[tuple[str, int]]:
        """The lines that are left, each with its number in the source."""
        lines = self._spliced()
        found: list[tuple[str, int]] = []
        for number, line in enumerate(lines, 1):
            if line is None or number in self.dropped:
                continue
            text = self.headers.get(number, line)
            if number in self.first_arms:
                text = _ELIF.sub(r"\1if", text, count=1)
            found.append((outdented(text, (0, self.shifted.get(number, 0))) if text.strip() else text, number))
        return found

    def _spliced(self) -> list[str | None]:
        """The lines with other expressions in them; those that an expression does not need any more are None."""
        lines: list[str | None] = [*self.source.lines]
        for span, text in sorted(self.spliced.items(), reverse=True):
            if span.line in self.dropped:
                continue
            first, last = lines[span.line - 1] or "", lines[span.end_line - 1] or ""
            head, tail = first.encode()[: span.column].decode(), last.encode()[span.end_column :].decode()
            lines[span.line - 1] = f"{head}{text}{tail}"
            for line in range(span.line, span.end_line):
                lines[line] = None
        return lines
