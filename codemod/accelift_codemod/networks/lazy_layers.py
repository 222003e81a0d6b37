"""Layers that get their weights with the first batch: `nn.LazyLinear(10)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Value, key

_LAZY = "torch.nn.Lazy"
_DEPTH = 4  # of networks that are made in networks


def lazy_layer(draft: Draft, model: Value) -> ast.Call | None:
    """The call that makes a layer of a network which has no weights yet when it is prepared."""
    made = next(_lazy(draft, model.declaration, model.origin, _DEPTH), None)
    if made is None or any(_may_run(draft, call, model) for call in draft.facts.index.calls):
        return None
    return made


def _lazy(draft: Draft, declaration: ast.AST | None, origin: ast.AST, depth: int) -> Iterator[ast.Call]:
    resolver = draft.facts.resolver
    classes = resolver.ancestry(declaration)
    roots: list[ast.AST] = [*classes] or [origin]
    for call in (n for root in roots for n in walk(root) if isinstance(n, ast.Call)):
        if (resolver.qualified(call.func) or "").startswith(_LAZY):
            yield call
        part = resolver.callee(call)
        if depth and isinstance(part, ast.ClassDef) and part not in classes:
            yield from _lazy(draft, part, call, depth - 1)


def _may_run(draft: Draft, call: ast.Call, model: Value) -> bool:
    """Whether a call runs a network before it is prepared, or hands it to something unknown that may."""
    facts = draft.facts
    runs = any(key(v) == key(model) for v in facts.objects.models(call.func))
    if not runs and facts.resolver.callee(call) is None and not facts.resolver.builtin(call.func):
        name = facts.resolver.qualified(call.func) or ""
        given = (*call.args, *(k.value for k in call.keywords)) if not name.startswith("torch.") else ()
        runs = any(key(v) == key(model) for a in given if isinstance(a, ast.Name) for v in facts.resolver.values(a))
    return runs and not draft.blueprint.may_follow_prepare(call, model)
