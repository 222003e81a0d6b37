"""What is made, or set up, for batches of one size: models, and whatever else training calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Function, Role, position
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.keeping import keeps
from accelift_codemod.facts.signatures import default
from accelift_codemod.facts.tree import walk
from accelift_codemod.rows import batch_sizes, row_numbers, set_anew
from accelift_codemod.rows.copies import is_place, name_of


def made_with(draft: Draft) -> dict[str, list[tuple[ast.expr, str]]]:
    """What prepared models of the script, and what else training calls, are made with, by names of variables."""
    found: dict[str, list[tuple[ast.expr, str]]] = {}
    for item in draft.blueprint.items.values():
        made, cls = item.value.origin, item.value.declaration
        if item.kind is Role.MODEL and isinstance(made, ast.Call) and cls is not None:
            constructor = draft.facts.resolver.constructor(cls) if isinstance(cls, ast.ClassDef) else None
            unsaid = by_default(draft, made, constructor)
            used = (value for name, value in unsaid.items() if row_numbers.used(draft, cls, name))
            given = draft.facts.resolver.bind(made, constructor) if constructor is not None else None
            anew = [
                argument
                for name, argument in (given or {}).items()
                if isinstance(cls, ast.ClassDef) and set_anew.all_of(draft, item.value, cls, name)
            ]
            for argument in (*made.args, *(k.value for k in made.keywords), *used):
                if argument in anew:
                    continue
                found.setdefault(name_of(argument), []).append((argument, "a model"))
    bodies = (n for loop in draft.blueprint.train_loops for s in loop.body for n in walk(s))
    called = {v for n in bodies if isinstance(n, ast.Call) for v in draft.facts.resolver.values(n.func)}
    for value in sorted((v for v in called if not draft.blueprint.is_prepared(v)), key=lambda v: position(v.origin)):
        made, cls = value.origin, value.declaration
        constructor = draft.facts.resolver.constructor(cls) if isinstance(cls, ast.ClassDef) else None
        bound: dict[str, ast.expr] = {}
        if isinstance(made, ast.Call) and constructor is not None:
            bound = {**by_default(draft, made, constructor), **(draft.facts.resolver.bind(made, constructor) or {})}
        for name, argument in bound.items():
            if cls is not None and row_numbers.used(draft, cls, name):
                found.setdefault(name_of(argument), []).append((argument, "what the training calls"))
    return found


def by_default(draft: Draft, call: ast.Call, function: Function | None) -> dict[str, ast.expr]:
    """The default values of the parameters that a call perhaps leaves out."""
    if function is None:
        return {}
    arguments = function.args
    given = draft.facts.resolver.bind(call, function) or {}
    parameters = (p for p in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if p.arg not in given)
    return {p.arg: value for p in parameters if (value := default(function, p)) is not None}


def shaped(draft: Draft, loop: BatchLoop, sizes: list[ast.expr]) -> Iterator[ast.expr]:
    """Where models and losses that a training loop calls take the batch size for a number of rows, without being
    handed it: `x.view(batch_size, -1)` in `forward`."""
    resolver = draft.facts.resolver
    queue: list[ast.AST] = list(loop.body)
    seen = set[ast.AST]()
    while queue:
        for call in (n for n in walk(queue.pop()) if isinstance(n, ast.Call)):
            for made in (v.declaration for f in (call, call.func) for v in resolver.values(f)):
                if isinstance(made, (ast.ClassDef, *FUNCTIONS)) and made not in seen:
                    seen.add(made)
                    queue.append(made)
    for cls in sorted((c for c in seen if isinstance(c, ast.ClassDef)), key=position):
        methods = (s for s in cls.body if isinstance(s, FUNCTIONS) and s is not resolver.constructor(cls))
        for call in (n for method in methods for n in walk(method) if isinstance(n, ast.Call)):
            if row_numbers.takes(draft, call):
                found = row_numbers.given(draft, call)
                yield from (size for size in found if batch_sizes.is_size(draft, size, loop, sizes))


def told(draft: Draft) -> Iterator[ast.expr]:
    """What prepared models are told by methods that keep it, if it is the batch size of a loader that is shared."""
    shared = [loop for loop in draft.blueprint.loops.values() if draft.blueprint.shares_batches(loop)]
    sizes = {loop: [s for s in batch_sizes.of_loaders(draft, loop) if is_place(s)] for loop in shared}
    for call in draft.calls:
        for given in _kept(draft, call):
            if is_place(given) and any(batch_sizes.is_size(draft, given, loop, found) for loop, found in sizes.items()):
                yield given


def _kept(draft: Draft, call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a method of a prepared model that stay in the model."""
    resolver, func = draft.facts.resolver, call.func
    if not isinstance(func, ast.Attribute) or not draft.blueprint.prepared_part(func.value)[1]:
        return
    statement = draft.facts.index.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    put = any(isinstance(t, ast.Attribute) and draft.blueprint.prepared_part(t)[1] for t in targets)
    method = resolver.callee(call)
    if isinstance(method, FUNCTIONS):
        bound = resolver.bind(call, method) or {}
        yield from (given for name, given in bound.items() if put or keeps(resolver, method, name))
    elif put or (isinstance(statement, ast.Expr) and statement.value is call):
        yield from (*call.args, *(k.value for k in call.keywords))
