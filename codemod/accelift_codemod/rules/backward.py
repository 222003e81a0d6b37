"""Routes backward passes through the accelerator."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from accelift_codemod.batches import collating, comparing, nodes
from accelift_codemod.draft import Draft
from accelift_codemod.facts import position
from accelift_codemod.facts.apart import is_apart
from accelift_codemod.facts.layout import Layout, Shape
from accelift_codemod.measured import losses
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


@dataclass(frozen=True)
class _Said:
    """What is said of a kind of loss, and what to do about it with this library, or with another one."""

    code: str
    severity: Severity
    message: str
    remedy: str
    of_other: str = ""

    def finding(self, draft: Draft, call: ast.Call, name: str) -> Finding:
        remedy = self.remedy if draft.runtime or not self.of_other else self.of_other
        return draft.finding(self.code, self.severity, call, self.message.format(name=name), remedy)


_ACCEPT = "accept the small difference, or sum the loss and divide by the total of all processes"
_NODES = _Said(
    "LOSS-MASKMEAN",
    Severity.WARNING,
    "`{name}` is a mean over the nodes or edges of a batch of graphs, of which every process has another number",
    "give accelerator.backward how many the process has: weight=len(labels)",
    _ACCEPT,
)
_UNKNOWN = _Said(
    "LOSS-UNKNOWN",
    Severity.WARNING,
    "it cannot be told whether `{name}` is a mean over the samples; it is taken for one",
    'if it is a sum over them, give accelerator.backward reduction="sum"',
    "if it is a sum, multiply it by num_processes",
)
_OF_KINDS = {
    Layout.PART_SUM: _Said(
        "LOSS-SUM",
        Severity.ERROR,
        "`{name}` adds a sum over the samples and something that is none: averaged across processes, the sum shrinks "
        "by their number",
        "multiply the part that is a sum by accelerator.num_processes",
    ),
    Layout.SHRUNK: _Said(
        "LOSS-SHRUNK",
        Severity.ERROR,
        "`{name}` is a mean over the samples, divided by their number once more: on several processes, which have "
        "fewer each, it is greater by the number of processes",
        "divide by the number of samples of the whole batch",
    ),
    Layout.WEIGHTED: _Said(
        "LOSS-MASKMEAN",
        Severity.WARNING,
        "`{name}` is a mean by weights, or over what is picked or not ignored, and every process divides by its own "
        "total",
        "give accelerator.backward the total of this process: weight=weights[targets].sum(), or the number of what is "
        "picked or not ignored",
        _ACCEPT,
    ),
    Layout.QUOTIENT: _Said(
        "LOSS-MASKMEAN",
        Severity.WARNING,
        "`{name}` divides a sum over the samples by another one, and every process has its own of both: the mean of "
        "the quotients is not the quotient of the whole batch",
        'divide by accelerator.reduce(divisor, "sum") and give accelerator.backward reduction="sum"',
        "divide by the divisor of all processes, and multiply by num_processes",
    ),
    Layout.PIECED: _Said(
        "LOSS-PIECES",
        Severity.WARNING,
        "`{name}` adds up or averages means over pieces of a batch, and a process cuts only its own share, into fewer "
        "pieces or smaller ones: it is the same only if the means are averaged, and all pieces have one size",
        "add up the sums over the samples of each piece, and divide by how many samples there are in all",
    ),
}


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
        kind, supposed = losses.kind(draft, call, func.value)
        yield draft.edit(
            _RULE,
            call,
            Operation.CALL_ON,
            reason,
            "{accelerator}.backward",
            need=Need.STRONG,
            subject=func.value,
            assumes=None if kind in _KNOWN else _MEAN,
        )
        if kind is Layout.SUM:
            yield self._summed(draft, call, func.value)
        elif not draft.facts.processes.managed:
            said = self._said(draft, call, func.value, kind, supposed)
            if said is not None:
                yield said

    def _summed(self, draft: Draft, call: ast.Call, loss: ast.expr) -> Edit:
        name = draft.facts.segment(loss)
        why = f"`{name}` is a sum over the samples: its gradient is to be summed across processes, not averaged"
        if draft.runtime:
            return draft.edit(_RULE, call, Operation.ADD_ARGUMENT, why, 'reduction="sum"', need=Need.STRONG)
        times = "{} * {accelerator}.num_processes"
        return draft.edit(_RULE, loss, Operation.SURROUND, why, times, need=Need.STRONG)

    def _said(self, draft: Draft, call: ast.Call, loss: ast.expr, kind: Shape, supposed: bool) -> Finding | None:
        """What is to be said of a loss that is no sum."""
        name = draft.facts.segment(loss)
        if kind is Layout.MEAN and nodes.averaged(draft, call):
            return _NODES.finding(draft, call, name)
        collate = losses.collated(draft, call, loss) if kind is Layout.MEAN else None
        if collate is not None:
            return collating.doubt(draft, call, name, collate)
        if kind is Layout.MIXED:
            return self._supposedly(draft, call, name) if supposed else self._among_samples(draft, call, name)
        if isinstance(kind, Layout) and kind in _OF_KINDS:
            found = _OF_KINDS[kind].finding(draft, call, name)
            alike = kind is Layout.PIECED and not losses.cuts_by_size(draft)
            return replace(found, severity=Severity.NOTE) if alike else found
        place = comparing.meeting(draft.facts, loss)
        if place is not None and (kind is not Layout.MEAN or losses.doubted(draft, call, loss)):
            return self._perhaps(draft, call, name, place)
        along = {*losses.added_along(draft, loss)}
        if kind is Layout.MEAN and not (0 in along and losses.doubted(draft, call, loss)):
            return None
        said = _UNKNOWN.finding(draft, call, name)
        return replace(said, severity=Severity.NOTE) if along.isdisjoint({None, 0}) else said

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
        if losses.of_loops(draft, call):
            yield draft.finding(
                "LOSS-LATER",
                Severity.NOTE,
                call,
                "the losses of several batches are gone back from at once: shares of different sizes are not weighed",
                "give the loader batches that the number of processes divides, and drop_last=True, if that matters",
            )
