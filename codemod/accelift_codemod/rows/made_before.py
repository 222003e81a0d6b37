"""What is made for whole batches before a training loop, and has a part in its loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, position
from accelift_codemod.following.onward import is_within, reached, reads_of


def reaching(draft: Draft, loop: BatchLoop, calls: list[ast.Call]) -> Iterator[ast.Call]:
    """Of calls outside of a training loop, those whose results flow into what it runs backward from."""
    losses = [c.func.value for c in draft.facts.loops.backwards_in(loop.node) if isinstance(c.func, ast.Attribute)]
    for call in calls:
        statement = draft.facts.index.statement(call)
        if loop.node in draft.facts.index.ancestors(call) or not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            continue
        if _is_later(draft, loop, call):
            continue
        reads = reads_of(draft, statement)
        if any(_is_resized(draft, read) for read in reads):
            continue  # to what each batch has
        uses = reached(draft, reads, stop=_is_cut)
        if any(is_within(draft, use, loss) for use in uses for loss in losses):
            yield call


def _is_later(draft: Draft, loop: BatchLoop, call: ast.Call) -> bool:
    """Whether a call only runs when the loop is done for good."""
    index = draft.facts.index
    if index.function(call) is not index.function(loop.node) or position(call) < position(loop.node):
        return False
    return not draft.blueprint.timeline.repeats(call, loop.node)


def _is_resized(draft: Draft, read: ast.Name) -> bool:
    """Whether a tensor is given another number of rows in place: `noise.resize_(len(x), 100)`."""
    parent = draft.facts.index.parents[read]
    return isinstance(parent, ast.Attribute) and parent.attr in ("resize_", "resize_as_", "set_")


def _is_cut(node: ast.AST) -> bool:
    """Whether an expression takes the first rows of something: `style[:n]`, `style[:n, :]`."""
    if not isinstance(node, ast.Subscript):
        return False
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    return isinstance(first, ast.Slice) and first.upper is not None
