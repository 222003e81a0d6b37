"""What is decided by a mean over the samples, in functions and expressions: `return 2 * loss if loss > 1 else loss`.

A process has the mean of its share, and decides otherwise than one process would. What the statements of a loop over
batches decide themselves is told where decisions are (see measured/decisions.py).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.layout.algebra import Environment, Frame, Layout, Shape
from accelift_codemod.facts.tree import children, walk

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts

_MEANS = (Layout.MEAN, Layout.WEIGHTED, Layout.QUOTIENT, Layout.PIECED)
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_PLACES = (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)


def is_order(node: ast.Compare) -> bool:
    """Whether a comparison asks which of two is greater; of what is compared with zero, only the sign is asked."""
    sides = (node.left, *node.comparators)
    return isinstance(node.ops[0], _ORDERS) and not any(isinstance(s, ast.Constant) and s.value == 0 for s in sides)


def compares_means(sides: Sequence[Shape]) -> bool:
    """Whether what is compared are means over the samples; of sums nothing is said, which are asked for zero."""
    return any(side in _MEANS for side in sides)


def goes_by(layouts: Layouts, test: ast.expr, env: Environment, frame: Frame) -> bool:
    """Whether a test goes by how large a mean over the samples is."""
    sides = ([layouts.read(s, env, frame) for s in (n.left, *n.comparators)] for n in _compared(test) if is_order(n))
    return any(map(compares_means, sides))


def _compared(test: ast.expr) -> Iterator[ast.Compare]:
    """The comparisons in a test, without those in others."""
    queue: list[ast.AST] = [test]
    for node in queue:
        if isinstance(node, ast.Compare):
            yield node
        else:
            queue += children(node)


def is_own(layouts: Layouts, node: ast.expr) -> bool:
    """Whether an expression is one of a statement that sets a variable, in no function or expression of its own."""
    if layouts.modules.running:
        return False
    statement: ast.AST = node
    for statement in layouts.index.ancestors(node):
        if isinstance(statement, (*_PLACES, ast.stmt)):
            break
    return isinstance(statement, ast.Assign) and any(isinstance(target, ast.Name) for target in statement.targets)


def settle(bodies: Iterable[list[ast.stmt]], env: Environment, frame: Frame) -> None:
    """Note that what statements set, or give back, is decided by a mean."""
    for statement in (s for body in bodies for s in body):
        for name in stores(statement):
            if name in env:
                env[name] = Layout.MIXED
        if any(isinstance(n, ast.Return) and n.value is not None for n in walk(statement)):
            frame.returned = Layout.MIXED
