"""In which mode networks are where they compute: that of training, or that of evaluation."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Role, Value

_NESTED = 6  # networks inside each other


def evaluates(switch: ast.Call) -> bool:
    """Whether a call puts a network into the mode of evaluation, or may do so."""
    given = [*switch.args, *(k.value for k in switch.keywords)]
    trains = not given or is_constant(given[0], True)
    return switch.func.attr == "eval" or not trains  # type: ignore[attr-defined]


def denotes(draft: Draft, node: ast.expr | None, value: Value) -> bool:
    return any(v.origin is value.origin for v in draft.facts.resolver.values(node))


def is_on_some(draft: Draft, switch: ast.Call) -> bool:
    """Whether it is not known of what a call changes the mode: `for part in parts: part.eval()`."""
    of = switch.func.value if isinstance(switch.func, ast.Attribute) else None
    calls_base = isinstance(of, ast.Call) and draft.facts.resolver.builtin(of.func) == "super"
    return not calls_base and not draft.facts.objects.models(of)


def is_handed_on(draft: Draft, value: Value) -> bool:
    """Whether another network has it as a part, which may be prepared, or a call of which nothing is known gets it."""
    for read in draft.facts.reads():
        call = draft.facts.index.parents.get(read)
        call = draft.facts.index.parents.get(call) if isinstance(call, (ast.keyword, ast.Starred)) else call
        if isinstance(call, ast.Call) and call.func is not read and _may_keep(draft, call):
            if denotes(draft, read, value):
                return True
    return False


def _may_keep(draft: Draft, call: ast.Call) -> bool:
    """Whether a call makes a network of what it is given, or nothing is known of it."""
    resolver = draft.facts.resolver
    if draft.facts.objects.models(call):
        return True
    return resolver.callee(call) is None and not resolver.builtin(call.func) and not resolver.qualified(call.func)


def only_evaluates(draft: Draft, call: ast.Call) -> bool:
    """Whether a network is put into evaluation mode, and is none of those that are trained."""
    values = [v for v in draft.facts.resolver.values(call) if v.origin is call]
    if any(map(draft.blueprint.is_prepared, values)):
        return False
    evals = draft.facts.index.methods.get("eval", [])
    owners = [c.func.value for c in evals if isinstance(c.func, ast.Attribute)]
    return any(call in walk(o) or any(v in values for v in draft.facts.resolver.values(o)) for o in owners)


@kept
def is_never_trained(draft: Draft, layer: ast.Call) -> bool:
    """Whether a layer is a part of networks alone that are made in the script and only evaluate."""
    cls = draft.facts.index.enclosing_class(layer)
    if cls is not None:
        return _are_all_evaluated(draft, cls, _NESTED)
    return any(isinstance(a, ast.Call) and _stays_evaluating(draft, a) for a in draft.facts.index.ancestors(layer))


def _are_all_evaluated(draft: Draft, cls: ast.ClassDef, steps: int) -> bool:
    """Whether all networks of a class, and all that have one of them as a part, only evaluate."""
    index = draft.facts.index
    loads = (n for n in draft.facts.loads(index.scope(cls), cls.name) if cls not in index.ancestors(n))
    reads = [*filter(draft.facts.runs, loads)]
    for read in reads:
        made = index.parents[read]
        whole = made if isinstance(made, ast.ClassDef) else index.enclosing_class(read)
        if not isinstance(made, (ast.Call, ast.ClassDef)) or (isinstance(made, ast.Call) and made.func is not read):
            return False
        if whole is not None and draft.facts.resolver.class_role(whole) is Role.MODEL:
            if not (steps and _are_all_evaluated(draft, whole, steps - 1)):
                return False
        elif not (isinstance(made, ast.Call) and _stays_evaluating(draft, made)):
            return False
    return bool(reads)


def _stays_evaluating(draft: Draft, made: ast.Call) -> bool:
    """Whether a network is put into evaluation mode, and neither it nor one that it may be a part of is trained."""
    if not only_evaluates(draft, made):
        return False
    values = [v for v in draft.facts.resolver.values(made) if v.origin is made]
    trains = [c for c in draft.facts.index.methods.get("train", []) if not evaluates(c)]
    on = [c.func.value for c in trains if isinstance(c.func, ast.Attribute)]
    if any(is_on_some(draft, c) for c in trains) or any(denotes(draft, of, v) for of in on for v in values):
        return False
    return not any(draft.facts.objects.is_trained(v) or is_handed_on(draft, v) for v in values)
