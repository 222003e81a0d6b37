"""What an iteration measures and yields to the callers of its generator: `for loss in epoch(model, loader): ...`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.measured.averaging import averaging
from accelift_codemod.measured.steering import steers
from accelift_codemod.measured.sums import Loop, handed_on, is_of_number
from accelift_codemod.plan import Edit, Finding, Severity


def yielded(
    draft: Draft, loop: BatchLoop, node: Loop, local: set[str]
) -> dict[ast.expr, Sequence[Edit] | Sequence[Finding]]:
    """What is yielded of a share and steers the training where it is gone through, with the edits that make it that of
    all processes, or what is told of it."""
    found: dict[ast.expr, Sequence[Edit] | Sequence[Finding]] = {}
    leading = draft.facts.loops.gradients.reads
    for part in parts_yielded(draft, node):
        reads = [n for n in loads(part) if n.id in local]
        if reads and leading.isdisjoint(reads) and steers(draft, reads):
            rows = is_of_number(draft, part)  # those themselves stay as many as others
            made = handed_on(draft, loop, draft.facts.index.statement(part), part, local, rows)
            found[part] = made or [_differs(draft, part)]
    return found


def parts_yielded(draft: Draft, node: Loop) -> Iterator[ast.expr]:
    """What the statements of a loop yield, one by one where it is several things."""
    function = draft.facts.index.function(node)
    for part in draft.facts.resolver.yields(function) if isinstance(function, FUNCTIONS) else ():
        if isinstance(part, ast.Yield) and part.value is not None and node in draft.facts.index.ancestors(part):
            yield from part.value.elts if isinstance(part.value, ast.Tuple) else [part.value]


def _differs(draft: Draft, part: ast.expr) -> Finding:
    return draft.finding(
        "COLL-RANKFLOW",
        Severity.ERROR,
        part,
        f"`{draft.facts.segment(part)}` is measured on one process's share of the data, and a decision of those who go "
        "through the generator depends on it",
        f"average it across processes with {averaging(draft, draft.facts.index.statement(part), part)} before it is "
        "yielded",
    )
