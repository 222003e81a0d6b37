"""The number of rows that a function takes where it is told none: `size = batch_size if size is None else size`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.index import How
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.rows import row_numbers
from accelift_codemod.rows.copies import is_place


def of(draft: Draft, rows: ast.expr) -> Iterator[ast.expr]:
    """What a variable that is taken for a number of rows has where it is told none."""
    for binding in draft.facts.resolver.bindings(rows) if isinstance(rows, ast.Name) else ():
        if binding.how is How.ASSIGN and not binding.path and binding.value is not None:
            yield from filter(is_place, _unsaid(draft, binding.name, binding.value, binding.node))


def mixed(draft: Draft, asked: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """The same of numbers of rows, where the variable is read for something else, too."""
    for rows in asked:
        yield from of(draft, rows) if not only_rows(draft, rows) else ()


def _unsaid(draft: Draft, name: str, value: ast.expr, target: ast.AST) -> Iterator[ast.expr]:
    """The part of what a variable is set to that it has where nothing is said."""
    if isinstance(value, ast.IfExp):
        asked = _asks(value.test)
        if asked is not None:
            yield value.body if asked else value.orelse
    elif isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or) and len(value.values) == 2:
        yield value.values[1]
    else:
        outer = draft.facts.index.parents.get(draft.facts.index.statement(target))
        if isinstance(outer, ast.If) and _asks(outer.test) and name in _names(outer.test):
            yield value


def _asks(test: ast.expr) -> bool | None:
    """Whether a test is true where nothing is said (`size is None`), or false (`size is not None`); else None."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name):
        none = test.comparators[0]
        if is_constant(none, None) and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
            return isinstance(test.ops[0], ast.Is)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return True if isinstance(test.operand, ast.Name) else None
    return False if isinstance(test, ast.Name) else None


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in walk(node) if isinstance(n, ast.Name)}


def only_rows(draft: Draft, rows: ast.expr) -> bool:
    """Whether a variable of a function is read for nothing but numbers of rows, and for whether it is told any."""
    function = draft.facts.index.function(rows)
    nodes = list(walk(function)) if function is not None else []
    calls = (n for n in nodes if isinstance(n, ast.Call) and row_numbers.takes(draft, n))
    taken = {size for call in calls for size in row_numbers.given(draft, call)}
    settled = {n for s in nodes if isinstance(s, (ast.IfExp, ast.BoolOp)) for n in walk(s)}
    settled |= {n for s in nodes if isinstance(s, ast.If) for n in walk(s.test)}
    reads = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in _names(rows)]
    return bool(reads) and all(read in taken or read in settled for read in reads)
