"""Reports losses that set every sample of a batch against the targets of all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

# Losses that broadcast what they compare, and warn; others raise an error.
_CLASSES = frozenset("MSELoss L1Loss SmoothL1Loss HuberLoss SoftMarginLoss PoissonNLLLoss KLDivLoss".split())
_FUNCTIONS = frozenset("mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss poisson_nll_loss kl_div".split())
_MOST_STEPS = 5


class Broadcasts(Rule):
    """Reports a loss between one number for each sample, in a column of shape (n, 1), and targets of shape (n,).

    They are broadcast to (n, n): the loss compares each prediction with the targets of all samples of the batch. A
    process has a share of the batch only, so several processes compute another loss. So it is where a network adds
    the two: a product of embeddings and a bias. Nothing is said where one of the shapes is not known.
    """

    code = "BROADCAST"
    name = "losses that are broadcast"
    always = False
    findings = (
        Explained(
            "LOSS-BROADCAST",
            Severity.ERROR,
            "a column is compared with a row",
            "The network returns a column of shape (n, 1) and the targets have shape (n,), or the other way round. "
            "They are broadcast to (n, n), so that each prediction is compared with the targets of all samples in the "
            "batch: on one process most likely no loss that was meant, and on several another one, because each has "
            "only its share of the batch. `.unsqueeze(1)` makes a column of the targets, `.squeeze(1)` a row of the "
            "predictions.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        if draft.facts.processes.managed or draft.options.batch != "global":
            return  # every process computes on whole batches
        said: set[ast.expr] = set()
        for call in draft.facts.loops.backwards:
            if not draft.facts.runs(call) or not isinstance(call.func, ast.Attribute):
                continue
            for node, left, right, inside in self._pairs(draft, call.func.value, None, set()):
                if node in said or not draft.facts.extents.crossed(left, right):
                    continue
                compared = inside.args if inside is not None else [left, right]
                if self._are_rows(draft, call, inside or node, compared):
                    said.add(node)
                    yield self._found(draft, node, left, right)

    def _found(self, draft: Draft, node: ast.expr, left: ast.expr, right: ast.expr) -> Finding:
        column = draft.facts.extents.of(left)
        first, second = (left, right) if column is not None and column.column else (right, left)
        one, other = draft.facts.short(first), draft.facts.short(second)
        return draft.finding(
            "LOSS-BROADCAST",
            Severity.ERROR,
            node,
            f"`{one}` is a column of shape (n, 1) and `{other}` has shape (n,): each sample is compared with all of "
            "the batch, of which a process has only its share",
            f"write `{other}.unsqueeze(1)`, or `{one}.squeeze(1)`: that is most likely meant on one process, too",
        )

    def _are_rows(self, draft: Draft, backward: ast.Call, node: ast.expr, compared: list[ast.expr]) -> bool:
        """Whether all that is compared has the samples of the batch in its first dimension."""
        for loop in draft.training_around(backward):
            if loop.loaders and all(map(draft.facts.objects.deals_whole, loop.loaders)):
                continue  # one sample meets none
            env = draft.environment(loop, draft.facts.index.statement(node))
            if env is not None and all(draft.facts.layouts.read(c, env) is Layout.ROWS for c in compared):
                return True
        return False

    def _pairs(
        self, draft: Draft, loss: ast.expr, inside: ast.Call | None, seen: set[ast.expr], steps: int = _MOST_STEPS
    ) -> Iterator[tuple[ast.expr, ast.expr, ast.expr, ast.Call | None]]:
        """What a loss, or what it is computed from, sets against each other; the call of the loss module it is in."""
        resolver = draft.facts.resolver
        if loss in seen:
            return
        seen.add(loss)
        for node in walk(loss):
            if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
                yield node, node.left, node.right, inside
            elif isinstance(node, ast.Call):
                if len(node.args) > 1 and self._compares(draft, node):
                    yield node, node.args[0], node.args[1], inside
                for function, module in self._functions(draft, node):
                    for returned in resolver.returns(function) if steps else ():
                        if returned.value is not None:
                            entered = inside or (node if module else None)
                            yield from self._pairs(draft, returned.value, entered, seen, steps - 1)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and steps:
                for binding in resolver.bindings(node):
                    if binding.value is not None and not binding.path:
                        yield from self._pairs(draft, binding.value, inside, seen, steps - 1)

    def _functions(self, draft: Draft, call: ast.Call) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
        """The functions of the script that a call runs, and whether it is the forward pass of a loss."""
        resolver = draft.facts.resolver
        target = resolver.callee(call)
        if isinstance(target, FUNCTIONS):
            yield target, False
        for value in resolver.values(call.func):
            forward = resolver.method(value.declaration, "forward") if value.role is not Role.CLASS else None
            if forward is not None:
                yield forward, True

    def _compares(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call is that of a loss of torch that compares elements, and broadcasts."""
        module, _, name = (draft.facts.resolver.library_function(call.func) or "").rpartition(".")
        if module == "torch.nn.functional" and name in _FUNCTIONS:
            return True
        names = [v.name.rpartition(".") for v in draft.facts.resolver.values(call.func)]
        return bool(names) and all(module == "torch.nn" and name in _CLASSES for module, _, name in names)
