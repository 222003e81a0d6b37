"""Computes evaluation results from the whole batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from accelift_codemod.chance import seeds
from accelift_codemod.chance.noise import drawn_order, noise
from accelift_codemod.chance.streams import drawing_sample
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Role
from accelift_codemod.facts.chance import SEEDS, drawn_from
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.tree import walk
from accelift_codemod.following.held_outside import reads_elsewhere
from accelift_codemod.following.onward import Read
from accelift_codemod.measured.cuts import Cut
from accelift_codemod.measured.left_over import left_over
from accelift_codemod.measured.ordered import goes_by_batches
from accelift_codemod.measured.shares import local_names
from accelift_codemod.measured.steering import steers
from accelift_codemod.measured.sums import Loop, containers, reads_after
from accelift_codemod.measured.taken import ROWS
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "METRIC"
_KNOWN = ("torch.", "types.")  # libraries whose functions measure nothing of a loader that they are given


class Metrics(Rule):
    """Gathers, in an evaluation loop, what its results are computed from: `accelerator.gather_for_metrics`.

    The gather stands at the last place in the loop that every result passes and where there still is one row for each
    sample: as little as can be proved right is sent. The rest of the loop stays as it is and sees the whole batch, in
    its order, without repeated samples, on every process; so do the decisions made on the results. It is done only if
    the gathered values are proved to have one row per sample; beside them, a mean over the samples that the network
    itself returns, such as its loss, is averaged over the shares (`accelerator.batch_mean`), unless every process draws
    batches of its own, of which some samples may come twice. Otherwise the loader of the loop is not prepared, and
    every process evaluates all of it: the same results, no faster.
    """

    code = _RULE
    name = "evaluation results"
    before = """\
for x, y in test_loader:
    output = model(x)
    correct += output.argmax(1).eq(y).sum().item()
"""
    after = """\
for x, y in test_loader:
    output = model(x)
    output, y = accelerator.gather_for_metrics((output, y))
    correct += output.argmax(1).eq(y).sum().item()
