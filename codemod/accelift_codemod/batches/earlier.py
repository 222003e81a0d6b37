"""Losses that take a mean over rows which an earlier iteration has left, apart from those of the batch at hand."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, position
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.layout.algebra import Environment
from accelift_codemod.facts.tree import walk
from accelift_codemod.following.onward import reached

_ROWS = (Layout.ROWS, Layout.BATCH)
_MEANS = (Layout.MEAN, Layout.WEIGHTED)


def mean_of_earlier(draft: Draft, loop: BatchLoop) -> ast.Call | None:
    """A mean that a loop's loss is computed from, over rows that an iteration before has left, and no others."""
    begun = draft.environment(loop, loop.body[0])
    if begun is None:
        return None
    ended = dict(begun)
    draft.facts.layouts.prefixes.run(loop.body, len(loop.body), ended)
    names = {n for n, value in ended.items() if value in _ROWS and n not in begun and _is_left(draft, loop, n)}
    calls = [n for s in loop.body for n in walk(s) if isinstance(n, ast.Call)] if names else []
    # What depends on a batch cannot be told where that is mixed up.
    means = _read(
        draft, loop, calls, {**dict.fromkeys(begun, Layout.MIXED), **dict.fromkeys(names, Layout.ROWS)}, _MEANS
    )
    found = _read(draft, loop, means, begun | dict.fromkeys(names, Layout.MIXED), (Layout.MIXED,))
    return next((call for call in found if _is_in_loss(draft, call)), None)


def _is_left(draft: Draft, loop: BatchLoop, name: str) -> bool:
    """Whether a variable may be read before an iteration binds it."""
    owner = draft.facts.index.scope(loop.node).owner(name)
    inside = set(walk(loop.node))
    for load in owner.loads.get(name, []) if owner is not None else ():
        if owner is not None and load in inside:
            reaching = draft.facts.resolver.reaching(load, owner)
            if any(b.node in inside and position(b.node) > position(load) for b in reaching):
                return True
    return False


def _read(
    draft: Draft, loop: BatchLoop, calls: Sequence[ast.Call], begun: Environment, kinds: Sequence[Layout]
) -> list[ast.Call]:
    """Those of some calls that are of some kinds in the body of a loop that begins in an environment."""
    layouts = draft.facts.layouts
    envs = ((call, layouts.before(call, loop.body, dict(begun))) for call in calls)
    return [call for call, env in envs if env is not None and layouts.read(call, env) in kinds]


def _is_in_loss(draft: Draft, call: ast.Call) -> bool:
    ancestors = draft.facts.index.ancestors
    return any(draft.facts.loops.is_backward(p) for read in reached(draft, [call]) for p in ancestors(read))
