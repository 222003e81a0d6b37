"""Code that no call lets run: `if train: loss.backward()`, where every call of the function says `train=False`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import FUNCTIONS, How

if TYPE_CHECKING:
    from accelift_codemod.facts import Facts

_MOST = 4  # functions that hand a setting on to one another


def is_switched_off(facts: Facts, node: ast.AST) -> bool:
    """Whether a test surely comes out so that a node does not run, in all calls of the function that it is in.

    Only in functions of a file that is imported: a setting in the script itself may be there to be changed. And only if
    they are called by their name, and by nobody who has been handed them.
    """
    function = facts.index.function(node)
    if function is None or function.decorator_list or not facts.index.scope(function).is_module:
        return False
    if facts.same_file(node, facts.tree.body[-1]):
        return False
    if facts.references(function) or not any(map(facts.runs, facts.resolver.sites(function))):
        return False
    inner = node
    for outer in facts.index.ancestors(node):
        if outer is function:
            return False
        if isinstance(outer, ast.If) and inner is not outer.test:
            outcome = _outcome(facts, outer.test)
            if outcome is not None and outcome is not (inner in outer.body):
                return True
        inner = outer
    return False


def _outcome(facts: Facts, test: ast.expr) -> bool | None:
    """How a test surely comes out; None if that is not known."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        outcome = _outcome(facts, test.operand)
        return None if outcome is None else not outcome
    if isinstance(test, ast.BoolOp):
        outcomes = [_outcome(facts, part) for part in test.values]
        ends = isinstance(test.op, ast.Or)  # what one part decides alone
        return ends if ends in outcomes else None if None in outcomes else not ends
    if isinstance(test, ast.Compare):
        return _compared(facts, test)
    return _one({bool(one) for one in _known(facts, test) or ()})


def _compared(facts: Facts, test: ast.Compare) -> bool | None:
    """The same of `optimizer is None`, `mode == "train"`."""
    operator, right = test.ops[0], test.comparators[0]
    known = _known(facts, test.left)
    if len(test.ops) > 1 or known is None or not isinstance(right, ast.Constant):
        return None
    if isinstance(operator, (ast.Is, ast.IsNot)) and right.value is not None:
        return None
    if not isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
        return None
    return _one({(one == right.value) is isinstance(operator, (ast.Is, ast.Eq)) for one in known})


def _one(outcomes: set[bool]) -> bool | None:
    return outcomes.pop() if len(outcomes) == 1 else None


def _known(facts: Facts, node: ast.expr | None, steps: int = _MOST) -> list[object] | None:
    """The constants that an expression may be; None if it may be something else."""
    if isinstance(node, ast.Constant):
        return [node.value]
    bindings = facts.resolver.bindings(node) if isinstance(node, ast.Name) else []
    if len(bindings) != 1 or not steps:
        return None
    (binding,) = bindings
    function = facts.index.parents.get(facts.index.parents[binding.node]) if binding.how is How.PARAMETER else None
    if not isinstance(function, FUNCTIONS) or facts.references(function):
        return None
    found: list[object] = []
    for given in facts.resolver.handed(binding, facts.runs):
        one = _known(facts, given, steps - 1)
        if one is None:
            return None
        found += one
    return found or None
