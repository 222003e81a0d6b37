"""Losses whose gradients depend on the number of processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import How
from accelift_codemod.facts.layout.algebra import Layout
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Evidence, Role
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity

_GRADIENTS = "torch.autograd.grad"


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
            summed: ast.expr | None = self._sum(world, loss)
            if summed is None or world.flow.from_batch(loss) is None:
                summed = self._summed(world, loss)
            if summed is None:
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

    def _summed(self, world: World, loss: ast.expr) -> ast.expr | None:
        """The last sum of those that a value is put together of, if it certainly is a sum over the samples and nothing
        divides or weights it: that might be the number of samples."""
        if world.layout(loss) is not Layout.SUM:
            return None

        def given(node: ast.AST) -> bool:
            return world.flow.names_prepared(node) or any(v.role is Role.BATCH for v in world.resolver.values(node))

        if any(self._scales(world, part) for part in world.flow.sources(loss, given) if not given(part)):
            return None
        return _made_at(world, loss, Layout.SUM)

    def _scales(self, world: World, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            owner = world.index.scope(node).owner(node.id)
            changes = [b.node for b in owner.bindings[node.id] if b.how is How.AUGMENT] if owner is not None else []
            made = [s.op for s in map(world.index.statement, changes) if isinstance(s, ast.AugAssign)]
            return any(not isinstance(op, (ast.Add, ast.Sub)) for op in made)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in ("div", "div_", "mul", "mul_", "true_divide") and self._may_be_sum(world, node)
        if not isinstance(node, ast.BinOp) or isinstance(node.op, (ast.Add, ast.Sub)):
            return False
        literal = any(isinstance(n, (ast.Constant, ast.UnaryOp)) for n in (node.left, node.right))
        return not (isinstance(node.op, ast.Mult) and literal) and self._may_be_sum(world, node)

    def _may_be_sum(self, world: World, node: ast.expr) -> bool:
        return world.around(node) is None or world.layout(node) in (Layout.SUM, Layout.UNKNOWN, Layout.UNSURE)

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
        for layout in (Layout.WEIGHTED, Layout.QUOTIENT):
            for call, loss, made in _of_layout(world, layout):
                model = _of_model(world, made)
                if model is not None and _all_are_labels(world, model):
                    continue
                remedy = (
                    "sum the loss instead, multiply it by num_processes, and divide it by the total of all processes"
                )
                if world.library == "accelift":
                    remedy = "give accelerator.backward the total of this process: weight=..."
                elif model is not None:
                    remedy = (
                        "compute it from the logits: a sum, times num_processes, divided by the total of all processes"
                    )
                what = (
                    "is a mean by weights, or over what is picked or not ignored, and every process divides by its own "
                    "total"
                )
                yield _finding(self, world, call, loss, made, what, remedy)


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
        for call, loss, made in _of_layout(world, Layout.MIXED):
            if any(isinstance(n, ast.Call) and world.qualified(n) == _GRADIENTS for n in walk(made)):
                what = "is weighted by gradients of this process's share of the batch, and every process has other ones"
                remedy = 'average them with accelerator.reduce(..., reduction="mean") before'
            else:
                what = (
                    "compares the samples of a batch with each other, or is a statistic of them that is no mean, and "
                    "every process has its own share of them only"
                )
                remedy = (
                    "gather what is compared with torch.distributed.nn.functional.all_gather, or accept smaller "
                    "comparisons"
                )
            yield _finding(self, world, call, loss, made, what, remedy)


_Found = tuple[ast.Call, ast.expr, ast.expr]


def _of_layout(world: World, layout: Layout) -> Iterator[_Found]:
    """The losses, given to backward in a loop over prepared loaders, that depend on the samples in one way, and what
    makes them do so."""
    for call in world.verbs("backward"):
        loss = world.resolver.argument(call, 0, "loss")
        if loss is None or any(k.arg in ("reduction", "weight", None) for k in call.keywords):
            continue
        loop = world.around(call)
        if loop is not None and isinstance(loop.node, (ast.For, ast.AsyncFor)) and world.layout(loss) is layout:
            yield call, loss, _made_at(world, loss, layout)


def _made_at(world: World, loss: ast.expr, layout: Layout) -> ast.expr:
    """The innermost expression behind a loss that depends on the samples in the same way."""
    parts = [p for p in world.flow.sources(loss) if isinstance(p, ast.expr) and not isinstance(p, ast.Name)]
    found = [p for p in parts if world.around(p) is not None and world.layout(p) is layout]
    return found[-1] if found else loss


def _finding(
    lint: Lint, world: World, call: ast.Call, loss: ast.expr, made: ast.expr, what: str, remedy: str
) -> Finding:
    loop = world.around(call)
    assert loop is not None and isinstance(loop.node, (ast.For, ast.AsyncFor))
    shown = () if made is loss else (Evidence(made.lineno, f"`{world.text(made)}` makes it so"),)
    return Finding(
        lint.code,
        lint.severity,
        call.lineno,
        f"`{world.text(loss)}` {what}, so that N processes train otherwise than one",
        remedy,
        (Evidence(loop.node.lineno, f"`{world.text(loop.node.iter)}` is prepared"), *shown),
    )


def _of_model(world: World, made: ast.expr) -> ast.Call | None:
    """The call of a model that computes a loss itself, as its `loss`."""
    call = made.value if isinstance(made, (ast.Attribute, ast.Subscript)) else made
    return call if isinstance(call, ast.Call) and world.resolver.only(call.func, Role.MODEL) else None


def _all_are_labels(world: World, call: ast.Call) -> bool:
    """Whether the labels that a model is given are its very inputs, none of which is ignored."""
    given = {k.arg: k.value for k in call.keywords}
    labels, ids = given.get("labels"), given.get("input_ids", call.args[0] if call.args else None)
    if labels is not None and ids is not None:
        return ast.dump(_plain(world, labels)) == ast.dump(_plain(world, ids))
    made = [
        n.value
        for n in walk(world.index.tree)
        if isinstance(n, ast.Assign) and any(_entry(target) == "labels" for target in n.targets)
    ]
    ignored = any(isinstance(n, ast.Constant) and n.value == 100 for n in walk(world.index.tree))
    collates = any(world.qualified(c).partition(".DataCollatorFor")[1] for c in world.calls)
    copies = bool(made) and all(_entry(_plain(world, value)) == "input_ids" for value in made)
    return None in given and copies and not ignored and not collates


def _entry(node: ast.expr) -> object:
    """The name of the entry that an expression is: `labels` of `batch["labels"]`."""
    return node.slice.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else None


def _plain(world: World, node: ast.expr) -> ast.expr:
    """What an expression is a copy of, through variables."""
    for _ in range(6):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            if node.func.attr not in ("clone", "copy", "detach", "contiguous"):
                return node
            node = node.func.value
            continue
        bindings = world.resolver.bindings(node) if isinstance(node, ast.Name) else []
        value = bindings[0].value if len(bindings) == 1 and bindings[0].how is How.ASSIGN else None
        if not isinstance(value, ast.expr) or bindings[0].path:
            return node
        node = value
    return node


def _says_sum(world: World, call: ast.Call) -> bool:
    word = world.resolver.argument(call, None, "reduction")
    return isinstance(word, ast.Constant) and word.value == "sum"
