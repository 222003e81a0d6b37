"""What every iteration of a loop binds anew before it is read, so that it is not what an earlier one has left."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, position
from accelift_codemod.facts.certainty import Certainty


def bound_anew(draft: Draft, node: ast.AST, load: ast.Name) -> bool:
    """Whether every iteration has surely bound a variable before it is read: in both arms of an `if`, say.

    Or in those that settings choose: had the first iteration not bound it, it would have failed.
    """
    index, certainty = draft.facts.index, Certainty(draft.facts.resolver)
    read = index.statement(load)
    owner = index.scope(load).owner(load.id)
    bindings = owner.bindings[load.id] if owner is not None else []
    bound = {index.statement(b.node) for b in bindings if b.how is How.ASSIGN}
    inside = {s for s in bound if node in index.ancestors(s)} - {read}
    if inside and certainty.passed(inside, read):
        return True
    if owner is None or not all(node in index.ancestors(b.node) for b in bindings):
        return False
    early = [index.statement(b.node) for b in bindings if position(b.node) < position(load)]
    early = [statement for statement in early if statement is not read]  # which has not been run yet
    return bool(early) and all(certainty.alike(node, one) for one in (*early, read))
