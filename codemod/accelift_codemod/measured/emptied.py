"""Objects that are emptied after a loop, so that what is read of them later is not what it has put there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, position
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS, Binding
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import walk

_EMPTIES = ("reset", "clear")


def emptied(draft: Draft, node: ast.AST, load: ast.Name) -> bool:
    """Whether the object in a variable has surely been emptied between a loop and where it is read: `meter.reset()`, or
    at the start of a function that is handed it."""
    chain = draft.facts.index.chain(load)
    held = draft.facts.resolver.bindings(load)
    for place in _emptied(draft, load.id):
        if not node.end_lineno < place.lineno < load.lineno or draft.facts.resolver.bindings(place) != held:  # type: ignore[attr-defined]
            continue
        statement = draft.facts.index.statement(place)
        if isinstance(statement, (ast.Expr, ast.Assign)) and draft.facts.resolver.runs_before(statement, chain):
            return True
    return False


@kept
def _emptied(draft: Draft, name: str) -> list[ast.Name]:
    """The reads of variables of a name by which what these hold is emptied."""
    return [place for method in _EMPTIES for call in _calls(draft, method) for place in _places(draft, call, name)]


def _calls(draft: Draft, method: str) -> Iterator[ast.Name]:
    for call in draft.facts.index.methods.get(method, []):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(owner, ast.Name) and not call.args and not call.keywords:
            yield owner


def _places(draft: Draft, owner: ast.Name, name: str) -> Iterator[ast.Name]:
    """A read by which an object is emptied, and those that hand it to the function which does so at its start."""
    if owner.id == name:
        yield owner
    function, statement = draft.facts.index.function(owner), draft.facts.index.statement(owner)
    bindings = draft.facts.resolver.bindings(owner)
    if not isinstance(function, FUNCTIONS) or statement not in function.body or len(bindings) != 1:
        return
    if bindings[0].how is How.PARAMETER and not _read_before(function, owner):
        for given in draft.facts.resolver.sites(function):
            handed = draft.facts.resolver.bind(given, function)
            value = handed.get(_parameter(bindings[0])) if handed is not None else None
            if isinstance(value, ast.Name) and value.id == name:
                yield value


def _parameter(binding: Binding) -> str:
    return binding.node.arg if isinstance(binding.node, ast.arg) else ""


def _read_before(function: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.Name) -> bool:
    """Whether a function reads a variable, or may have returned, before it empties what it holds."""
    early = [s for s in function.body if position(s) < position(owner) and owner not in walk(s)]
    reads = any(n.id == owner.id for s in early for n in loads(s))
    return reads or any(isinstance(n, ast.Return) for s in early for n in walk(s))
