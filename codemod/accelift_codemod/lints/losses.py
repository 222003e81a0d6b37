"""Losses whose gradients depend on the number of processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import How
from accelift_codemod.facts.layout.algebra import Layout
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


class MaskedMean(Lint):
    """A mean over the targets that are not ignored, over what a mask picks out of a batch, or by weights, divides by
    their number, or total, and that differs from process to process: each has another share of the batch. The mean of
    such means is not the mean over all of them.
    """

    code = "LOSS-MASKMEAN"
    severity = Severity.WARNING
    title = "every process divides the loss by a total of its own"
    wrong = """\
loss = F.cross_entropy(model(inputs), targets, ignore_index=0)
accelerator.backward(loss)
"""
    right = """\
loss = F.cross_entropy(model(inputs), targets, ignore_index=0, reduction="sum")
total = accelerator.reduce((targets != 0).sum(), reduction="sum")
accelerator.backward(loss * accelerator.num_processes / total)  # accelift: backward(mean, weight=(targets != 0).sum())
"""

    def check(self, world: World) -> Iterator[Finding]:
        remedy = "sum the loss instead, multiply it by num_processes, and divide it by the total of all processes"
        if world.library == "accelift":
            remedy = "give accelerator.backward the total of this process: weight=..."
        what = "is a mean by weights, or over what is picked or not ignored"
        yield from _of_layout(self, world, Layout.WEIGHTED, what, "divides by its own total", remedy)


class InBatch(Lint):
    """A loss that compares the samples of a batch with each other (contrastive, triplets, similarities within the
    batch) sees on each process only the samples of its own share: with N processes there are N times fewer to compare
    each with, and it is another loss.
    """

    code = "LOSS-INBATCH"
    severity = Severity.ERROR
    title = "samples are compared within each process's share"
    wrong = """\
left, right = F.normalize(model(left)), F.normalize(model(right))
loss = F.cross_entropy(left @ right.T, torch.arange(len(left)))
accelerator.backward(loss)
"""
    right = """\
left, right = F.normalize(model(left)), F.normalize(model(right))
everyones = torch.cat(torch.distributed.nn.functional.all_gather(right))
own = torch.arange(len(left)) + len(left) * accelerator.process_index
loss = F.cross_entropy(left @ everyones.T, own)
accelerator.backward(loss)
"""

    def check(self, world: World) -> Iterator[Finding]:
        remedy = (
            "gather what is compared with torch.distributed.nn.functional.all_gather, or accept smaller comparisons"
        )
        what = "compares the samples of a batch with each other, or is a statistic of them that is no mean"
        yield from _of_layout(self, world, Layout.MIXED, what, "has its own share of them only", remedy)


def _of_layout(lint: Lint, world: World, layout: Layout, what: str, share: str, remedy: str) -> Iterator[Finding]:
    """The losses, given to backward in a loop over prepared loaders, that depend on the samples in one way."""
    for call in world.verbs("backward"):
        loss = world.resolver.argument(call, 0, "loss")
        if loss is None or any(k.arg in ("reduction", "weight", None) for k in call.keywords):
            continue
        loop = world.around(call)
        if loop is not None and isinstance(loop.node, (ast.For, ast.AsyncFor)) and world.layout(loss) is layout:
            yield Finding(
                lint.code,
                lint.severity,
                call.lineno,
                f"`{world.text(loss)}` {what}, and every process {share}, so that N processes train otherwise than one",
                remedy,
                (Evidence(loop.node.lineno, f"`{world.text(loop.node.iter)}` is prepared"),),
            )


def _says_sum(world: World, call: ast.Call) -> bool:
    word = world.resolver.argument(call, None, "reduction")
    return isinstance(word, ast.Constant) and word.value == "sum"
