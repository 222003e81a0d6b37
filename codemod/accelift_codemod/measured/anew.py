"""What every iteration of a loop binds anew before it is read, so that it is not what an earlier one has left."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Scope, position
from accelift_codemod.facts.certainty import Certainty
from accelift_codemod.facts.memo import kept
from accelift_codemod.measured.first_steps import bound_by_first_step


def bound_anew(draft: Draft, node: ast.AST, load: ast.Name) -> bool:
    """Whether every iteration has surely bound a variable before it is read: by the loop itself, or in both arms of an
    `if`, say.

    Or in those that settings choose: had the first iteration not bound it, it would have failed.
    """
    index, certainty = draft.facts.index, Certainty(draft.facts.resolver)
    read = index.statement(load)
    owner = index.scope(load).owner(load.id)
    if owner is None:
        return False
    dealt = (b.node for b in owner.bindings[load.id] if b.how is How.LOOP)
    if read is not node and any(index.statement(target) is node for target in dealt):
        return True
    assigned, alone = _assigned(draft, (node, owner, load.id))
    inside = assigned - {read}
    if inside and certainty.passed(inside, read):
        return True
    if bound_by_first_step(draft, node, load, inside):
        return True
    if not alone:
        return False
    bindings = owner.bindings[load.id]
    early = [index.statement(b.node) for b in bindings if position(b.node) < position(load)]
    early = [statement for statement in early if statement is not read]  # which has not been run yet
    return bool(early) and all(certainty.alike(node, one) for one in (*early, read))


@kept
def _assigned(draft: Draft, variable: tuple[ast.AST, Scope, str]) -> tuple[frozenset[ast.stmt], bool]:
    """The assignments of a variable in a loop, and whether nothing else binds it."""
    node, owner, name = variable
    index = draft.facts.index
    inside = {b: node in index.ancestors(b.node) for b in owner.bindings[name]}
    assigned = (index.statement(b.node) for b, within in inside.items() if within and b.how is How.ASSIGN)
    return frozenset(s for s in assigned if s is not node), all(inside.values())
