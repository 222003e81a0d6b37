"""Choices that are no `if`: conditional expressions, `low and step()`, `match`, and assertions that are caught."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.index import FUNCTIONS, LOOPS, How
from accelift_codemod.facts.tree import walk

Part = ast.stmt | ast.expr
_OTHERS = frozenset(
    n for n, e in vars(builtins).items() if isinstance(e, type) and not issubclass(AssertionError, e)
)  # of what is built in, errors that are no failed assertion
SPELLED = (ast.IfExp, ast.BoolOp, ast.Match, ast.Assert, ast.Subscript)


def choices(draft: Draft, node: ast.AST) -> Iterator[tuple[ast.expr, list[Part]]]:
    """What a node goes by, and what is run or not as that comes out. An assertion that nothing catches ends the job;
    it stands for itself where one that is caught leaves a loop."""
    if isinstance(node, ast.IfExp):
        yield node.test, _with_functions(draft, [node.body, node.orelse])
    elif isinstance(node, ast.Subscript):
        held = _held(draft, node.value)
        parts = _with_functions(draft, held)
        if len(parts) > len(held):  # one of several functions
            yield node.slice, parts
    elif isinstance(node, ast.BoolOp):
        for place, value in enumerate(node.values[:-1], 1):
            yield value, list(node.values[place:])
    elif isinstance(node, ast.Match):
        bodies: list[Part] = [statement for case in node.cases for statement in case.body]
        if any(_is_value(n) for case in node.cases for n in walk(case.pattern)):
            yield node.subject, bodies
        for place, case in enumerate(node.cases):
            if case.guard is not None:
                yield case.guard, [statement for later in node.cases[place:] for statement in later.body]
    elif isinstance(node, ast.Assert) and (parts := caught(draft, node)):
        yield node.test, parts


def _held(draft: Draft, table: ast.expr | None) -> list[ast.expr]:
    """What a dict, a list or a tuple holds that is written out, perhaps where a variable is set to it."""
    if isinstance(table, ast.Name):
        bindings = draft.facts.resolver.bindings(table)
        plain = len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path
        table = bindings[0].value if plain else None
    return table.values if isinstance(table, ast.Dict) else getattr(table, "elts", [])


def _with_functions(draft: Draft, arms: list[ast.expr]) -> list[Part]:
    """What is chosen from, and what the functions among it do, which are chosen to be run."""
    chosen: list[Part] = [*arms]
    for arm in arms:
        chosen += [arm.body] if isinstance(arm, ast.Lambda) else []
        functions = {v.declaration for v in draft.facts.resolver.values(arm)} if isinstance(arm, ast.Name) else ()
        chosen += [s for function in functions if isinstance(function, FUNCTIONS) for s in function.body]
    return chosen


def _is_value(pattern: ast.AST) -> bool:
    """Whether a pattern compares a value; what is matched otherwise is only of some kind, or not."""
    return isinstance(pattern, ast.MatchValue) or (
        isinstance(pattern, ast.MatchSingleton) and pattern.value is not None
    )


def caught(draft: Draft, statement: ast.Assert) -> list[Part]:
    """What is run or not as an assertion holds, if it is caught in its function that it does not: what comes after it
    and what handles that; the assertion itself, if a loop is left."""
    child: ast.AST = statement
    behind: list[Part] = []
    for parent in draft.facts.index.ancestors(statement):
        if isinstance(parent, FUNCTIONS):
            return []
        if isinstance(child, ast.stmt):
            block, place = draft.facts.index.block(child)
            behind += block[place + 1 :]
        if isinstance(parent, ast.Try) and child in parent.body:
            handlers = [handler for handler in parent.handlers if draft.caught(handler) - _OTHERS]
            if handlers:
                handled: list[Part] = [s for handler in handlers for s in handler.body]
                return [*behind, *parent.orelse, *handled] or [ast.Pass()]
        if isinstance(parent, LOOPS):
            return [statement] if _is_handled(draft, parent) else []
        child = parent
    return []


def _is_handled(draft: Draft, node: ast.AST) -> bool:
    """Whether it is caught around a node, in its function, that an assertion failed."""
    child = node
    for parent in draft.facts.index.ancestors(node):
        if isinstance(parent, FUNCTIONS):
            return False
        if isinstance(parent, ast.Try) and child in parent.body:
            if any(draft.caught(handler) - _OTHERS for handler in parent.handlers):
                return True
        child = parent
    return False


def weighs_up(test: ast.expr) -> bool:
    """Whether a test compares numbers; not whether something is there, or of what kind it is."""
    sizes = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    return any(isinstance(n, ast.Compare) and any(isinstance(o, sizes) for o in n.ops) for n in walk(test))
