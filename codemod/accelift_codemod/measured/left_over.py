"""Evaluations that read what a training loop has left of its last batch: a share, beside samples of other batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Binding, How, Role, position
from accelift_codemod.facts.layout import Layout
from accelift_codemod.measured.numbers import is_of_rows
from accelift_codemod.measured.shares import is_share
from accelift_codemod.measured.steering import steers
from accelift_codemod.plan import Finding, Severity

_ROWS = (Layout.ROWS, Layout.BATCH)


def left_over(draft: Draft) -> Iterator[Finding]:
    """What is told of it, once for each variable that such a loop reads: most are mistaken for one of its own."""
    for loop in draft.blueprint.eval_loops:
        if isinstance(loop.node, ast.comprehension):
            continue
        for reads in draft.names_in(loop.node).values():
            loads = (n for n in reads if isinstance(n.ctx, ast.Load) and is_of_rows(draft, n))
            left = next(((n, by) for n in loads if (by := _left_by(draft, loop, n)) is not None), None)
            if left is not None:
                read, by = left
                found = draft.finding(
                    "METRIC-LOCAL",
                    Severity.ERROR,
                    read,
                    f"`{draft.facts.short(read)}` is what the loop of line {position(by)[0]} has left of its last "
                    "batch: this process's share of it, where this loop has samples of other batches",
                    "read the variable of this loop that was meant, or gather what the other one leaves with "
                    "accelerator.gather_for_metrics",
                )
                yield found if steers(draft, [read], saves=False) else replace(found, tells=(draft.facts.short(read),))


def _left_by(draft: Draft, loop: BatchLoop, read: ast.Name) -> ast.AST | None:
    """The training loop that has left the rows which are read, if no statement of the own loop has set them."""
    bindings = draft.facts.resolver.bindings(read)
    if any(loop.node in draft.facts.index.ancestors(b.node) for b in bindings):
        return None
    return next((other for b in bindings if (other := _rows_of(draft, b)) is not None), None)


def _rows_of(draft: Draft, binding: Binding) -> ast.AST | None:
    """The training loop in which a variable is bound to rows of a share."""
    loops = map(draft.blueprint.loops.get, draft.facts.index.ancestors(binding.node))
    loop = next((one for one in loops if one is not None and one.trains), None)
    shares = [v for v in draft.facts.resolver.bound(binding) if is_share(draft, v)] if loop is not None else []
    if loop is None or not shares:
        return None
    if all(v.role is Role.BATCH for v in shares):
        return loop.node
    env = draft.environment(loop, draft.facts.index.statement(binding.node))
    plain = binding.how is How.ASSIGN and not binding.path and binding.value is not None
    rows = plain and env is not None and draft.facts.layouts.read(binding.value, env) in _ROWS
    return loop.node if rows else None
