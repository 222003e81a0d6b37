"""What a loop without a loader writes into entries: whether an array keeps something for the rows of a batch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.layout import Environment, Layout
from accelift_codemod.facts.layout.algebra import FIXED, SCALARS
from accelift_codemod.facts.layout.strides import Strides
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.facts.handmade import Handmade
    from accelift_codemod.facts.handmade.steps import Step


def written_by_rows(handmade: Handmade, step: Step, target: ast.Subscript, env: Environment) -> bool:
    """Whether an entry is written, or may be, at a place that follows the rows of the batch."""
    read, index = handmade.layouts.read, target.slice
    if read(target.value, env) is Layout.ROWS:  # of the share itself
        return not isinstance(index, ast.Slice) and read(index, env) not in FIXED
    written = _written(handmade, target, env)
    if isinstance(index, ast.Slice):
        bounds = [bound for bound in (index.lower, index.upper, index.step) if bound is not None]
        return written is Layout.ROWS or any(read(bound, env) not in FIXED for bound in bounds)
    if read(index, env) in FIXED:
        return False
    return not (written in (*FIXED, *SCALARS) and _counted(handmade, step, index, env))


def _written(handmade: Handmade, target: ast.Subscript, env: Environment) -> object:
    """The layout of what is written there."""
    outer = handmade.index.parents.get(target)
    if isinstance(outer, (ast.Assign, ast.AugAssign)):
        return handmade.layouts.read(outer.value, env)
    return Layout.UNKNOWN


def _counted(handmade: Handmade, step: Step, index: ast.expr, env: Environment) -> bool:
    """Whether nothing but the loop's number is in an index: every process writes a number at the same place."""
    loop = step.loop.node
    if not isinstance(loop, ast.For) or step.function is not None or not Strides(handmade.resolver, loop).number:
        return False
    numbers = set(stores(loop.target)) - {name for statement in loop.body for name in stores(statement)}
    if any(isinstance(n, (ast.Call, ast.Slice)) for n in walk(index)):
        return False
    return all(n.id in numbers or handmade.layouts.read(n, env) in FIXED for n in loads(index))
