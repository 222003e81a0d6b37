"""Tests by which a training loop leaves out batches that are not whole: `if x.size(0) != batch_size: continue`."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured.counting import RULE, count_of_all
from accelift_codemod.plan import Edit
from accelift_codemod.rows import batch_sizes
from accelift_codemod.rows.copies import is_place

_LEAVES = (ast.Continue, ast.Break, ast.Return)


@kept
def asked(draft: Draft, loop: BatchLoop) -> Mapping[ast.Compare, tuple[Edit, ...]]:
    """The tests of an iteration, with what has them ask how many samples all processes have of the batch.

    Every process comes to them, and decides as one would: shares may be of different sizes.
    """
    trains = loop in draft.blueprint.train_loops and draft.facts.loops.around(loop) is loop
    chosen = draft.options.batch == "global" and all(map(draft.options.chooses, ("BATCHSIZE", RULE)))
    if not (loop.direct and trains and chosen and draft.blueprint.shares_batches(loop)):
        return {}
    sizes = [*batch_sizes.of_loaders(draft, loop)]
    found: dict[ast.Compare, tuple[Edit, ...]] = {}
    for statement in loop.body:
        test = statement.test if isinstance(statement, ast.If) else None
        if not isinstance(statement, ast.If) or not isinstance(test, ast.Compare) or len(test.ops) != 1:
            continue
        if not any(_leaves(draft, n, loop) for s in (*statement.body, *statement.orelse) for n in walk(s)):
            continue
        env = draft.environment(loop, statement)
        for rows, size in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
            if env is None or draft.facts.layouts.read(rows, env) is not Layout.COUNT:
                continue
            if _is_whole(draft, loop, size, sizes) and (made := tuple(count_of_all(draft, loop, rows, env))):
                found[test] = made
    return found


def _leaves(draft: Draft, node: ast.AST, loop: BatchLoop) -> bool:
    """Whether a statement leaves the iteration, or a backward pass runs."""
    if isinstance(node, _LEAVES):
        return isinstance(node, ast.Return) or draft.facts.index.enclosing_loops(node)[:1] == [loop.node]
    return draft.facts.loops.is_backward(node)


def _is_whole(draft: Draft, loop: BatchLoop, node: ast.expr, sizes: list[ast.expr]) -> bool:
    """Whether a number is that of the rows of a whole batch, also written out."""
    if is_place(node) and batch_sizes.is_size(draft, node, loop, [size for size in sizes if is_place(size)]):
        return True
    number = batch_sizes.number_of(draft, node)
    return number not in (None, 1) and number in {batch_sizes.number_of(draft, size) for size in sizes}
