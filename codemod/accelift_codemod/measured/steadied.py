"""Losses that depend on numbers of a batch which the conversion makes those of all processes, such as an average that
goes on from batch to batch: they are what such a loss is in which that number does not depend on the batch.
"""

from __future__ import annotations

import ast
from functools import reduce

from accelift_codemod.chance.noise import alike
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.layout import Shape
from accelift_codemod.facts.layout.algebra import join
from accelift_codemod.measured.carried import carried
from accelift_codemod.measured.shares import local_names
from accelift_codemod.measured.sums import reduced


def layout(draft: Draft, call: ast.Call, loss: ast.expr) -> Shape | None:
    """How a loss depends on the batch then; None if there are no such numbers."""
    loops = [loop for loop in draft.training_around(call) if loop not in draft.blueprint.handmade]
    whole = frozenset(node for loop in loops for node in _whole(draft, loop))
    layouts = draft.facts.layouts_where(whole)
    found = (draft.environment(loop, call, layouts=layouts) for loop in loops) if whole else ()
    read = [layouts.read(loss, env) for env in found if env is not None]
    return reduce(join, read) if read else None


def _whole(draft: Draft, loop: BatchLoop) -> set[ast.AST]:
    """The expressions that are to be those of all processes in what a later iteration goes on from."""
    if isinstance(loop.node, ast.comprehension) or alike(draft, loop):
        return set()
    local = local_names(draft, loop, loop.node)
    numbers = carried(draft, loop, loop.node, local).values()
    return {edit.node for statements in numbers for edit in reduced(draft, loop, statements, local) if edit.node}
