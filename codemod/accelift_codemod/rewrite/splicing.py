"""Edits that change the text of their own place and nothing around it. Most do, and do not need LibCST."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from accelift_codemod.facts.index import Index
from accelift_codemod.plan import Edit, Operation
from accelift_codemod.source import Place, Source

_PRIMARY = re.compile(r"[\w.]+(?:\((?:[^()\n]|\([^()\n]*\))*\)[\w.]*)*")  # needs no parentheses, wherever it stands
_METHOD = re.compile(r"\w+\((?!\s).*\)")
_COMMA = re.compile(r",[ \t\r\n]*")
_CLOSING = re.compile(r"(,?)[ \t\r\n]*\)")
_GLUED = re.compile(r"[\w\"']")  # next to what is put there, it would be read as a part of it
_PLAIN = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
_ENCLOSED = (*_PLAIN, ast.Constant, ast.BinOp, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.IfExp)


class _Splice(NamedTuple):
    """What comes in place of the text between two places; where these are one, in front of what it opens, or behind
    what it closes."""

    start: Place
    end: Place
    new: str
    closes: bool = False


class _Change(NamedTuple):
    """What an edit does to an expression, or in it."""

    node: ast.AST
    splices: list[_Splice]


def spliced(
    source: Source, index: Index, first: int, last: int, edits: Sequence[tuple[ast.AST, Edit, bool]]
) -> str | None:
    """Lines with their edits; None if LibCST has to say what becomes of them.

    Args:
        source: the source.
        index: its index.
        first: the first line.
        last: the last line.
        edits: each with its place, and whether an operator put there needs parentheses.
    """
    changes = []
    for node, edit, parenthesize in edits:
        splicer = _SPLICERS.get(edit.operation)
        around = index.ancestors(node)
        if splicer is None or "\n" in edit.code or any(isinstance(n, ast.JoinedStr) for n in around):
            return None  # of what is in f-strings, `ast` does not know the places
        together = {e.operation for n, e, _ in edits if n is node}
        change = splicer(_Site(source, index, node, parenthesize, together), edit)
        if change is None:
            return None
        changes.append(change)
    changes.sort(key=lambda change: (_start(change.node), *(-(n or 0) for n in _end(change.node))))  # outer ones first
    if any(map(_meet, changes, changes[1:])):
        return None
    depths = {change.node: i for i, change in enumerate(changes)}
    splices = [(splice, depths[change.node]) for change in changes for splice in change.splices]
    found: list[str] = []
    at: Place = (first, 0)
    for splice, _ in sorted(splices, key=_order):
        if splice.start < at:
            return None
        found += [source.cut(at, splice.start), splice.new]
        at = splice.end
    if at[0] > last:
        return None  # outside
    pieces = [*filter(None, [*found, source.cut(at, (last, None))])]
    return None if any(map(_glued, pieces, pieces[1:])) else "".join(pieces)


def _order(one: tuple[_Splice, int]) -> tuple[Place, Place, bool, int]:
    """Splices as they follow each other: at one place, what closes comes first, and that of inner expressions."""
    splice, depth = one
    return splice.start, splice.end, not splice.closes, -depth if splice.closes else depth


def _meet(change: _Change, other: _Change) -> bool:
    """Whether the next change is one of a part that goes, or of the same expression, to which neither only adds."""
    if change.node is other.node:
        return not any(all(s.closes and s.new[:1] == "," for s in one.splices) for one in (change, other))
    start, end = _start(other.node), _end(other.node)
    return any(s.start <= start and end <= s.end for s in change.splices if s.start < s.end)


def _glued(left: str, right: str) -> bool:
    """Whether two neighbours would be read as one word."""
    return bool(_GLUED.match(left[-1:]) and _GLUED.match(right[:1]))


class _Site:
    """The place of an edit: an expression, or an argument that has a name."""

    def __init__(
        self, source: Source, index: Index, node: ast.AST, parenthesize: bool, together: Collection[Operation]
    ) -> None:
        self.source = source
        self.index = index
        self.node = node
        self.parenthesize = parenthesize
        self.together = together  # what is done there

    def instead(self, node: ast.AST, new: str) -> _Change:
        """Text in place of an expression."""
        return _Change(node, [_Splice(_start(node), _end(node), new)])

    def is_bare(self, node: ast.AST) -> bool:
        """Whether an expression surely has no parentheses around it that are its own."""
        parent, start = self.index.parents[node], _start(node)
        if isinstance(parent, ast.Call) and parent.func is not node:
            return self.source.cut(_end(parent.func), start).rstrip()[1:][-1:] != "("
        head = self.source.cut((start[0], 0), start).rstrip(" \t")
        return (isinstance(parent, ast.expr) and _start(parent) == start) or head[-1:] not in ("", "(")

    def receiver(self) -> ast.expr | None:
        """What a method is called on, or an attribute is read of; None if there are parentheses around it."""
        func = self.node.func if isinstance(self.node, ast.Call) else self.node
        if not isinstance(func, ast.Attribute) or _start(func.value) != _start(self.node):
            return None
        return func.value if self.source.cut(_end(func.value), _end(func)) == f".{func.attr}" else None

    def opens(self) -> Place | None:
        """Where the arguments of a call begin; None if they are laid out in a way of their own."""
        if not isinstance(self.node, ast.Call):
            return None
        text = self.source.cut(_end(self.node.func), _end(self.node))
        alone = any(isinstance(argument, ast.GeneratorExp) for argument in self.node.args)
        line, column = _end(self.node.func)
        return (line, (column or 0) + 1) if text[0] == "(" and text[1] not in " \t\f\r\n\\#" and not alone else None

    def gap(self, left: ast.AST, right: ast.AST) -> str | None:
        """The comma between two neighbours, with the space behind it; None if there is more."""
        text = self.source.cut(_end(left), _start(right))
        return text if _COMMA.fullmatch(text) else None

    def argument(self, place: int) -> ast.expr | None:
        """A positional argument of a call."""
        found = self.node.args[place : place + 1] if isinstance(self.node, ast.Call) else []
        return found[0] if found and isinstance(found[0], _ENCLOSED) and self.is_bare(found[0]) else None


def _start(node: ast.AST) -> Place:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _end(node: ast.AST) -> Place:
    return node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def _become(site: _Site, edit: Edit) -> _Change | None:
    fits = not site.parenthesize or _PRIMARY.fullmatch(edit.code)
    if isinstance(site.node, ast.GeneratorExp) or (isinstance(site.node, ast.IfExp) and not site.is_bare(site.node)):
        return None  # with the parentheses
    return site.instead(site.node, edit.code) if fits else None


def _receiver(site: _Site, edit: Edit) -> _Change | None:
    receiver = site.receiver()
    return _Change(site.node, [_Splice(_end(receiver), _end(site.node), "")]) if receiver is not None else None


def _call_on(site: _Site, edit: Edit) -> _Change | None:
    receiver, opens = site.receiver(), site.opens()
    if receiver is None or opens is None or not _PRIMARY.fullmatch(edit.code):
        return None
    start, call = _start(receiver), site.node
    gap = ", " if isinstance(call, ast.Call) and (call.args or call.keywords) else ""
    return _Change(call, [_Splice(start, start, f"{edit.code}("), _Splice(_end(receiver), opens, gap)])


def _method(site: _Site, edit: Edit) -> _Change | None:
    receiver = site.receiver()
    if receiver is None or site.opens() is None or not _METHOD.fullmatch(edit.code):
        return None
    return _Change(site.node, [_Splice(_end(receiver), _end(site.node), f".{edit.code}")])


def _argument(site: _Site, edit: Edit) -> _Change | None:
    argument = site.argument(edit.place or 0)
    return site.instead(argument, edit.code) if argument is not None else None


def _surround(site: _Site, edit: Edit) -> _Change | None:
    before, after = edit.code.split("{}")
    whole: ast.AST | None = site.node
    if isinstance(whole, ast.keyword):
        whole = whole.value
    elif edit.place is not None:
        whole = site.argument(edit.place)
    elif site.parenthesize and not _PRIMARY.fullmatch(f"{before}x{after}"):
        return None
    enclosed = before.endswith("(") and after.startswith((")", ","))
    product = isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Mult) and not before and after.startswith(" * ")
    chosen = not isinstance(whole, ast.IfExp) and not before and after.startswith(" if ")
    fitting = _ENCLOSED if enclosed or product or chosen else _PLAIN
    if whole is None or not isinstance(whole, fitting) or not site.is_bare(whole):
        return None
    start, end = _start(whole), _end(whole)
    return _Change(whole, [_Splice(start, start, before), _Splice(end, end, after, closes=True)])


def _add_argument(site: _Site, edit: Edit) -> _Change | None:
    call = site.node
    given = sorted([*call.args, *call.keywords], key=_start) if isinstance(call, ast.Call) else []
    if not isinstance(call, ast.Call) or any(isinstance(argument, ast.GeneratorExp) for argument in given):
        return None
    if edit.place is not None and edit.place < len(given):
        return None
    if not given and Operation.CALL_ON in site.together:
        line, column = _end(call)
        place = line, (column or 0) - 1
        return _Change(call, [_Splice(place, place, f", {edit.code}", closes=True)])
    return _appended(site, given, edit.code, _end(call.func), _end(call))


def _appended(site: _Site, items: Sequence[ast.AST], new: str, start: Place, end: Place) -> _Change | None:
    """One more of some arguments or parameters, whose parentheses are between two places."""
    if not items:
        place: Place = (start[0], (start[1] or 0) + 1)
        empty = site.source.cut(start, end)[:2] == "()"
        return _Change(site.node, [_Splice(place, place, new, closes=True)]) if empty else None
    place = _end(items[-1])
    closing = _CLOSING.match(site.source.cut(place, end))
    gap = site.gap(*items[-2:]) if len(items) > 1 else ", "
    own = isinstance(items[-1], ast.expr) and not site.is_bare(items[-1])  # parentheses
    if closing is None or gap is None or own or (closing[1] and len(items) == 1):
        return None
    return _Change(site.node, [_Splice(place, place, gap + new, closes=True)])


def _parameter(site: _Site, edit: Edit) -> _Change | None:
    around = site.index.parents[site.node]
    plain = around.args[: len(around.args) - len(around.defaults)] if isinstance(around, ast.arguments) else []
    return site.instead(site.node, edit.code) if site.node in plain else None


def _add_parameter(site: _Site, edit: Edit) -> _Change | None:
    function = site.node
    if not isinstance(function, ast.FunctionDef) or function.args.posonlyargs:
        return None
    given = function.args.args
    at = len(given) if edit.place is None else min(edit.place, len(given))
    if 0 < at < len(given):
        gap, place = site.gap(given[at - 1], given[at]), _start(given[at])
        return _Change(function, [_Splice(place, place, edit.code + gap)]) if gap is not None else None
    line, column = _start(function)
    opens = line, (column or 0) + len(f"def {function.name}".encode())
    return _appended(site, given, edit.code, opens, _start(function.body[0])) if at == len(given) else None


_SPLICERS: dict[Operation, Callable[[_Site, Edit], _Change | None]] = {
    Operation.BECOME: _become,
    Operation.RECEIVER: _receiver,
    Operation.CALL_ON: _call_on,
    Operation.METHOD: _method,
    Operation.ARGUMENT: _argument,
    Operation.SURROUND: _surround,
    Operation.ADD_ARGUMENT: _add_argument,
    Operation.PARAMETER: _parameter,
    Operation.ADD_PARAMETER: _add_parameter,
}