"""
    assumptions = (ROWS,)
    findings = (
        Explained(
            "EVAL-REPLICATED",
            Severity.NOTE,
            "every process evaluates everything",
            "The loader of this loop is not shared out: every process evaluates all of it. The results are right on "
            "any number of processes; the loop gets no faster.",
        ),
        Explained(
            "METRIC-LOCAL",
            Severity.ERROR,
            "measured on one process's share",
            "Each process sees its share of every batch of this loop, but what it measures cannot be gathered, so its "
            "results are those of one process's share.",
        ),
        Explained(
            "METRIC-SYNC",
            Severity.WARNING,
            "a metric that joins the processes itself",
            "Every process updates a metric of torchmetrics with all samples of an evaluation, and its compute() adds "
            "up the states of all processes once more: ratios stay right, sums and counts are multiplied. Make the "
            "metric with sync_on_compute=False.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for cut in draft.blueprint.cuts.values():
            yield from self._gather(draft, cut)
        for loop, reason in draft.blueprint.replicated.items():
            chance = [*self._chance(draft, loop)]
            yield from chance
            remedy = "gather one row per sample to share it out"
            yield draft.finding(
                "EVAL-REPLICATED",
                Severity.NOTE,
                _line(loop),
                f"every process evaluates all of this loop's data, for {reason}",
                remedy if chance else f"nothing has to be done; {remedy}",
            )
        for loop, local in draft.blueprint.local_loops.items():
            reads = _results(draft, loop)
            results = f" ({', '.join(f'`{name}`' for name in reads)})" if reads else ""
            found = draft.finding(
                "METRIC-LOCAL",
                Severity.ERROR,
                _line(loop),
                f"the results of this loop{results} are those of one process's share of the data, for {local.reason}",
                local.remedy,
            )
            whole = isinstance(loop.node, ast.comprehension)
            decides = steers(draft, [read for some in reads.values() for read in some], saves=False)
            yield found if whole or decides else replace(found, tells=())  # nothing but what it sets
        for loop in (*draft.blueprint.cuts, *draft.blueprint.replicated):
            yield from self._joined_again(draft, loop)
        yield from self._handed_away(draft)
        yield from left_over(draft)

    def _handed_away(self, draft: Draft) -> Iterator[Finding]:
        """Prepared loaders that a function gets of which nothing is known, which may go through them."""
        resolver = draft.facts.resolver
        for read in draft.facts.reads():
            parent = draft.facts.index.parents[read]
            call = draft.facts.index.parents[parent] if isinstance(parent, ast.keyword) else parent
            if not isinstance(call, ast.Call) or call.func is read or not draft.facts.runs(read):
                continue
            qualified = resolver.qualified(call.func) or ""
            if qualified.startswith(_KNOWN) or resolver.callee(call) is not None or resolver.builtin(call.func):
                continue
            if any(v.role is not Role.OBJECT for v in resolver.values(call)) or _is_run_through(draft, call):
                continue  # what is made of the loader is known, or what a loop makes of that
            dealt = [v for v in resolver.values(read) if v.role is Role.LOADER and draft.blueprint.is_prepared(v)]
            if any(draft.blueprint.meets_prepared(read, v) for v in dealt):
                decides = steers(draft, [call], saves=False)
                found = draft.finding(
                    "METRIC-LOCAL",
                    Severity.ERROR if decides else Severity.WARNING,
                    call,
                    f"nothing is known of `{draft.facts.segment(call.func)}`, which is given "
                    f"`{draft.facts.segment(read)}`: what it computes is of one process's share of the data"
                    f"{', and a decision depends on it' if decides else ''}",
                    "hand it a loader of its own, which is not prepared, or gather what it computes from",
                )
                taken = not isinstance(draft.facts.index.parents[call], ast.Expr)  # else it fills what it is given
                yield replace(found, tells=()) if taken and not decides else found

    def _chance(self, draft: Draft, loop: BatchLoop) -> Iterator[Finding]:
        """An evaluation by every process that draws other random numbers on each, and on which a decision depends."""
        node = loop.node
        if isinstance(node, ast.comprehension):
            return
        decisive = [n for n in _measured(draft, node) if steers(draft, reads_after(draft, node, n), saves=False)]
        drawn = noise(draft, loop) if decisive else None
        ordered = drawn_order(draft, loop) if drawn is None and decisive else None
        drifts = ""
        if ordered is not None and seeds.seeded(draft, ordered, SEEDS["torch"]):
            training = (
                sample for one in draft.blueprint.train_loops if (sample := drawing_sample(draft, one, "torch"))
            )
            sample = next(training, None)
            drifts = f", once they have had shares of different sizes (`{draft.facts.short(sample)}`)" if sample else ""
            ordered = ordered if sample else None
        if ordered is not None:
            if any(goes_by_batches(draft, loop, name) for name in decisive):
                yield draft.finding(
                    "COLL-RANKFLOW",
                    Severity.WARNING,
                    _line(loop),
                    f"every process has the samples of this evaluation in an order of its own (line {ordered.lineno})"
                    f"{drifts}, and so other batches: what it measures of each batch comes to something else on every "
                    "process, and a decision depends on that",
                    "do not shuffle what is evaluated, or average it across processes with accelerator.reduce before "
                    "it is used",
                )
        if drawn is not None:
            alike = seeds.seeded(draft, drawn, SEEDS[drawn_from(draft.facts.resolver, drawn) or "torch"])
            when = ", once they have had shares of different sizes" if alike else ""
            yield draft.finding(
                "COLL-RANKFLOW",
                Severity.WARNING if alike else Severity.ERROR,
                _line(loop),
                f"every process draws random numbers of its own in this evaluation{when} (line {drawn.lineno}: "
                f"`{draft.facts.segment(drawn)}`): what it measures differs from process to process, and a decision "
                "depends on that",
                "average it across processes with accelerator.reduce before it is used, or seed the evaluation",
            )

    def _joined_again(self, draft: Draft, loop: BatchLoop) -> Iterator[Finding]:
        """Metrics of torchmetrics that a loop updates, once each."""
        made: dict[ast.AST, ast.Call] = {}
        for call in (n for statement in loop.body for n in walk(statement) if isinstance(n, ast.Call)):
            func = call.func
            receiver = func.value if isinstance(func, ast.Attribute) else func
            for value in draft.facts.resolver.values(receiver):
                if value.name.startswith("torchmetrics.") and isinstance(value.origin, ast.Call):
                    made.setdefault(value.origin, call)
        for origin, call in made.items():
            if not any(k.arg == "sync_on_compute" for k in origin.keywords):  # type: ignore[attr-defined]
                yield draft.finding(
                    "METRIC-SYNC",
                    Severity.WARNING,
                    call,
                    f"`{draft.facts.segment(call.func)}` is given all samples by every process, and the metric adds up "
                    "what all processes have once more: sums and counts are multiplied",
                    "make the metric with sync_on_compute=False",
                )

    def _gather(self, draft: Draft, cut: Cut) -> Iterator[Edit]:
        reason = "the results must cover the whole batch, not this process's share"
        assumes = ROWS if cut.trusts else None
        if cut.names:
            names = ", ".join(cut.names)
            given = ", ".join(cut.given)
            packed = f"({given})" if len(cut.given) > 1 else given
            yield draft.edit(
                _RULE,
                cut.anchor,
                Operation.AFTER if cut.after else Operation.BEFORE,
                reason,
                f"{names} = {{accelerator}}.gather_for_metrics({packed})",
                need=Need.STRONG,
                assumes=assumes,
            )
        if cut.means:
            names, given = (", ".join(texts) for texts in zip(*cut.means, strict=True))
            packed = f"({given})" if len(cut.means) > 1 else given
            yield draft.edit(
                _RULE,
                cut.anchor,
                Operation.AFTER if cut.after else Operation.BEFORE,
                "a mean over this process's share must become that over the whole batch",
                f"{names} = {{accelerator}}.batch_mean({packed})",
                need=Need.STRONG,
                assumes=assumes,
            )
        for expression in cut.wrapped:
            yield draft.edit(
                _RULE,
                expression,
                Operation.SURROUND,
                reason,
                "{accelerator}.gather_for_metrics({})",
                need=Need.STRONG,
                assumes=assumes,
            )
        for read, name in cut.renamed:
            yield draft.edit(_RULE, read, Operation.BECOME, f"`{name}` is what was gathered", name, need=Need.STRONG)
        for counted in cut.recounts:
            yield draft.edit(
                _RULE,
                counted,
                Operation.BECOME,
                f"only its length is needed, which is that of `{cut.counter}`",
                cut.counter,
            )


def _is_run_through(draft: Draft, call: ast.Call) -> bool:
    """Whether a loop goes through what a call makes."""
    around = [call, *draft.facts.index.ancestors(call)]
    return any(getattr(outer, "iter", None) in around for outer in around)


def _measured(draft: Draft, node: Loop) -> list[str]:
    """The variables that a loop sets, and those that hold what it fills."""
    set_here = {name for statement in node.body for name in stores(statement)}
    dealt = set() if isinstance(node, ast.While) else stores(node.target)
    return sorted(set_here | containers(draft, node, set_here | dealt))


def _results(draft: Draft, loop: BatchLoop) -> dict[str, list[Read]]:
    """What a loop measures of its share that is read after it, and where: not how many batches there were."""
    node = loop.node
    if isinstance(node, ast.comprehension):
        return {}
    found: dict[str, list[Read]] = {}
    local = local_names(draft, loop, node)
    for name in (n for n in _measured(draft, node) if n in local):
        if reads := (*reads_after(draft, node, name), *reads_elsewhere(draft, node, name)):
            found[name] = [*reads]
    return found


def _line(loop: BatchLoop) -> int:
    node = loop.node
    return node.iter.lineno if isinstance(node, ast.comprehension) else node.lineno
