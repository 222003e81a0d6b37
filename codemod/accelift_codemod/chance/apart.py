"""What draws random numbers on some processes only: the generators of the others stay where they are."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from accelift_codemod.chance.moved import is_on_device
from accelift_codemod.draft import Draft
from accelift_codemod.facts.chance import stream
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.plan import Finding, Severity


def drawn_apart(draft: Draft, loop: ast.For | ast.AsyncFor | ast.While, choice: ast.If | ast.While) -> ast.Call | None:
    """What statements of a loop over batches draw that only some processes run, if these, or the order of the samples,
    are drawn from the same generator elsewhere."""
    inside = [n for s in (*choice.body, *choice.orelse) for n in walk(s)]
    drawn = {call: home for call, home in _draws(draft, [*choice.body, *choice.orelse]) if not is_on_device(call)}
    if not drawn:
        return None
    around = [n for n in draft.facts.index.enclosing_loops(loop) if isinstance(n, (ast.For, ast.While))]
    whole: ast.stmt = around[-1] if around else loop
    others = {home for call, home in _draws(draft, [whole]) if call not in drawn and call not in inside}
    if _shuffles(draft, loop):
        others.add("torch")
    return next((call for call, home in drawn.items() if home in others), None)


def differing(draft: Draft, choice: ast.If | ast.While, call: ast.Call) -> Finding:
    """What is told of it."""
    return draft.finding(
        "COLL-RANKFLOW",
        Severity.WARNING,
        choice,
        f"`{draft.facts.segment(choice.test)}` differs from process to process, and where it says so, "
        f"`{draft.facts.segment(call)}` is drawn: what is drawn from that generator later, such as the order of the "
        "samples, is something else on each process",
        "draw this from a generator of its own (random.Random(seed), torch.Generator()), or whatever the test says",
    )


def _draws(draft: Draft, nodes: Sequence[ast.stmt | ast.expr]) -> Iterator[tuple[ast.Call, str]]:
    """The calls that draw, in functions that are called, too, with what they draw from."""
    parts: Iterable[ast.AST] = (p for n in nodes for p in (n, *draft.blueprint.timeline.calls_into(n)))
    for call in dict.fromkeys(n for part in parts for n in walk(part) if isinstance(n, ast.Call)):
        if home := stream(draft.facts.resolver, call):
            yield call, home


def _shuffles(draft: Draft, loop: ast.AST) -> bool:
    """Whether the order of the samples is drawn for each pass from the generator of torch."""
    loaders = draft.blueprint.loops[loop].loaders if loop in draft.blueprint.loops else ()
    given = (draft.facts.objects.loader(value).arguments for value in loaders)
    return any("shuffle" in a and not is_constant(a["shuffle"], False) and "generator" not in a for a in given)
