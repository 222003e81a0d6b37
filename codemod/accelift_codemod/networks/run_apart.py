"""Prepared networks that only some processes run: before each pass, what wraps them hands their buffers out."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts.tree import walk
from accelift_codemod.networks.own_averages import averages
from accelift_codemod.networks.ready_networks import has_no_buffers
from accelift_codemod.plan import Finding, Severity


def waits(draft: Draft, choice: ast.AST, test: ast.expr) -> Iterator[Finding]:
    """What is told of a forward pass in some of the arms of a choice by a test, and not in the others."""
    arms = _arms(choice)
    if not arms or draft.facts.processes.managed or has_no_buffers(draft):
        return
    found = [next(_passes(draft, arm), None) for arm in arms]
    call = next(filter(None, found), None)
    if call is None or None not in found:
        return
    surely = any(averages(draft, value) for value in draft.blueprint.prepared_models(call.func))
    yield draft.finding(
        "COLL-RANKFLOW",
        Severity.ERROR if surely else Severity.WARNING,
        choice,
        f"`{draft.facts.segment(test)}` differs from process to process, and where it says so, "
        f"`{draft.facts.segment(call)}` runs: before it, the buffers{'' if surely else ' (if there are any)'} of the "
        "network are handed to the other processes, which do not join in",
        "run it whatever the test says, or run accelerator.unwrap_model(...) there",
    )


def _arms(choice: ast.AST) -> Sequence[Sequence[ast.stmt | ast.expr]]:
    if isinstance(choice, (ast.If, ast.While)):
        return [choice.body, choice.orelse]
    if isinstance(choice, ast.IfExp):
        return [[choice.body], [choice.orelse]]
    return [choice.values[1:], []] if isinstance(choice, ast.BoolOp) else []


def _passes(draft: Draft, arm: Sequence[ast.stmt | ast.expr]) -> Iterator[ast.Call]:
    """The forward passes of prepared networks that statements run, in functions that they call, too."""
    parts = (part for statement in arm for part in (statement, *draft.blueprint.timeline.calls_into(statement)))
    calls = (n for part in parts for n in walk(part) if isinstance(n, ast.Call))
    yield from (call for call in calls if draft.blueprint.prepared_models(call.func))
