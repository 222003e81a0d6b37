"""Views of the samples: two pictures of each, `((one, other), label)`, and losses that ask which view is of which."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from accelift_codemod.facts.index import Index
from accelift_codemod.facts.layout.algebra import Layout, Shape
from accelift_codemod.facts.resolve import Resolver

_JOINS = frozenset(f"torch.{name}" for name in "cat concat concatenate stack".split())
_TUPLES = (ast.Tuple, ast.List)


def several(resolver: Resolver, target: ast.expr) -> bool:
    """Whether a part of a batch that is bound to a target is no tensor, but several.

    So it is where the target takes it apart, or its variable is never used but by number (of which there are some), by
    being taken apart, or by being joined. A tensor of the batch would have only its first samples used.
    """
    if isinstance(target, _TUPLES):
        return len(target.elts) > 1
    owner = resolver.index.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
    if owner is None or not isinstance(target, ast.Name):
        return False
    numbers: set[object] = set()
    for load in (n for n in resolver.readers(target) if resolver.index.scope(n) is owner):
        parent = resolver.index.parents.get(load)
        if isinstance(parent, ast.Subscript) and parent.value is load and isinstance(parent.slice, ast.Constant):
            numbers.add(parent.slice.value)
        elif isinstance(parent, ast.Assign) and all(isinstance(t, _TUPLES) for t in parent.targets):
            numbers |= {0, 1}
        elif isinstance(parent, ast.Call) and resolver.qualified(parent.func) in _JOINS and load in parent.args[:1]:
            numbers |= {0, 1}  # which no tensor can be by itself
        elif not (isinstance(parent, ast.Call) and resolver.builtin(parent.func) == "len"):
            return False
    return {0, 1} <= numbers


def told(index: Index, arguments: Sequence[Shape]) -> list[Shape]:
    """The arguments of a loss. The places of samples are none in a script that gathers: it may be of all processes."""
    if Layout.PLACES not in arguments or not any(_gathers(call) for call in index.calls):
        return list(arguments)
    return [Layout.UNKNOWN if part is Layout.PLACES else part for part in arguments]


def _gathers(call: ast.Call) -> bool:
    func = call.func
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    return "all_gather" in name or (name == "gather" and len(call.args) == 1)
