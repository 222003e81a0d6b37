"""Measures over all processes in a loop that trains in some passes and evaluates in others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.measured.deciding import decides, deciding, made_whole, pacing
from accelift_codemod.measured.estimates import estimates
from accelift_codemod.measured.said import remedy
from accelift_codemod.measured.shares import local_names
from accelift_codemod.measured.sums import (
    GRAPHS,
    Loop,
    reads_after,
    reduced,
    sums_of,
)
from accelift_codemod.measured.taken import EVEN, ROWS
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Rule

_RULE = "PHASE"


class Phases(Rule):
    """Makes what a loop adds up the sum of all processes, if it trains in some passes and evaluates in others.

    Such a loop decides by a flag, by a phase or by the mode of the model whether it trains. Its loaders are all
    prepared, and the results of both kinds of pass are those of the whole data: every number that it adds to a sum is
    first combined with those of the other processes. That is done for all its sums or for none, for they are divided by
    each other, and for what it collects in lists and other objects, of which those that training is decided by are made
    those of all in any case (see REDUCE). What else it leaves is reported.
    """

    code = _RULE
    name = "results of a loop that trains and evaluates"
    before = """\
for phase in ["train", "val"]:
    for x, y in loaders[phase]:
        loss = criterion(model(x), y)
        if phase == "train":
            ...
        total += loss.item() * x.size(0)
"""
    after = """\
        total += accelerator.gather_for_metrics(loss.detach().cpu().double() * x.size(0)).sum().item()
"""

    assumptions = (EVEN, GRAPHS, ROWS)

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for loop in draft.blueprint.train_loops:
            if loop.evaluates and draft.blueprint.shares_batches(loop):
                assert isinstance(loop.node, (ast.For, ast.AsyncFor))
                yield from self._loop(draft, loop, loop.node)

    def _loop(self, draft: Draft, loop: BatchLoop, node: Loop) -> Iterator[Edit | Finding]:
        local = local_names(draft, loop, node)
        sums = sums_of(node, local)
        paced = pacing(draft, loop, node, sums, local)  # rates are set by them: see train_metrics.py
        local = local_names(draft, loop, node, paced) if paced else local
        sums = {name: statements for name, statements in sums.items() if name not in paced}
        decided = deciding(draft, node, local - set(sums))
        averages = {name for name, made in made_whole(draft, loop, node, decided, local, ()).items() if made}
        edits = {name: reduced(draft, loop, statements, local, rows=True) for name, statements in sums.items()}
        left: list[ast.AST] = [sums[name][0] for name in sums if not edits[name]]
        kept = {
            name: read
            for name in sorted(local - {*sums, *averages})
            for read in reversed(reads_after(draft, node, name))
            if _keeps(draft, read)
        }
        if not left:
            edits |= made_whole(draft, loop, node, [*kept], local, {*sums, *averages})
            left += [read for name, read in kept.items() if not edits[name]]
        if not left:
            made = list(dict.fromkeys(edit for found in edits.values() for edit in found))
            yield from made
            yield from estimates(draft, loop, made)
        place = left[0] if left else None
        if place is not None:
            measured = sorted({*sums, *kept, *averages})
            decisive = [name for name in sums if decides(draft, node, sums[name][0])]
            found = draft.finding(
                "METRIC-LOCAL",
                Severity.ERROR,
                place,
                f"this loop trains in some passes and evaluates in others, and what it measures ("
                f"{', '.join(f'`{name}`' for name in measured)}) is that of one process's share",
                "evaluate in a loop of its own, or gather what the results are computed from by "
                "accelerator.gather_for_metrics",
            )
            yield found if decisive or decided else replace(found, tells=tuple(measured))
            for name in decisive:
                yield draft.finding(
                    "COLL-RANKFLOW",
                    Severity.ERROR,
                    sums[name][0],
                    f"`{name}` is measured on one process's share of the data, and a decision depends on it",
                    remedy(draft, loop, sums[name][0]),
                )


def _keeps(draft: Draft, read: ast.Name) -> bool:
    """Whether a read asks for what is in a variable, and does not just call a method of it: `writer.close()`."""
    statement = draft.facts.index.statement(read)
    call = statement.value if isinstance(statement, ast.Expr) else None
    return not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.value is read)
