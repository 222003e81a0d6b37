"""What is made, or set up, for batches of one size: models, and whatever else training calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Function, Role, Value, position
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.keeping import keeps
from accelift_codemod.facts.signatures import default
from accelift_codemod.facts.tree import walk
from accelift_codemod.rows import batch_sizes, row_numbers, set_anew
from accelift_codemod.rows.copies import is_place, name_of

MODEL, ASKED = "a model", "what the training calls"


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
                found.setdefault(name_of(argument), []).append((argument, MODEL))
    for value, run in _asked(draft):
        made, cls = value.origin, value.declaration
        constructor = draft.facts.resolver.constructor(cls) if isinstance(cls, ast.ClassDef) else None
        bound: dict[str, ast.expr] = {}
        if isinstance(made, ast.Call) and constructor is not None:
            bound = {**by_default(draft, made, constructor), **(draft.facts.resolver.bind(made, constructor) or {})}
        for name, argument in bound.items():
            if cls is not None and row_numbers.used(draft, cls, name, run=run):
                found.setdefault(name_of(argument), []).append((argument, ASKED))
    return found


_Asked = list[tuple[Value, "tuple[Function, ...] | None"]]


def _asked(draft: Draft) -> _Asked:
    """What training calls, but for what is prepared, and the objects of the script that it asks by a method, with what
    that runs; not those that it tells a number of rows first."""
    resolver, timeline = draft.facts.resolver, draft.blueprint.timeline
    body = [statement for loop in draft.blueprint.train_loops for statement in loop.body]
    called = {v for s in body for n in walk(s) if isinstance(n, ast.Call) for v in resolver.values(n.func)}
    asked: dict[Value, dict[Function, None]] = {}
    told: set[Value] = set()
    run = dict.fromkeys(f for statement in body for f in timeline.calls_into(statement))
    for node in (n for part in (*body, *run) for n in walk(part)):
        func = node.func if isinstance(node, ast.Call) else node
        for value in resolver.values(func.value) if isinstance(func, ast.Attribute) else ():
            if value.role is not Role.OBJECT or not isinstance(value.declaration, ast.ClassDef):
                continue
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                told.add(value)
            elif isinstance(node, ast.Call) and value.declaration not in resolver.followed:
                asked.setdefault(value, {}).update(dict.fromkeys(timeline.calls_into(node)))
                told |= {value} if _tells(draft, node, value.declaration, None) else set()
    found: _Asked = [(v, None) for v in called]
    found += [(v, tuple(functions)) for v, functions in asked.items() if v not in called | told]
    return sorted((o for o in found if not draft.blueprint.is_prepared(o[0])), key=lambda o: position(o[0].origin))


def _tells(draft: Draft, call: ast.Call, cls: ast.AST, run: tuple[Function, ...] | None) -> list[ast.expr]:
    """The arguments of a method of a class that stay in the object, which makes rows of them in what is `run`."""
    method, resolver = draft.facts.resolver.callee(call), draft.facts.resolver
    bound = resolver.bind(call, method) if isinstance(method, FUNCTIONS) else None
    used = ((name, one) for name, one in (bound or {}).items() if row_numbers.used(draft, cls, name, run=run))
    return [one for name, one in used if isinstance(method, FUNCTIONS) and keeps(resolver, method, name)]


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


def told(draft: Draft) -> Iterator[tuple[ast.expr, str]]:
    """What prepared models, and objects that training asks for rows, are told by methods that keep it, if it is the
    batch size of a loader that is shared; and what they are."""
    shared = [loop for loop in draft.blueprint.loops.values() if draft.blueprint.shares_batches(loop)]
    sizes = {loop: [s for s in batch_sizes.of_loaders(draft, loop) if is_place(s)] for loop in shared}
    asked = {value: run for value, run in _asked(draft) if run is not None}
    for call in draft.calls:
        for given, what in (
            *((g, MODEL) for g in _kept(draft, call)),
            *((g, ASKED) for g in _kept_rows(draft, call, asked)),
        ):
            if is_place(given) and any(batch_sizes.is_size(draft, given, loop, found) for loop, found in sizes.items()):
                yield given, what


def _kept_rows(draft: Draft, call: ast.Call, asked: dict[Value, tuple[Function, ...]]) -> Iterator[ast.expr]:
    """The arguments of a method that stay in an object which makes rows of them where training asks it."""
    values = draft.facts.resolver.values(call.func.value) if isinstance(call.func, ast.Attribute) else ()
    for value in (v for v in values if v in asked):
        yield from _tells(draft, call, value.declaration, asked[value])  # type: ignore[arg-type]


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
