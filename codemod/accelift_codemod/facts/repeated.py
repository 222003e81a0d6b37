"""Whether a network may be trained by its own method more than once: each time, it would be wrapped again."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import Function, Index
from accelift_codemod.facts.insides import Unknown
from accelift_codemod.facts.uses import is_called, often

if TYPE_CHECKING:
    from accelift_codemod.facts.travels import Candidate


def trained_again(network: Candidate) -> Unknown | None:
    """Why it may; None if it is no network that trains itself, or is trained once."""
    method, parents = network.trains_itself, network.index.parents
    if method is None:
        return None
    for giving in network.returning_self:
        used = [c for c in _runs(network, giving, network.asked) if not isinstance(parents[c], ast.Expr)]
        if used:
            return network.no(used[0], f"what {giving.name}() returns is the object itself, and is kept")
    for made in network.calls:
        if (again := _again(network, made, method)) is not None:
            what = f"{method.name}(), by which the network {network.cls.name} trains itself, may run more than once"
            return network.no(again, f"{what} on one object, which DistributedDataParallel would wrap each time")
    return None


def _again(network: Candidate, made: ast.Call, method: Function) -> ast.AST | None:
    """The call by which the method may run again on the object that one call makes."""
    index, seen, asked = network.index, {method}, network.asked_of[made]
    calls = _runs(network, method, asked)
    while len(calls) == 1 and (outer := index.function(calls[0])) in network.bound and outer not in seen:
        if outer is None or index.enclosing_loops(calls[0]):
            break
        seen.add(outer)
        calls = _runs(network, outer, asked)
    home = index.function(made), index.enclosing_loops(made)
    for call in calls:
        with_it = home == (index.function(call), index.enclosing_loops(call))
        if len(calls) > 1 or not (with_it or _once(index, call)):
            return call
    return None


def _runs(network: Candidate, method: Function, asked: Iterable[ast.Attribute]) -> list[ast.AST]:
    """The calls of a method: those by the object itself, and by others who ask it for that."""
    parents = network.index.parents
    inside = (a for n in network.selves() if isinstance(a := parents[n], ast.Attribute))
    return [parents[a] for a in (*inside, *asked) if a.attr == method.name]


def _once(index: Index, call: ast.AST) -> bool:
    """Whether a call runs once: in no loop, in a function or a method that is called once."""
    function = index.function(call)
    if function is None or not isinstance(index.parents[function], ast.ClassDef):
        return not often(index, call)
    named = [d for d in index.functions if d.name == function.name]
    reads = [a for a in index.attributes.get(function.name, ()) if isinstance(a.ctx, ast.Load)]
    if len(named) != 1 or len(reads) != 1 or not is_called(index, reads[0]) or index.enclosing_loops(call):
        return False
    return not function.name.startswith("__") and _once(index, index.parents[reads[0]])
