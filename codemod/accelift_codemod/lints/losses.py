"""Losses whose gradients depend on the number of processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import How
from accelift_codemod.facts.values import Evidence, Role
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity


class SummedLoss(Lint):
    """The gradients of the processes are averaged. That of a mean over the samples so becomes the gradient of the mean
    over all of them, but that of a sum becomes N times too small: it depends on the number of processes.
    """

    code = "LOSS-SUM"
    severity = Severity.ERROR
    title = "a summed loss is averaged over the processes"
    wrong = """\
loss = F.mse_loss(model(inputs), targets, reduction="sum")
accelerator.backward(loss)
"""
    right = """\
loss = F.mse_loss(model(inputs), targets, reduction="sum")
accelerator.backward(loss * accelerator.num_processes)  # accelift: backward(loss, reduction="sum")
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.verbs("backward"):
            loss = world.resolver.argument(call, 0, "loss")
            if loss is None or any(k.arg in ("reduction", "weight", None) for k in call.keywords):
                continue
            summed = self._sum(world, loss)
            if summed is None or world.flow.from_batch(loss) is None:
                continue
            remedy = "multiply it by accelerator.num_processes, or divide it by the number of samples"
            if world.library == "accelift":
                remedy = 'write accelerator.backward(loss, reduction="sum")'
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(loss)}` is a sum over the samples (line {summed.lineno}): averaged over N processes, "
                "its gradients are N times too small",
                remedy,
                (Evidence(summed.lineno, f"`{world.text(summed)}`"),),
            )

    def _sum(self, world: World, node: ast.expr, depth: int = 0) -> ast.Call | None:
        """The call that makes a value a sum over samples, if it certainly is one and nothing else is done to it."""
        if depth > 8:
            return None
        if isinstance(node, ast.Name):
            bindings = world.resolver.bindings(node)
            owner = world.index.scope(node).owner(node.id)
            if len(bindings) != 1 or bindings[0].path or bindings[0].how is not How.ASSIGN or owner is None:
                return None
            if any(b.how is How.AUGMENT for b in owner.bindings[node.id]) or bindings[0].value is None:
                return None
            return self._sum(world, bindings[0].value, depth + 1)
        if not isinstance(node, ast.Call):
            return None
        qualified = world.qualified(node)
        if qualified.startswith("torch.nn.functional."):
            return node if _says_sum(world, node) else None
        values = world.resolver.values(node.func)
        if values and all(v.role is Role.LOSS and v.name.startswith("torch.nn.") for v in values):
            made = [v.origin for v in values]
            return node if all(isinstance(m, ast.Call) and _says_sum(world, m) for m in made) else None
        return None


def _says_sum(world: World, call: ast.Call) -> bool:
    word = world.resolver.argument(call, None, "reduction")
    return isinstance(word, ast.Constant) and word.value == "sum"
