"""Routes backward passes through the accelerator."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import reduce

from accelift_codemod.batches import collating, comparing, nodes
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, position
from accelift_codemod.facts.apart import is_apart
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout import Layout, Shape
from accelift_codemod.facts.layout.algebra import join
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured import later, steadied
from accelift_codemod.measured.shares import is_share
from accelift_codemod.measured.updates import rows_that_divide
from accelift_codemod.plan import Assumption, Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "BACKWARD"
_MEAN = Assumption("the loss is a mean over the samples")
_ARGUMENTS = "gradient,retain_graph,create_graph,inputs"  # of Tensor.backward, by position
_KNOWN = (
    Layout.MEAN,
    Layout.WEIGHTED,
    Layout.SUM,
    Layout.PART_SUM,
    Layout.SHRUNK,
    Layout.PIECED,
    Layout.MIXED,
)  # each with a finding of its own
_GATHER = "gather what is compared with torch.distributed.nn.all_gather, or accept comparisons within each share"
_CUTS = frozenset({"split", "tensor_split", "chunk", "range"})  # what cuts a batch into pieces, or numbers them
_INTO_AS_MANY = frozenset({"chunk"})
_WHOLE = (Layout.ROWS, Layout.CONST, Layout.ZERO)  # gradients that do not divide by how many samples there are


class Backward(Rule):
    """Writes `accelerator.backward(loss, ...)` for `loss.backward(...)`.

    Arguments are kept; a gradient given by position becomes `gradient=`. Across processes gradients are averaged. That
    is right for a loss that is a mean over the samples. A loss that is proved to be a sum over them is marked, so that
    its gradient stays the sum. `scaler.scale(loss).backward()` keeps the script's own scaler. Examples that go back
    from numbers which the script writes train nothing, and stay.
    """

    code = _RULE
    name = "backward passes"
    required = True
    always = True
    before = """\
loss = criterion(model(x), y)
loss.backward()
"""
    after = """\
