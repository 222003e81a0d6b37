"""Functions that make the rows of a batch for training, and are called elsewhere, too, where a whole batch is meant."""

from __future__ import annotations

import ast
from collections.abc import Collection

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.effects import stores


def called(draft: Draft, loop: BatchLoop, size: ast.expr, nodes: Collection[ast.AST]) -> ast.Call | None:
    """A call outside of a training loop of the function that is told a number of rows by `size`, which means as many
    there as a whole batch has: it stands in no loop over shares, and what it returns is not used with them.

    A call with arguments may say a number itself.
    """
    function = draft.facts.index.function(size)
    if function is None or function is draft.facts.index.function(loop.node):
        return None
    sites = draft.facts.resolver.sites(function)
    outside = (s for s in sites if s not in nodes and draft.facts.runs(s) and not (s.args or s.keywords))
    return next((s for s in outside if not _of_shares(draft, s) and not _read(draft, s, nodes)), None)


def _of_shares(draft: Draft, call: ast.Call) -> bool:
    """Whether a call stands in a loop over a prepared loader."""
    loops = (draft.blueprint.loops.get(parent) for parent in draft.facts.index.ancestors(call))
    return any(loop is not None and any(map(draft.blueprint.is_prepared, loop.loaders)) for loop in loops)


def _read(draft: Draft, call: ast.Call, nodes: Collection[ast.AST]) -> bool:
    """Whether a variable that has what a call returns is read in a training loop."""
    statement = draft.facts.index.statement(call)
    names = stores(statement) if isinstance(statement, (ast.Assign, ast.AnnAssign)) else set()
    reads = (n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in names)
    bindings = draft.facts.resolver.bindings
    return any(draft.facts.index.statement(b.node) is statement for read in reads for b in bindings(read))
