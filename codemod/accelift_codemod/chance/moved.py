"""What moves a generator on by as many numbers as a process's share of a batch has: others stand elsewhere then."""

from __future__ import annotations

import ast

from accelift_codemod.chance.decided import is_for_each_row
from accelift_codemod.chance.noise import fills
from accelift_codemod.chance.streams import drawing_sample
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.chance import SEEDS, stream
from accelift_codemod.facts.layout import Layout

_OF_SHARE = (Layout.ROWS, Layout.COUNT, Layout.SHAPE, Layout.BATCH)


def moving(draft: Draft, loop: BatchLoop, coin: ast.Call) -> ast.Call | None:
    """A call by which the samples of a loop, or the loop for its share of them, draw from the generator that another
    call draws from."""
    home = stream(draft.facts.resolver, coin)
    return drawing_sample(draft, loop, home) or _drawing_share(draft, loop, coin, home)


def _drawing_share(draft: Draft, loop: BatchLoop, coin: ast.Call, home: str) -> ast.Call | None:
    """A call in a loop, or in functions that it calls, that draws for each sample of a share; not if all shares are of
    one size."""
    if all(fills(draft, one) for one in map(draft.facts.objects.loader, loop.loaders)):
        return None
    for statement in loop.body:
        called = (s for f in draft.blueprint.timeline.calls_into(statement) for s in f.body)
        for call in (c for s in (statement, *called) for c in draft.facts.loops.own_calls(s)):
            same = call is not coin and stream(draft.facts.resolver, call) == home
            alike = home not in SEEDS or is_on_device(call) == is_on_device(coin)
            if same and alike and is_for_share(draft, loop, call):
                return call
    return None


def is_on_device(call: ast.Call) -> bool:
    """Whether a call draws where a tensor is, or on a device that it is told: a GPU has a generator of its own."""
    like = isinstance(call.func, ast.Attribute) and call.func.attr.endswith(("_like", "_"))
    return like or any(k.arg == "device" for k in call.keywords)


def is_for_share(draft: Draft, loop: BatchLoop, call: ast.Call) -> bool:
    """Whether a call runs for each sample, or draws as many numbers as there are."""
    if is_for_each_row(draft, call):
        return True
    env = draft.environment(loop, draft.facts.index.statement(call))
    told = [*call.args, *(k.value for k in call.keywords)]
    told += [e for a in told if isinstance(a, (ast.Tuple, ast.List)) for e in a.elts]
    read = draft.facts.layouts.read
    return env is not None and any(read(a.value if isinstance(a, ast.Starred) else a, env) in _OF_SHARE for a in told)