loss = criterion(model(x), y)
accelerator.backward(loss)
"""
    assumptions = (_MEAN,)
    findings = (
        Explained(
            "LOSS-MASKMEAN",
            Severity.WARNING,
            "a weighted or masked mean",
            "The loss is a mean over class weights, over the targets that are not ignored, over the nodes of graphs, "
            "or over what is picked out of the batch (by a mask, or by packing sequences of different lengths), and "
            "each process divides by its own total; on several processes the average of these means is not the mean "
            "over the whole batch. "
            "The difference is small if the totals are alike; accelerator.backward(loss, weight=total) takes it away. "
            'So does dividing the sum by accelerator.reduce(total, "sum") with accelerator.backward(loss, '
            'reduction="sum"), also where a process may have a total of zero; the loss of a process is then its part '
            "of that of the whole batch, which is why the conversion leaves the choice to you.",
        ),
        Explained(
            "LOSS-SUM",
            Severity.ERROR,
            "partly a sum over the samples",
            "The loss adds a sum over the samples and something that is none, such as a penalty on the weights. "
            "Neither the average nor the sum of the processes' gradients is that of the whole batch.",
        ),
        Explained(
            "LOSS-SHRUNK",
            Severity.ERROR,
            "a mean that is divided by the number of samples",
            "The loss is a mean over the samples, divided by how many there are once more. A process counts those of "
            "its share, of which there are fewer: its loss, and the gradients, are greater by the number of processes.",
        ),
        Explained(
            "LOSS-INBATCH",
            Severity.ERROR,
            "a loss across the samples of a batch",
            "The loss compares the samples of a batch with each other, or with the batch's own mean (contrastive "
            "losses, relativistic GANs), picks samples by such a statistic (those above a quantile, the hardest ones), "
            "or is a statistic of the batch that is no mean (a norm, a maximum, a standard deviation). A process has "
            "only its share of the samples, so on several processes it is another loss. "
            "So it is with a recurrent layer or a transformer without batch_first=True that is given the samples in "
            "dimension 0: to it they are the steps of one sequence, in which each depends on others. A warning "
            "supposes that what a network of a library gives for a batch has one row for each sample, as is usual; or "
            "that the rows are samples which an operation sets against all others, in a loss that cannot be followed.",
        ),
        Explained(
            "LOSS-PIECES",
            Severity.WARNING,
            "means over pieces of a batch",
            "The loss is made of means over pieces that a batch is cut into (`split`, `chunk`, slices by a step), "
            "added up or averaged. A process cuts its own share: it has fewer pieces, or smaller ones. A sum of the "
            "means of fewer pieces is smaller; a mean of means is the same only where all pieces have one size. It is "
            "a note where they are cut by `chunk`, into as many everywhere.",
        ),
        Explained(
            "LOSS-UNKNOWN",
            Severity.NOTE,
            "unknown reduction of the loss",
            "It cannot be told whether the loss is a mean over the samples. If it is a sum, write "
            'accelerator.backward(loss, reduction="sum"), else its gradient shrinks by the number of processes. '
            "So it is with a mean over what batches hold that a function of a library has collated: it may be one over "
            "nodes or words, of which every process has another number.",
        ),
        Explained(
            "LOSS-LATER",
            Severity.NOTE,
            "one backward pass for several batches",
            "The losses of several batches are added up, and gone back from at once. The accelerator weighs a loss by "
            "the process's share of the last batch; here there are several, and where a batch is not dealt evenly, the "
            "samples of the smaller shares count a little more.",
        ),
        Explained(
            "BWD-RAW",
            Severity.WARNING,
            "torch.autograd.backward stays",
            "torch.autograd.backward is left as it is. It computes the same gradients, but the accelerator does not "
            "see it: uneven batches are not weighted.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for call in draft.facts.loops.backwards:
            if not draft.facts.runs(call):
                continue
            func = call.func
            assert isinstance(func, ast.Attribute)
            if draft.facts.resolver.qualified(func) == "torch.autograd.backward":
                yield draft.finding(
                    "BWD-RAW",
                    Severity.WARNING,
                    call,
                    "torch.autograd.backward bypasses the accelerator",
                    "sum the losses and call accelerator.backward on the sum",
                )
                continue
            if not draft.training_around(call) and is_apart(draft.facts, func.value):
                continue  # an example that trains nothing
            yield from self._call(draft, call, func)
            yield from self._of_pass(draft, call)

    def _call(self, draft: Draft, call: ast.Call, func: ast.Attribute) -> Iterator[Edit | Finding]:
        reason = "gradients are scaled and averaged by the accelerator"
        if call.args:
            yield draft.edit(_RULE, call, Operation.NAME_ARGUMENTS, reason, _ARGUMENTS)
        managed = draft.facts.processes.managed  # what a process computes on its own batch is averaged, as it was
        layout = Layout.MEAN if managed else self._layout(draft, call, func.value)
        if layout is Layout.ROWS:
            layout = self._times_gradient(draft, call)
        unproved = layout in (Layout.UNKNOWN, Layout.MEAN, Layout.WEIGHTED) and not managed
        supposed = unproved and self._supposed(draft, call, func.value)
        layout = Layout.MIXED if supposed else layout
        alike = layout is Layout.MIXED or draft.options.batch != "per-process"  # if it is whole on every process
        if layout is not Layout.SUM and alike and self._has_one(draft, call):
            layout = Layout.MEAN
        if layout is Layout.MIXED and not supposed:
            layout = steadied.layout(draft, call, func.value) or layout
        if layout is Layout.SUM and self._divides_gradients(draft, call):
            layout = Layout.MEAN
        if layout is Layout.UNKNOWN and self._of_whole(draft, call, func.value):
            layout = Layout.MEAN  # of the same data on all processes: their gradients are alike
        yield draft.edit(
            _RULE,
            call,
            Operation.CALL_ON,
            reason,
            "{accelerator}.backward",
            need=Need.STRONG,
            subject=func.value,
            assumes=None if layout in _KNOWN else _MEAN,
        )
        name = draft.facts.segment(func.value)
        if layout is Layout.MEAN and not managed and nodes.averaged(draft, call):
            yield draft.finding(
                "LOSS-MASKMEAN",
                Severity.WARNING,
                call,
                f"`{name}` is a mean over the nodes or edges of a batch of graphs, of which every process has another "
                "number",
                "give accelerator.backward how many the process has: weight=len(labels)"
                if draft.runtime
                else "accept the small difference, or sum the loss and divide by the total of all processes",
            )
        elif layout is Layout.MEAN and not managed and (collate := self._collated(draft, call, func.value)) is not None:
            yield collating.doubt(draft, call, name, collate)
        elif layout is Layout.SUM:
            why = f"`{name}` is a sum over the samples: its gradient is to be summed across processes, not averaged"
            if draft.runtime:
                yield draft.edit(_RULE, call, Operation.ADD_ARGUMENT, why, 'reduction="sum"', need=Need.STRONG)
            else:
                times = "{} * {accelerator}.num_processes"
                yield draft.edit(_RULE, func.value, Operation.SURROUND, why, times, need=Need.STRONG)
        elif layout is Layout.PART_SUM:
            yield draft.finding(
                "LOSS-SUM",
                Severity.ERROR,
                call,
                f"`{name}` adds a sum over the samples and something that is none: averaged across processes, the sum "
                "shrinks by their number",
                "multiply the part that is a sum by accelerator.num_processes",
            )
        elif layout is Layout.SHRUNK:
            yield draft.finding(
                "LOSS-SHRUNK",
                Severity.ERROR,
                call,
                f"`{name}` is a mean over the samples, divided by their number once more: on several processes, which "
                "have fewer each, it is greater by the number of processes",
                "divide by the number of samples of the whole batch",
            )
        elif layout is Layout.MIXED:
            yield self._supposedly(draft, call, name) if supposed else self._among_samples(draft, call, name)
        elif layout is Layout.WEIGHTED:
            yield draft.finding(
                "LOSS-MASKMEAN",
                Severity.WARNING,
                call,
                f"`{name}` is a mean by weights, or over what is picked or not ignored, and every process divides by "
                "its own total",
                "give accelerator.backward the total of this process: weight=weights[targets].sum(), or the number of "
                "what is picked or not ignored"
                if draft.runtime
                else "accept the small difference, or sum the loss and divide by the total of all processes",
            )
        elif layout is Layout.QUOTIENT:
            yield draft.finding(
                "LOSS-MASKMEAN",
                Severity.WARNING,
                call,
                f"`{name}` divides a sum over the samples by another one, and every process has its own of both: the "
                "mean of the quotients is not the quotient of the whole batch",
                'divide by accelerator.reduce(divisor, "sum") and give accelerator.backward reduction="sum"'
                if draft.runtime
                else "divide by the divisor of all processes, and multiply by num_processes",
            )
        elif layout is Layout.PIECED:
            yield draft.finding(
                "LOSS-PIECES",
                Severity.WARNING if self._cuts_by_size(draft) else Severity.NOTE,
                call,
                f"`{name}` adds up or averages means over pieces of a batch, and a process cuts only its own share, "
                "into fewer pieces or smaller ones: it is the same only if the means are averaged, and all pieces have "
                "one size",
                "add up the sums over the samples of each piece, and divide by how many samples there are in all",
            )
        elif (place := comparing.meeting(draft.facts, func.value)) is not None and (
            layout is not Layout.MEAN or (not managed and self._doubted(draft, call, func.value))
        ):
            yield self._perhaps(draft, call, name, place)
        elif layout is not Layout.MEAN or (
            not managed and 0 in self._added_along(draft, func.value) and self._doubted(draft, call, func.value)
        ):
            yield draft.finding(
                "LOSS-UNKNOWN",
                Severity.NOTE if {None, 0}.isdisjoint(self._added_along(draft, func.value)) else Severity.WARNING,
                call,
                f"it cannot be told whether `{name}` is a mean over the samples; it is taken for one",
                'if it is a sum over them, give accelerator.backward reduction="sum"'
                if draft.runtime
                else "if it is a sum, multiply it by num_processes",
            )

    def _cuts_by_size(self, draft: Draft) -> bool:
        """Whether pieces of a batch may have a size that is told, so that a share has fewer: not if training surely has
        no others than those of `chunk`, which cuts into as many."""
        found = {name for call, name in self._cuts(draft) if self._is_cut(draft, call)}
        return not found or not found <= _INTO_AS_MANY

    def _cuts(self, draft: Draft) -> Iterator[tuple[ast.Call, str]]:
        """The calls in training that may cut something into pieces, by what they are called."""
        for call in (c for c in draft.calls if c in draft.blueprint.in_training):
            resolver, func = draft.facts.resolver, call.func
            qualified = resolver.qualified(func) or resolver.builtin(func) or str(getattr(func, "attr", ""))
            name = qualified.rpartition(".")[2]
            if name in _CUTS:
                yield call, name

    def _is_cut(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call may cut a batch into pieces: of where it stands nothing is known, or it does there."""
        known = [env for loop in draft.blueprint.train_loops if (env := draft.environment(loop, call)) is not None]
        return not known or any(draft.facts.layouts.read(call, env) is Layout.PIECES for env in known)

    def _has_one(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a loss is that of one sample, or of what a data set makes: every process has all of the batch."""
        loaders = [loader for loop in draft.training_around(call) for loader in loop.loaders]
        return bool(loaders) and all(map(draft.facts.objects.deals_whole, loaders))

    def _among_samples(self, draft: Draft, call: ast.Call, name: str) -> Finding:
        """What is said of a loss in which the samples of a batch meet."""
        why = (
            f"`{name}` compares the samples of a batch with each other or with a statistic of them all, such as a "
            "threshold by their rank, or is a statistic that is no mean (a norm, a maximum), and every process has "
            "only its own share of them"
        )
        remedy = _GATHER
        sequences = draft.facts.layouts.modules.sequences
        layer = min((n for n in sequences.mixing if isinstance(n, ast.Call)), key=position, default=None)
        if layer is not None:
            made = f"the {sequences.mixing[layer].name.rpartition('.')[2]} of line {layer.lineno}"
            why = (
                f"{made} takes the samples of a batch for the steps of a sequence, in which each depends on others, "
                f"and every process has only its own share of them: `{name}` is another loss"
            )
            remedy = sequences.remedy(layer)
        return draft.finding("LOSS-INBATCH", Severity.ERROR, call, why, remedy)

    def _supposedly(self, draft: Draft, call: ast.Call, name: str) -> Finding:
        return draft.finding(
            "LOSS-INBATCH",
            Severity.WARNING,
            call,
            f"`{name}` compares the samples of a batch with each other, if a network that cannot be followed, or what "
            "is sorted, has one row for each of them, and what is looped over are labels; every process has only its "
            "own share of them",
            _GATHER,
        )

    def _perhaps(self, draft: Draft, call: ast.Call, name: str, place: ast.expr) -> Finding:
        """What is said of a loss that is not known, and in which the samples may meet by an operation."""
        return draft.finding(
            "LOSS-INBATCH",
            Severity.WARNING,
            call,
            f"it cannot be told how `{name}` is computed, and `{draft.facts.short(place)}` of line {place.lineno} sets "
            "all rows of one tensor against those of another: if these are the samples of a batch, every process has "
            "only its own share of them",
            _GATHER,
        )

    def _of_pass(self, draft: Draft, call: ast.Call) -> Iterator[Finding]:
        """A note for a backward pass that goes back from what loops over batches before it have computed."""
        if self._of_loops(draft, call):
            yield draft.finding(
                "LOSS-LATER",
                Severity.NOTE,
                call,
                "the losses of several batches are gone back from at once: shares of different sizes are not weighed",
                "give the loader batches that the number of processes divides, and drop_last=True, if that matters",
            )

    def _divides_gradients(self, draft: Draft, call: ast.Call) -> bool:
        """Whether gradients are divided after the backward pass by the number of samples that the process has."""
        for loop in draft.training_around(call):
            for read in (n for s in loop.body for n in walk(s) if isinstance(n, ast.Attribute) and n.attr == "grad"):
                if rows_that_divide(draft, loop, draft.facts.index.statement(read)) is not None:
                    return True
        return False

    def _times_gradient(self, draft: Draft, call: ast.Call) -> Shape:
        """What the backward pass of a loss for each sample computes: the sum over them, each times its gradient."""
        gradient = draft.facts.resolver.argument(call, 0, "gradient")
        parts = [n for n in walk(gradient) if isinstance(n, ast.expr)] if gradient is not None else []
        if not parts or any(self._layout(draft, call, n) is Layout.COUNT for n in parts):
            return Layout.UNKNOWN
        return Layout.SUM if self._layout(draft, call, parts[0]) in _WHOLE else Layout.UNKNOWN

    def _added_along(self, draft: Draft, loss: ast.expr, steps: int = 4) -> Iterator[int | None]:
        """The dimensions along which elements are added up in what a loss is computed from; None of all elements."""
        for node in walk(loss):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sum":
                function = draft.facts.resolver.qualified(node.func) == "torch.sum"
                told = [*node.args[function:], *(k.value for k in node.keywords if k.arg in ("dim", "axis"))]
                if not told or integer(told[0]) is not None:
                    yield integer(told[0]) if told else None
            for part in self._made_of(draft, node) if steps else ():
                yield from self._added_along(draft, part, steps - 1)

    def _of_whole(self, draft: Draft, call: ast.Call, loss: ast.expr) -> bool:
        """Whether a loss is computed from nothing that a prepared loader may have dealt."""
        if draft.training_around(call) or self._of_loops(draft, call):
            return False
        queue: list[ast.AST] = [loss]
        for node in queue:
            for part in walk(node):
                if isinstance(part, ast.Name) and any(is_share(draft, v) for v in draft.facts.resolver.values(part)):
                    return False
                queue += (made for made in self._made_of(draft, part) if made not in queue)
        return True

    def _of_loops(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a pass goes back from what loops over batches before it have computed."""
        exclusive = draft.blueprint.timeline.exclusive
        loops = draft.facts.loops.gradients.before(call)[0]
        return any(loop in draft.blueprint.loops and not exclusive(loop, call) for loop in loops)

    def _made_of(self, draft: Draft, node: ast.AST) -> Iterator[ast.expr]:
        """The expressions that a variable takes its value from, or a function of the script or loss returns."""
        resolver = draft.facts.resolver
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            owner = draft.facts.index.scope(node).owner(node.id)
            bound = resolver.reaching(node, owner) if owner is not None else []
            yield from (b.value for b in bound if b.value is not None and not b.path)
        elif isinstance(node, ast.Call):
            losses = [v.declaration for v in resolver.values(node.func) if v.role in (Role.LOSS, Role.MODEL)]
            called = [resolver.callee(node), *(resolver.method(loss, "forward") for loss in losses)]
            for function in called:
                returns = resolver.returns(function) if isinstance(function, FUNCTIONS) else []
                yield from (r.value for r in returns if r.value is not None)

    def _supposed(self, draft: Draft, call: ast.Call, loss: ast.expr) -> bool:
        """Whether a loss compares samples, if networks that are not known give one row for each."""
        layouts = draft.facts.supposed
        loops = (loop for loop in draft.training_around(call) if loop not in draft.blueprint.handmade)
        envs = [draft.environment(loop, call, layouts=layouts) for loop in loops]
        return any(env is not None and layouts.read(loss, env) is Layout.MIXED for env in envs)

    def _collated(self, draft: Draft, call: ast.Call, loss: ast.expr) -> ast.expr | None:
        """What collates the batches, if nothing is known of it, nor of what the loss is a mean over."""
        collate = collating.unknown(draft, call)
        return collate if collate is not None and self._doubted(draft, call, loss) else None

    def _doubted(self, draft: Draft, call: ast.Call, loss: ast.expr) -> bool:
        """Whether a loss is only taken for a mean over the samples: it is one of something that is not known."""
        loops = (loop for loop in draft.training_around(call) if loop not in draft.blueprint.handmade)
        envs = [draft.environment(loop, call, layouts=draft.facts.doubted) for loop in loops]
        return any(env is not None and draft.facts.doubted.read(loss, env) is Layout.UNKNOWN for env in envs)

    def _layout(self, draft: Draft, call: ast.Call, loss: ast.expr) -> Shape:
        found: list[Shape] = []
        for loop in draft.training_around(call):
            env = draft.environment(loop, call)
            if env is not None:
                found.append(draft.facts.layouts.read(loss, env))
                if loop.node in draft.facts.index.ancestors(call):
                    break  # the others are around this one
        layout = reduce(join, found) if found else later.layout(draft, call, loss)
        return Layout.UNKNOWN if layout is Layout.UNSURE else layout
