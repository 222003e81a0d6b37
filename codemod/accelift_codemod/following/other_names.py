"""Other names of what a variable holds: `losses = history["loss"]`, and what keeps it: `stopper = Stopper(losses)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How
from accelift_codemod.facts.keeping import PUTS
from accelift_codemod.facts.tree import walk
from accelift_codemod.following.onward import Read, function_of, is_within, object_reads

_HELD = (ast.Name, ast.Attribute, ast.Subscript)
_HOLDS = (ast.Assign, ast.List, ast.Tuple, ast.Dict)


def reads_by_others(draft: Draft, node: ast.AST, name: str) -> Iterator[Read]:
    """Where the object in a variable that a loop fills gets another name before or after it, or is read by the one that
    it had: `losses = history["loss"]`, perhaps in every iteration."""
    owner = draft.facts.index.scope(node).owner(name)
    bindings = owner.bindings.get(name, []) if owner is not None else []
    bound = any(is_within(draft, b.node, node) for b in bindings)
    loads = draft.facts.loads(owner, name) if owner is not None else []
    if bound and not any(_puts(draft, load) and is_within(draft, load, node) for load in loads):
        return
    for load in () if bound else loads:
        if _hands_on(draft, load) and not is_within(draft, load, node):
            yield load
    for binding in bindings:
        held = binding.value
        if binding.how is How.ASSIGN and not binding.path and isinstance(held, _HELD):
            own = {*walk(held)}
            reads = (read for read in object_reads(draft, held) if read not in own)
            yield from (read for read in reads if not is_within(draft, read, node))


def _puts(draft: Draft, load: ast.Name) -> bool:
    """Whether something is put into the object that a variable holds: `losses.append(...)`, `losses[k] = ...`."""
    part = draft.facts.index.parents[load]
    if isinstance(part, ast.Subscript):
        return part.value is load and isinstance(part.ctx, ast.Store)
    return isinstance(part, ast.Attribute) and part.attr in PUTS


def _hands_on(draft: Draft, load: ast.Name) -> bool:
    """Whether a read gives an object as it is to a variable, a container, or something of the script."""
    parent = draft.facts.index.parents[load]
    if isinstance(parent, ast.keyword):
        parent = draft.facts.index.parents[parent]
    if isinstance(parent, ast.Call):
        function = function_of(draft, parent)
        return function is not None and parent.func is not load and getattr(function, "name", "") == "__init__"
    return isinstance(parent, _HOLDS) and not isinstance(load.ctx, ast.Store)
