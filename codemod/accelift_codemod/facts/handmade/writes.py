"""What a loop without a loader writes into entries: whether an array keeps something for the rows of a batch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.effects import assignments, loads, stores
from accelift_codemod.facts.index import How
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
        beside = _beside_rows(index)
        return beside is None or any(read(part, env) not in FIXED for part in beside)
    written = _written(handmade, target, env)
    if isinstance(index, ast.Slice):
        bounds = [bound for bound in (index.lower, index.upper, index.step) if bound is not None]
        return written is Layout.ROWS or any(read(bound, env) not in FIXED for bound in bounds)
    if read(index, env) in FIXED:
        return False
    return not (written in (*FIXED, *SCALARS) and _counted(handmade, step, index, env))


def writes_data(handmade: Handmade, target: ast.Name, env: Environment) -> bool:
    """Whether `x += 1` may change the data that a batch was cut from, or kept in: every process would change its share.

    It does not if the variable has been computed, or picked by indices, which copies the rows.
    """
    owner = handmade.index.scope(target).owner(target.id)
    for binding in owner.bindings[target.id] if owner is not None else ():
        if binding.how is not How.AUGMENT:
            pairs = assignments(handmade.index.statement(binding.node))
            value = next((value for bound, value in pairs if bound is binding.node), None)
            while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                value = value.func.value  # `X[rows].to(device)`
            picked = isinstance(value, ast.Subscript) and handmade.layouts.read(value.slice, env) is Layout.ROWS
            if not picked and not isinstance(value, (ast.BinOp, ast.UnaryOp)):
                return True
    return False


def _beside_rows(index: ast.expr) -> list[ast.expr] | None:
    """What an index tells beside the rows, if it takes something of each: `x[:]`, `x[:, 0]`, `x[..., 0]`."""
    first, *others = index.elts if isinstance(index, ast.Tuple) and index.elts else [index]
    if isinstance(first, ast.Slice):
        every = first.lower is first.upper is first.step is None
    else:
        every = isinstance(first, ast.Constant) and first.value is ...
    bounds = ((o.lower, o.upper, o.step) if isinstance(o, ast.Slice) else (o,) for o in others)
    return [part for parts in bounds for part in parts if part is not None] if every else None


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
