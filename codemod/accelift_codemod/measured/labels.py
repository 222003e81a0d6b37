"""Which parts of batches are labels: what losses compare with."""

from __future__ import annotations

import ast
import re

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, Value, torch_ops
from accelift_codemod.facts.tree import walk

_PLACE = re.compile(r"\[[^\]]*\]")  # of a part in a batch


def compared(draft: Draft) -> set[tuple[ast.AST, str]]:
    """The parts of batches that losses are handed as they are: labels."""
    resolver = draft.facts.resolver
    found: set[tuple[ast.AST, str]] = set()
    for call in draft.calls:
        home, _, name = (resolver.qualified(call.func) or "").rpartition(".")
        functional = home == "torch.nn.functional" and name in torch_ops.FUNCTIONAL_LOSSES
        if functional or Role.LOSS in resolver.roles(call.func):
            values = (v for a in (*call.args, *(k.value for k in call.keywords)) for v in resolver.values(a))
            found.update(part for v in values if v.role is Role.BATCH for part in parts(draft, v))
    return found


def parts(draft: Draft, value: Value) -> set[tuple[ast.AST, str]]:
    """The parts of batches that a value is, or is computed from: the batch, and the place in it."""
    values = [value]
    if value.role is Role.DATA:
        values = [v for n in walk(value.origin) if isinstance(n, ast.Name) for v in draft.facts.resolver.values(n)]
    places = ((v.origin, _PLACE.match(v.name)) for v in values if v.role is Role.BATCH)
    return {(origin, place[0]) for origin, place in places if place}


def is_label(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is certainly a label."""
    values = draft.facts.resolver.values(node)
    return bool(values) and all(v.role is Role.BATCH and parts(draft, v) & compared(draft) for v in values)
