"""Networks that are not prepared, and whose BatchNorm averages the batches that each process runs them on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import position
from accelift_codemod.facts.norms import keeps_averages
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Value
from accelift_codemod.networks import modes, ready_networks

_PARTS = 60  # of a network that are looked into


def averaging(draft: Draft) -> Iterator[tuple[ast.Call, Value]]:
    """Where training runs such a network in the mode of training, once each."""
    if draft.facts.processes.managed:
        return
    told: set[ast.AST] = set()
    calls = (n for n in draft.blueprint.in_training if isinstance(n, ast.Call))
    for call in sorted(calls, key=position):
        for value in draft.facts.objects.models(call.func):
            if value.origin in told or draft.blueprint.is_prepared(value) or draft.facts.objects.is_trained(value):
                continue
            if (
                averages(draft, value)
                and not modes.is_handed_on(draft, value)
                and _in_training_mode(draft, value, call)
            ):
                told.add(value.origin)
                yield call, value


def averages(draft: Draft, value: Value) -> bool:
    """Whether a network has a layer of BatchNorm that keeps averages."""
    queue: list[ast.AST] = [*_made_by(draft, value)]
    seen = set(queue)
    while queue and len(seen) < _PARTS:
        for call in (n for n in walk(queue.pop()) if isinstance(n, ast.Call)):
            if keeps_averages(draft.facts.resolver, call) or ready_networks.is_normed(draft, call):
                return True
            more = [n for part in draft.facts.objects.models(call) for n in _made_by(draft, part) if n not in seen]
            queue += more
            seen.update(more)
    return False


def _made_by(draft: Draft, value: Value) -> Iterator[ast.AST]:
    """Where a network is made, and what its class makes."""
    yield value.origin
    yield from draft.facts.resolver.ancestry(value.declaration)


def _in_training_mode(draft: Draft, value: Value, call: ast.Call) -> bool:
    """Whether a network surely is in the mode of training where it is called, and its averages are of use: the last one
    who changed its mode in the function there has put it into that, or nobody ever has and its weights are saved."""
    if any(draft.facts.resolver.method(value.declaration, name) is not None for name in ("train", "eval")):
        return False  # which may leave out the layers of BatchNorm
    switches = [c for name in ("train", "eval") for c in draft.facts.index.methods.get(name, [])]
    own = [c for c in switches if _is_on(draft, c, value)]
    untold = [c for c in switches if c not in own and modes.is_on_some(draft, c)]
    if any(map(modes.evaluates, untold)):
        return False
    if not any(map(modes.evaluates, own)):
        return any(_is_on(draft, c, value) for c in draft.facts.index.methods.get("state_dict", []))
    here = [c for c in own if draft.function(c) is draft.function(call) and position(c) < position(call)]
    return bool(here) and not modes.evaluates(max(here, key=position))


def _is_on(draft: Draft, switch: ast.Call, value: Value) -> bool:
    of = switch.func.value if isinstance(switch.func, ast.Attribute) else None
    return (
        value.origin in walk(of) if of is not None and not isinstance(of, ast.Name) else modes.denotes(draft, of, value)
    )
