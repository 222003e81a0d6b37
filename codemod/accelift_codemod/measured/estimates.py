"""Means of the processes' means, which are only nearly those of a batch."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.values import Value
from accelift_codemod.measured.taken import EVEN
from accelift_codemod.plan import Edit, Finding, Severity


def estimates(draft: Draft, loop: BatchLoop, made: Iterable[Edit | Finding]) -> Iterator[Finding]:
    """Says of the first of some edits that takes the mean of the processes' means how far that is the batch's."""
    edit = next((e for e in made if isinstance(e, Edit) and e.assumes is EVEN), None)
    if edit is None or edit.node is None:
        return
    what = f"`{draft.facts.segment(edit.node)}` becomes the mean of the processes' means"
    if draft.runtime:  # then it is no plain mean over samples
        yield draft.finding(
            "METRIC-TRAIN",
            Severity.NOTE,
            edit.node,
            f"{what}, which is that of the whole batch only if all of them divide by as much",
            "sum it and what it is divided by across processes, and divide then, if the exact figure matters",
        )
    elif not all(_drops_last(draft, value) for value in loop.loaders):
        yield draft.finding(
            "METRIC-TRAIN",
            Severity.NOTE,
            edit.node,
            f"{what}, in which the samples count twice that Accelerate fills a smaller last batch up with",
            "add drop_last=True, or convert with --target runtime, which weighs the means by the samples",
        )


def _drops_last(draft: Draft, loader: Value) -> bool:
    """Whether a loader surely leaves a smaller last batch out."""
    drops = draft.facts.objects.loader(loader).arguments.get("drop_last")
    return isinstance(drops, ast.Constant) and drops.value is True
