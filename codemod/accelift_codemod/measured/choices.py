"""Choices that are no `if`: conditional expressions, `low and step()`, `match`, and assertions that are caught."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk

Part = ast.stmt | ast.expr
_OTHERS = frozenset(
    n for n, e in vars(builtins).items() if isinstance(e, type) and not issubclass(AssertionError, e)
)  # of what is built in, errors that are no failed assertion
SPELLED = (ast.IfExp, ast.BoolOp, ast.Match, ast.Assert)


def choices(draft: Draft, node: ast.AST) -> Iterator[tuple[ast.expr, list[Part]]]:
    """What a node goes by, and what is run or not as that comes out. An assertion that nothing catches ends the job,
    and one that is caught is run by itself: what comes after it is not."""
    if isinstance(node, ast.IfExp):
        yield node.test, [node.body, node.orelse]
    elif isinstance(node, ast.BoolOp):
        for place, value in enumerate(node.values[:-1], 1):
            yield value, list(node.values[place:])
    elif isinstance(node, ast.Match):
        bodies: list[Part] = [statement for case in node.cases for statement in case.body]
        yield node.subject, bodies
        for place, case in enumerate(node.cases):
            if case.guard is not None:
                yield case.guard, [statement for later in node.cases[place:] for statement in later.body]
    elif isinstance(node, ast.Assert) and caught(draft, node):
        yield node.test, [node]


def caught(draft: Draft, statement: ast.stmt) -> bool:
    """Whether it is caught in its function that an assertion failed, to go on elsewhere."""
    child: ast.AST = statement
    for parent in draft.facts.index.ancestors(statement):
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
