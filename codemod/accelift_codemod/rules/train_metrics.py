"""Averages, across processes, what the training loop measures and the script decides by."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance.noise import alike
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.parts import BATCH_LIKE
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured import chance_around
from accelift_codemod.measured.by_clock import timed_around
from accelift_codemod.measured.called_back import measured
from accelift_codemod.measured.carrying_objects import carrying
from accelift_codemod.measured.counting import RULE
from accelift_codemod.measured.counting_networks import counted
from accelift_codemod.measured.decisions import decisions, decisions_called, layers_by_chance
from accelift_codemod.measured.drawn_settings import drawn_settings
from accelift_codemod.measured.estimates import estimates
from accelift_codemod.measured.hooked import hooked
from accelift_codemod.measured.shares import local_names
from accelift_codemod.measured.sums import GRAPHS
from accelift_codemod.measured.taken import EVEN, ROWS
from accelift_codemod.measured.training_loops import TrainingLoop
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule


class TrainMetrics(Rule):
    """Reduces, across processes, a value of the training loop by which the script later takes a decision.

    Each process measures its own share, so a learning-rate schedule, an early stop or a "best so far" that follows
    such a value would differ from process to process: the models drift apart, or one process waits for the others for
    ever. A sum over samples that is divided by the size of the whole data set, or by another number that all
    processes have, is reduced, too. Any other running loss that is only printed is left alone, and reported.
    """

    code = RULE
    name = "decisions on training values"
    before = """\
running += loss.item()
...
scheduler.step(running / len(loader))
"""
    after = """\
running += accelerator.batch_mean(loss.detach()).item()
...
scheduler.step(running / len(loader))
"""
    assumptions = (EVEN, GRAPHS, ROWS)
    findings = (
        Explained(
            "METRIC-TRAIN",
            Severity.NOTE,
            "training statistics of one process's share",
            "What the training loop adds up (a running loss, an accuracy), or leaves behind (the last loss), covers "
            "the share of the process that prints it, shows it beside its progress bar, or writes it to a file: means "
            "are estimates, sums and counts are smaller by the number of processes. It is a warning where a sum or "
            "count is divided by the size of the whole data or batch, where an iteration decides by it which "
            "checkpoint is kept, and where rows of a share are picked that it may not have.",
        ),
        Explained(
            "COLL-RANKFLOW",
            Severity.ERROR,
            "a decision that processes may take differently",
            "A decision depends on a value that differs from process to process: some leave a loop, or change the "
            "learning rate, and others do not. A loop that runs backward for every piece of a batch decides, too: "
            "processes with smaller shares have fewer pieces. Unseeded draws that decide which layers run, or that a "
            "learning rate, a layer or a size of batches is set to, do so, too.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for loop in draft.blueprint.train_loops:
            if not isinstance(loop.node, ast.comprehension) and not alike(draft, loop):
                made = list(TrainingLoop(draft, loop, loop.node).settle())
                yield from made
                yield from estimates(draft, loop, made)
        for loop in draft.blueprint.attacking_loops:
            if not isinstance(loop.node, ast.comprehension) and _waits(draft, loop):
                local = local_names(draft, loop, loop.node)
                yield from decisions(draft, loop.node, local)
                yield from decisions_called(draft, loop.node, local)
        yield from timed_around(draft)
        yield from layers_by_chance(draft)
        yield from chance_around.decided(draft)
        yield from drawn_settings(draft)
        yield from counted(draft)
        yield from carrying(draft)
        yield from hooked(draft)
        for node, shown in measured(draft.facts):
            if shown and draft.facts.resolver.roles(node) & BATCH_LIKE:
                yield draft.finding(
                    "METRIC-TRAIN",
                    Severity.NOTE,
                    node,
                    f"`{draft.facts.segment(node)}` covers only the share of the process that shows it",
                    "gather the values if the exact figure matters",
                )


def _waits(draft: Draft, loop: BatchLoop) -> bool:
    """Whether the processes compute something together in an iteration: a network that is prepared."""
    functions = {f for s in loop.body for f in draft.blueprint.timeline.calls_into(s)}
    calls = (n for part in (*loop.body, *functions) for n in walk(part) if isinstance(n, ast.Call))
    return any(draft.blueprint.prepared_models(call.func) for call in calls)
