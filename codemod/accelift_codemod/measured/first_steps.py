"""Loops in an iteration that read in all their steps but the first what an earlier step has bound: `if t > 0:`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from accelift_codemod.draft import Draft
from accelift_codemod.facts import position
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import walk


def bound_by_first_step(draft: Draft, node: ast.AST, load: ast.Name, assigned: Set[ast.stmt]) -> bool:
    """Whether a loop inside an iteration binds a variable in its first step, and reads it in later ones only.

    Args:
        draft: the draft.
        node: the loop whose iterations are asked about.
        load: where the variable is read.
        assigned: the statements of an iteration that set the variable, but for the one that reads it.
    """
    index = draft.facts.index
    child: ast.AST = load
    for parent in index.ancestors(load):
        if parent is node:
            return False
        if isinstance(parent, (ast.If, ast.IfExp)) and _first_binds(draft, node, load, parent):
            return True
        for test in _tests(parent, child):
            loops = [loop for loop, positive in _steps(draft, node, test, test) if positive]
            if any(_sets_in_each(loop, assigned) for loop in loops):
                return True
        child = parent
    return False


def _sets_in_each(loop: ast.For, assigned: Set[ast.stmt]) -> bool:
    """Whether every step of a loop sets the variable."""
    return any(s in assigned for s in loop.body) and not any(isinstance(n, ast.Continue) for n in walk(loop))


def _first_binds(draft: Draft, node: ast.AST, load: ast.Name, choice: ast.If | ast.IfExp) -> bool:
    """Whether the other arm of a choice sets a variable in the first step: `loss = part` where `if i > 0:` does not
    hold, which guards `loss = loss + part`."""
    positive = next((positive for _, positive in _steps(draft, node, choice, choice.test)), None)
    if positive is None:
        return False
    index = draft.facts.index
    if isinstance(choice, ast.If):
        around = [*index.ancestors(load)]
        others = choice.orelse if positive else choice.body
        return any(load.id in _names(s) for s in others) and not any(one in around for one in others)
    other = choice.orelse if positive else choice.body
    return load.id in _names(index.statement(choice)) and all(n.id != load.id for n in loads(other))


def _names(statement: ast.stmt) -> set[str]:
    """The variables that a statement sets."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _tests(parent: ast.AST, child: ast.AST) -> list[ast.expr]:
    """What has to be true where a part of a condition is evaluated: its body, or what follows an `and`."""
    if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And):
        return [value for value in parent.values if position(value) < position(child)]
    if isinstance(parent, ast.If):
        known = [parent.test] if child in parent.body else []
    else:
        known = [parent.test] if isinstance(parent, ast.IfExp) and child is parent.body else []
    return [t for k in known for t in (k.values if isinstance(k, ast.BoolOp) and isinstance(k.op, ast.And) else [k])]


def _is_later(test: ast.expr, first: int) -> tuple[str, bool] | None:
    """The variable that a test compares with a number, and whether the test is false in the first step (else it is true
    there alone)."""
    match test:
        case ast.Name(id=name):
            return (name, True) if first == 0 else None
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
            return (name, False) if first == 0 else None
        case ast.Compare(left=ast.Name(id=name), ops=[op], comparators=[ast.Constant(value=int(number))]):
            if number == first and isinstance(op, ast.Eq):
                return name, False
            after = (ast.Gt, ast.GtE, ast.Eq) if number > first else ()
            return (name, True) if isinstance(op, (ast.Gt, ast.NotEq) if number == first else after) else None
    return None


def _steps(draft: Draft, node: ast.AST, place: ast.AST, test: ast.expr) -> Iterator[tuple[ast.For, bool]]:
    """The loops around a place in an iteration whose first step a test tells from the others, with how it does."""
    for loop in draft.facts.index.ancestors(place):
        if loop is node:
            return
        counts = _counts(draft, loop) if isinstance(loop, ast.For) else None
        later = _is_later(test, counts[1]) if counts is not None else None
        if isinstance(loop, ast.For) and counts is not None and later is not None and later[0] == counts[0]:
            yield loop, later[1]


def _counts(draft: Draft, loop: ast.For) -> tuple[str, int] | None:
    """The variable in which a loop counts its steps, and from where."""
    call, target = loop.iter, loop.target
    builtin = draft.facts.resolver.builtin(call.func) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or builtin not in ("enumerate", "range"):
        return None
    begins: list[ast.expr] = [k.value for k in call.keywords if builtin == "enumerate" and k.arg == "start"]
    if len(begins) != len(call.keywords):
        return None
    if builtin == "enumerate":
        target = target.elts[0] if isinstance(target, ast.Tuple) else target
        begins += call.args[1:]
    elif len(call.args) > 1:
        begins += call.args[:1]
    first = integer(begins[0]) if begins else 0
    return (target.id, first) if isinstance(target, ast.Name) and first is not None else None
