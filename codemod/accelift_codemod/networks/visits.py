"""What the methods of networks and losses of the script do with the batches that a loop runs them on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.index import Function
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import container, walk
from accelift_codemod.facts.values import Value
from accelift_codemod.networks.methods import called, classes

_METHODS = 40  # that are looked into
Depends = Callable[[ast.AST, set[str]], bool]


@dataclass(frozen=True)
class Visit:
    """A method that runs on a batch: its class, what is in it, and the variables that depend on the batch there."""

    cls: ast.ClassDef
    nodes: list[ast.AST]
    tainted: set[str]


def runs(draft: Draft, loop: BatchLoop) -> Iterator[tuple[ast.Call, ast.ClassDef, Function]]:
    """The calls of networks and losses of the script in a loop, and of what it calls."""
    functions = dict.fromkeys(f for s in loop.body for f in draft.blueprint.timeline.calls_into(s))
    resolver = draft.facts.resolver
    for call in (n for part in (*loop.body, *functions) for n in walk(part) if isinstance(n, ast.Call)):
        found: list[tuple[Value, str]] = [(v, "forward") for v in draft.facts.objects.models(call.func)]
        if isinstance(call.func, ast.Attribute):
            found += [(v, call.func.attr) for v in draft.facts.objects.models(call.func.value)]
        for value, name in found:
            for cls in classes(draft.facts, value):
                method = resolver.method(cls, name)
                if method is not None and (cls is value.declaration or name == "forward"):
                    yield call, cls, method


def changing(draft: Draft, loop: BatchLoop, call: ast.Call, method: Function, fixed: Collection[Layout]) -> set[str]:
    """The parameters that depend on the batch, as far as can be told, other than those that are `fixed`."""
    given = draft.facts.resolver.bind(call, method)
    if given is None:
        return {p.arg for p in method.args.args[1:]}
    env = draft.environment(loop, call)
    return {n for n, a in given.items() if env is None or draft.facts.layouts.read(a, env) not in fixed}


def visits(
    draft: Draft, cls: ast.ClassDef, method: Function, given: set[str], depends: Depends, seen: set[ast.AST]
) -> Iterator[Visit]:
    """A method of a class that is run with parameters which depend on a batch, and those that it calls with them."""
    if method in seen or len(seen) > _METHODS or not given:
        return
    seen.add(method)
    tainted = set(given)
    nodes = [n for statement in method.body for n in walk(statement)]
    for _ in range(2):  # what stands before may depend on what stands after, in loops
        for node in nodes:
            if isinstance(node, (ast.Assign, ast.AugAssign)) and depends(node.value, tainted):
                tainted |= stores(node)
            elif isinstance(node, ast.For) and depends(node.iter, tainted):
                tainted |= stores(node.target)
            elif isinstance(node, ast.Call):
                tainted |= _filled(node, tainted, depends)
    yield Visit(cls, nodes, tainted)
    for node in nodes:
        if isinstance(node, ast.Call):
            for owner, function, handed in _inside(draft, cls, node, tainted, depends):
                yield from visits(draft, owner, function, handed, depends, seen)


def _filled(call: ast.Call, tainted: set[str], depends: Depends) -> set[str]:
    """The variable of a tensor that a method of its own fills: `counts.index_add_(0, index, ones)`."""
    func = call.func
    place = container(func.value) if isinstance(func, ast.Attribute) and func.attr.endswith("_") else None
    given = [*call.args, *(k.value for k in call.keywords)]
    return {place.id} if isinstance(place, ast.Name) and any(depends(a, tainted) for a in given) else set()


def _inside(
    draft: Draft, cls: ast.ClassDef, call: ast.Call, tainted: set[str], depends: Depends
) -> Iterator[tuple[ast.ClassDef, Function, set[str]]]:
    """The methods that a method calls: of the object itself, or of a network that is a part of it."""
    for owner, function in called(draft.facts, cls, call):
        given = draft.facts.resolver.bind(call, function) or {}
        yield owner, function, {name for name, argument in given.items() if depends(argument, tainted)}
