"""States of networks: what a network is given for a batch and returns for the next one, with a row for each sample."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Scope
from accelift_codemod.facts.tree import walk


def is_state(draft: Draft, loop: BatchLoop, owner: Scope, name: str) -> bool:
    """Whether a variable has one: in the loop, it is bound to what a network returns that is given it."""
    for binding in owner.bindings[name]:
        call = binding.value
        if not isinstance(call, ast.Call) or binding.node not in draft.inside(loop.node):
            continue
        given = (n.id for a in (*call.args, *call.keywords) for n in walk(a) if isinstance(n, ast.Name))
        if name in given and draft.facts.objects.models(call.func):
            return True
    return False
