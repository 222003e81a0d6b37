"""Batches that a script looks at once their loader is prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.facts.passing import drawn_from
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rows import batch_sizes
from accelift_codemod.rules import Rule


class LaterLooks(Rule):
    """Reports a batch that is drawn by itself, outside of loops over batches, from a loader that is prepared before.

    It is the share of the process that looks at it, and so is what is printed or kept of it.
    """

    code = "LATER"
    name = "batches that are looked at later"

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        draws = [call for call in draft.calls if self._draws(draft, call)]
        if not draws:
            return
        training = {node for loop in draft.blueprint.train_loops for node in batch_sizes.nodes(draft, loop)}
        measured = {loop.node for loop in draft.blueprint.eval_loops}
        for call in draws:
            if call in training or measured.intersection(draft.facts.index.ancestors(call)):
                continue
            if not self._asks_for_width(draft, call):
                yield draft.finding(
                    "METRIC-TRAIN",
                    Severity.NOTE,
                    call,
                    f"`{draft.facts.segment(call)}` draws from a prepared loader: what is seen is this process's share "
                    "of a batch",
                    "gather what is printed or kept of it by accelerator.gather_for_metrics, or look at a batch before "
                    "prepare",
                )

    def _draws(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call takes a batch from a loader that is prepared, and was before."""
        if drawn_from(call, draft.facts.resolver) is None:
            return False
        values = draft.facts.resolver.values(call)
        loaders = {loader for v in values if v.role is Role.BATCH for inner in v.inner for loader in inner}
        return any(draft.blueprint.is_prepared(v) for v in loaders) and not draft.blueprint.seen_before(call)

    def _asks_for_width(self, draft: Draft, call: ast.Call) -> bool:
        """Whether nothing but the size of another dimension than the first is taken: `next(batches)[0].size(1)`."""
        part: ast.AST = call
        for parent in draft.facts.index.ancestors(call):
            if isinstance(parent, ast.Call) and isinstance(part, ast.Attribute) and part.attr == "size":
                return len(parent.args) == 1 and ast.unparse(parent.args[0]) != "0"
            if isinstance(parent, ast.Subscript) and isinstance(part, ast.Attribute) and part.attr == "shape":
                return ast.unparse(parent.slice) != "0"
            if not isinstance(parent, (ast.Subscript, ast.Attribute)):
                return False
            part = parent
        return False
