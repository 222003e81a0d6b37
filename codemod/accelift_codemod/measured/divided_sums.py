"""What the sums of a training loop are divided by after it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.following.onward import with_callers
from accelift_codemod.measured.added import sums_something
from accelift_codemod.measured.divided import is_weighed
from accelift_codemod.measured.divisors import as_number, is_alike, is_whole
from accelift_codemod.measured.sums import Loop, adds_up, reads_after


def by_the_whole(draft: Draft, loop: BatchLoop, node: Loop, statement: ast.AugAssign) -> bool:
    """Whether a sum over samples is divided by the length of a data set, which is that of the whole job."""
    if not (adds_up(draft, loop, statement) or sums_something(draft, statement.value)):
        if not is_weighed(draft, loop, statement.value):
            return False
    return any(is_whole(draft, loop, divisor) for divisor in _divisors(draft, node, statement))


def by_a_number(draft: Draft, node: Loop, statement: ast.AugAssign, local: set[str]) -> bool:
    """Whether a sum is divided by a number that every process has: what it is to be of is the whole job's."""
    return any(is_alike(draft, node, divisor, local) for divisor in _divisors(draft, node, statement))


def by_a_share(
    draft: Draft, loop: BatchLoop, node: Loop, statement: ast.AugAssign, local: set[str], beside: set[str]
) -> bool:
    """Whether a sum is divided by what may be counted on one process, and is not among the sums beside it."""
    return any(
        not (isinstance(divisor, ast.Name) and divisor.id in beside)
        and not is_whole(draft, loop, divisor)
        and not is_alike(draft, node, divisor, local)
        for divisor in _divisors(draft, node, statement)
    )


def _divisors(draft: Draft, node: Loop, statement: ast.AugAssign) -> Iterator[ast.expr]:
    """What that which a statement adds up is divided by, after the loop."""
    target = statement.target
    base = target.value if isinstance(target, ast.Subscript) else target
    assert isinstance(base, ast.Name)
    parents = draft.facts.index.parents
    later = reads_after(draft, node, base.id)
    for load in with_callers(draft, later) if base is target else later:
        number: ast.AST = load
        if isinstance(target, ast.Subscript):
            number = parents[load]
            if not isinstance(number, ast.Subscript) or ast.dump(number.slice) != ast.dump(target.slice):
                continue
        number = as_number(draft, number)
        parent = parents.get(number)
        while isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):  # `100 * correct / len(data)`
            number = as_number(draft, parent)
            parent = parents.get(number)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.left is number:
            yield parent.right
        if isinstance(parent, ast.AugAssign) and parent.target is number and isinstance(parent.op, ast.Div):
            yield parent.value
    owner = draft.facts.index.scope(node).owner(base.id)
    for binding in owner.bindings[base.id] if base is target and owner is not None else ():
        again = draft.facts.index.statement(binding.node)
        if isinstance(again, ast.AugAssign) and isinstance(again.op, ast.Div):
            if again.lineno > (node.end_lineno or 0):
                yield again.value
