"""Reports rows that training takes by their place in the batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Role
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_LOSSES = ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
_SHIFTS = (":-1", "1:")  # of sequences whose first dimension is time


class BatchPlaces(Rule):
    """Reports a loss, or a forward pass, of rows that are taken by their place in a batch: `out[:labeled]`.

    A process has some rows of each batch. If the first ones are labelled, say, and the others not, the second process
    would learn from what are no labels.
    """

    code = "PLACES"
    name = "rows by their place in the batch"
    findings = (
        Explained(
            "BATCH-PLACES",
            Severity.WARNING,
            "takes rows by their place in the batch",
            "The training uses the first rows of each batch, or others by a fixed place, in another way than the rest. "
            "A process has only its share of a batch, with other rows in these places.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        if draft.options.batch != "global":
            return
        for loop in draft.blueprint.train_loops:
            for node in (n for statement in loop.body for n in walk(statement)):
                if isinstance(node, ast.Subscript) and self._is_placed(draft, loop, node) and self._trains(draft, node):
                    yield draft.finding(
                        "BATCH-PLACES",
                        Severity.WARNING,
                        node,
                        f"`{draft.facts.segment(node)}` takes rows by their place in the batch, and a process has only "
                        "its share of one: other rows are in these places",
                        "have every process draw whole batches (--batch per-process), or choose rows by what they are",
                    )
                    break  # the other slices say the same

    def _is_placed(self, draft: Draft, loop: BatchLoop, node: ast.Subscript) -> bool:
        """Whether rows of a batch are taken from or up to a place that is the same for every batch."""
        first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        if not isinstance(first, ast.Slice) or isinstance(node.ctx, ast.Store):
            return False
        bounds = [bound for bound in (first.lower, first.upper) if bound is not None]
        if ast.unparse(first) in _SHIFTS:
            return False
        env = draft.environment(loop, draft.facts.index.statement(node))
        if env is None or not bounds or draft.facts.layouts.read(node.value, env) is not Layout.ROWS:
            return False
        return all(isinstance(b, ast.Constant) or draft.facts.layouts.read(b, env) is Layout.CONST for b in bounds)

    def _trains(self, draft: Draft, node: ast.Subscript) -> bool:
        """Whether what is taken goes into a loss or a model, with gradients."""
        for parent in draft.facts.index.ancestors(node):
            if isinstance(parent, ast.stmt):
                return False
            if isinstance(parent, ast.Call) and not draft.gradients_off(parent):
                module, _, name = (draft.facts.resolver.qualified(parent.func) or "").rpartition(".")
                loss = module == "torch.nn.functional" and (name.endswith("_loss") or name in _LOSSES)
                if (
                    loss
                    or draft.facts.resolver.only(parent.func, Role.LOSS)
                    or draft.blueprint.prepared_models(parent.func)
                ):
                    return True
        return False
