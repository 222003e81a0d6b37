"""Batches that a script looks at once their loader is prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role
from accelift_codemod.facts.contents import inside
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.passing import drawn_from
from accelift_codemod.facts.tree import walk
from accelift_codemod.following.onward import reached, reads_of
from accelift_codemod.measured.steering import steers
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rows import batch_sizes
from accelift_codemod.rules import Rule


class LaterLooks(Rule):
    """Reports a batch that is drawn by itself, outside of loops over batches, from a loader that is prepared before.

    It is the share of the process that looks at it, and so is what is printed or kept of it. Where the script picks
    rows of it by numbers (`images[i]`), a share may not have them, which is a warning. What a decision is taken by
    that all processes have to take alike is an error.
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
            statement = draft.facts.index.statement(call)
            seen = [call, *(reads_of(draft, statement) if isinstance(statement, ast.Assign) else ())]
            if steers(draft, seen, losses=False):
                yield draft.finding(
                    "COLL-RANKFLOW",
                    Severity.ERROR,
                    call,
                    f"`{draft.facts.segment(call)}` draws from a prepared loader, and a decision depends on what is "
                    "measured on it: it is this process's share of a batch",
                    "draw from a loader of its own that is not prepared, or average it with accelerator.reduce",
                )
            elif not self._asks_for_width(draft, call):
                picked = self._picked(draft, call)
                missing = f", which may have no row for `{draft.facts.segment(picked)}`" if picked is not None else ""
                found = draft.finding(
                    "METRIC-TRAIN",
                    Severity.WARNING if picked is not None else Severity.NOTE,
                    call,
                    f"`{draft.facts.segment(call)}` draws from a prepared loader: what is seen is this process's share "
                    f"of a batch{missing}",
                    "gather what is printed or kept of it by accelerator.gather_for_metrics, or look at a batch before "
                    "prepare",
                )
                yield replace(found, tells=())  # of what is drawn, not of what else the loader deals

    def _draws(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call takes a batch from a loader that is prepared, and was before."""
        if drawn_from(call, draft.facts.resolver) is None:
            return False
        function = draft.facts.index.function(call)
        if isinstance(function, FUNCTIONS) and draft.facts.resolver.passing.dealt(function):
            return False  # it looks at none, and hands them on
        values = draft.facts.resolver.values(call)
        loaders = {loader for v in inside(values) if v.role is Role.BATCH for part in v.inner for loader in part}
        return any(draft.blueprint.is_prepared(v) for v in loaders) and not draft.blueprint.seen_before(call)

    def _picked(self, draft: Draft, call: ast.Call) -> ast.Subscript | None:
        """Where a row of what is drawn is picked by a number that a share may not reach: `images[i]`."""
        statement = draft.facts.index.statement(call)
        if not isinstance(statement, ast.Assign):
            return None
        for read in reached(draft, reads_of(draft, statement), stop=_is_part):
            part = draft.facts.index.parents.get(read)
            if isinstance(part, ast.Subscript) and part.value is read and self._is_row(draft, part.slice):
                if Role.TUPLE not in draft.facts.resolver.roles(read):
                    return part
        return None

    def _is_row(self, draft: Draft, index: ast.expr) -> bool:
        """Whether an index is a number other than the first, and none that counts what there is."""
        if isinstance(index, ast.Constant):
            return isinstance(index.value, int) and index.value > 0
        bindings = draft.facts.resolver.bindings(index) if isinstance(index, ast.Name) else []
        counted = [b.value for b in bindings if b.how is How.LOOP and isinstance(b.value, ast.Call)]
        lengths = (c for v in counted for c in walk(v) if isinstance(c, ast.Call))
        known = any(draft.facts.resolver.builtin(c.func) in ("len", "enumerate") for c in lengths)
        sized = any(isinstance(n, ast.Attribute) and n.attr in ("size", "shape") for v in counted for n in walk(v))
        return bool(counted) and not known and not sized

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


def _is_part(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript)
