"""Samples that are drawn to be looked at: pictures of them are shown, and nothing is trained or measured on them."""

from __future__ import annotations

import ast

from accelift_codemod.chance import picked
from accelift_codemod.draft import Draft
from accelift_codemod.facts.tree import walk
from accelift_codemod.following.onward import reached
from accelift_codemod.measured.steering import steers


def is_looked_at(draft: Draft, made: picked.Place) -> bool:
    """Whether what a library makes of drawn samples leads to no training, and to no evaluation that is shared out: each
    process may have other ones then."""
    if not isinstance(made, ast.Call) or picked.is_own(draft, made) or steers(draft, [made], saves=False):
        return False
    blueprint = draft.blueprint
    found = {*reached(draft, [made])}
    dealing = (*blueprint.train_loops, *blueprint.attacking_loops, *blueprint.cuts, *blueprint.local_loops)
    return all(found.isdisjoint(walk(loop.node)) for loop in dealing)
