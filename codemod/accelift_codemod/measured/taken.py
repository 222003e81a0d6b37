"""Numbers that are taken of tensors, as parts of what a loop adds up: each made that of all processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from accelift_codemod.draft import Draft
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.layout import Environment, Layout, Layouts, Shape
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.measured.counting import MEAN_OF_ALL, RULE, WHY, total
from accelift_codemod.measured.numbers import number_of
from accelift_codemod.plan import Assumption, Edit, Need, Operation

EVEN = Assumption("the samples of a batch can be shared evenly; a smaller last batch may differ a little")
ROWS = Assumption("the model returns one row for each sample, as what it is compared with in the loop has")
_MEAN_OF_MEANS = '{accelerator}.reduce({}.detach(), reduction="mean")'
_REDUCTIONS = (Layout.MEAN, Layout.WEIGHTED, Layout.SUM)


def numbers_in(draft: Draft, value: ast.expr) -> dict[ast.AST, ast.expr]:
    """The numbers that an expression takes of tensors, with these."""
    return {call: of for call in walk(value) if (of := number_of(draft, call)) is not None}


def taken_of_all(
    draft: Draft,
    statement: ast.stmt,
    value: ast.expr,
    taken: Mapping[ast.AST, ast.expr],
    local: set[str],
    layouts: Layouts,
    env: Environment,
    trusts: bool = False,
) -> Iterator[Edit]:
    """Make the numbers in what a statement adds those of all processes, if nothing else in it is of a share.

    `trusts` says that the layouts take the outputs of networks that are not known for one row for each sample.
    """
    shapes = {call: layouts.read(of, env) for call, of in taken.items()}
    known = all(isinstance(found, Layout) and found in _REDUCTIONS for found in shapes.values())
    within = {n for call in taken for n in walk(call)}
    own = {name for target in targets(statement) for name in stores(target)}
    rest = {n.id for n in loads(value) if n not in within} & (local - own)
    if not known or rest or any(counts_beside(value, call) for call in taken):
        return
    for call, of in taken.items():
        code, assumes = _of_all(draft, shapes[call])
        assumes = ROWS if trusts else assumes
        if isinstance(call, ast.Name):  # which others may read: a bar that shows it
            code = f"{code.replace('{}', written(draft, of))}.item()"
            yield draft.edit(RULE, call, Operation.BECOME, WHY, code, need=Need.STRONG, assumes=assumes)
        else:
            yield draft.edit(RULE, of, Operation.SURROUND, WHY, code, need=Need.STRONG, assumes=assumes)


def counts_beside(value: ast.expr, call: ast.AST) -> bool:
    """Whether the increment also has a factor that differs by process (`loss.item() * x.size(0)`)."""
    others = [
        n
        for n in walk(value)
        if isinstance(n, ast.Attribute) and n.attr in ("size", "shape") and n not in set(walk(call))
    ]
    lengths = [
        n for n in walk(value) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "len"
    ]
    return bool(others or lengths)


def _of_all(draft: Draft, layout: Shape) -> tuple[str, Assumption | None]:
    """How a number of a share becomes that of all processes, and what that takes for granted."""
    if layout is Layout.SUM:
        return total(draft, "{}.detach()"), None
    if layout is Layout.MEAN and draft.runtime:
        return MEAN_OF_ALL, None
    return _MEAN_OF_MEANS, EVEN


def written(draft: Draft, tensor: ast.expr | None) -> str:
    """A tensor as the script writes it, so that a method can be called on it."""
    text = draft.facts.segment(tensor) if tensor is not None else ""
    return text if isinstance(tensor, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else f"({text})"
