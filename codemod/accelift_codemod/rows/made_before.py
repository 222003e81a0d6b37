"""What is made for whole batches before a training loop, and has a part in its loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.measured.onward import is_within, reached, reads_of


def reaching(draft: Draft, loop: BatchLoop, calls: list[ast.Call]) -> Iterator[ast.Call]:
    """Of calls outside of a training loop, those whose results flow into what it runs backward from."""
    losses = [c.func.value for c in draft.facts.loops.backwards_in(loop.node) if isinstance(c.func, ast.Attribute)]
    for call in calls:
        statement = draft.facts.index.statement(call)
        if loop.node in draft.facts.index.ancestors(call) or not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            continue
        uses = reached(draft, reads_of(draft, statement))
        if any(is_within(draft, use, loss) for use in uses for loss in losses):
            yield call
