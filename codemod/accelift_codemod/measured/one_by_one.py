"""Loops over single samples in a loop over batches: they go over those of all processes, if their rows are gathered.

for p, t in zip(pred.tolist(), y.tolist()):
    confusion[t][p] += 1
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured.filling import FILLING, filled, given_to, places

_KEEPS = (*FILLING, ast.If, ast.For, ast.Pass, ast.Continue)


def over_samples(draft: Draft, loop: BatchLoop, statement: ast.stmt, local: set[str]) -> ast.For | None:
    """The outermost loop over something of a share around a statement of a loop over batches, if it only measures, and
    reads nothing of a share but what it goes over."""
    outer: ast.For | None = None
    for parent in draft.facts.index.ancestors(statement):
        if parent is loop.node:
            break
        if isinstance(parent, ast.For) and local & {n.id for n in loads(parent.iter)}:
            outer = parent
    if outer is None or outer.orelse:
        return None
    inside = [s for part in outer.body for s in walk(part) if isinstance(s, ast.stmt)]
    own = stores(outer)
    alone = all(isinstance(s, _KEEPS) and not {n.id for n in _read(draft, s, local)} & (local - own) for s in inside)
    runs = any(isinstance(n, ast.Call) and draft.facts.objects.models(n.func) for n in walk(outer))
    return outer if alone and not runs else None


def _read(draft: Draft, statement: ast.stmt, local: set[str]) -> Iterator[ast.Name]:
    """What a statement reads, but for the objects that it fills: for other calls, these, too."""
    if isinstance(statement, ast.Expr) and not filled(draft, statement, local, chosen=True):
        yield from loads(statement)
        return
    tests = [statement.test] if isinstance(statement, ast.If) else []
    through = [statement.iter] if isinstance(statement, ast.For) else []
    for part in (*tests, *through, *given_to(statement), *places(statement)):
        yield from loads(part)
