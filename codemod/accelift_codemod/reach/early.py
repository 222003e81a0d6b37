"""What goes to "the GPU" before there is an accelerator: until then, each process has the first one for its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import position
from accelift_codemod.facts.conditions import TRUE
from accelift_codemod.plan import Finding, Severity


def moves(draft: Draft) -> Iterator[Finding]:
    """What is said of calls that move something to a GPU, or make it there, without saying which, and run before there
    is an accelerator: in code outside of functions, or in functions that are called there."""
    if draft.reach.cpu == TRUE or draft.facts.processes.managed:
        return
    for call in sorted(_unnumbered(draft), key=position):
        if draft.facts.runs(call) and not draft.gone(call) and _is_early(draft, call):
            yield draft.finding(
                "DEV-LEFT",
                Severity.WARNING,
                call,
                f"`{draft.facts.short(call)}` runs before there is an accelerator, when no process has its own GPU "
                "yet: all of them use the first one",
                "do it in a function that is called later, or move it where it is used",
            )


def _unnumbered(draft: Draft) -> Iterator[ast.Call]:
    """The calls that name no particular GPU, and are not edited."""
    for move in draft.facts.moves.all:
        prepared = any(map(draft.blueprint.is_prepared, draft.facts.resolver.values(move.receiver)))
        if move.kind == "cuda" and move.target is None and not prepared and not draft.edits_at(move.call):
            yield move.call
    for call in draft.calls:
        moved = draft.facts.moves.of.get(call)
        given: list[tuple[ast.AST, ast.expr]] = [(k, k.value) for k in call.keywords if k.arg == "device"]
        given += [(call, call.args[0])] if moved is not None and moved.kind == "to" and call.args else []
        if any(isinstance(v, ast.Constant) and v.value == "cuda" and not draft.edits_at(n) for n, v in given):
            yield call


def _is_early(draft: Draft, call: ast.Call) -> bool:
    reach, timeline = draft.reach, draft.blueprint.timeline
    made = reach.block[reach.place] if reach.place < len(reach.block) else reach.block[-1]
    outside, starts = timeline.moments(call, None), timeline.moments(made, None)
    inside = timeline.moments(call, reach.home)
    return (bool(outside and starts) and outside[0] < starts[0]) or (bool(inside) and inside[0] < position(made))
