"""Batches whose weights are not known when training comes to them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.batches.earlier import mean_of_earlier
from accelift_codemod.batches.unasked import unasked
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Role
from accelift_codemod.facts.index import Function, position
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Value, Values
from accelift_codemod.networks.methods import is_self
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_KEEP = frozenset({"list", "tuple", "sorted", "reversed", "itertools.cycle"})


class KeptBatches(Rule):
    """Reports training on batches that were kept after a loader had dealt them, and on batches of several loaders
    together.

    The loss of a process is weighted by its share of the batch that was dealt last. That makes a last, smaller batch
    exact, whose samples the processes cannot share evenly, if training comes to each batch when it is dealt, and to one
    loader's at a time. A loader whose batches a loop over another one draws by `next` is not prepared, and reported.
    """

    code = "KEPT"
    name = "batches kept or dealt together"
    before = """\
batches = list(loader)
for epoch in range(10):
    for x, y in batches:
"""
    after = before
    findings = (
        Explained(
            "DATA-KEPT",
            Severity.WARNING,
            "training on batches that were kept",
            "The batches of a loader are kept (in a list, or by itertools.cycle) and trained on later. A process holds "
            "its own part of each of them, and how large the parts of the others are is only known while the loader "
            "deals the batch. So a batch that cannot be shared evenly, such as a smaller one at the end, gives another "
            "gradient than on one process. So it is with samples that an iteration leaves for the loss of the next "
            "one. It is a note where drop_last=True leaves only batches of one size. Pass "
            "over the loader in each epoch, which also shuffles anew, or give it drop_last=True and a batch size that "
            "the number of processes divides.",
        ),
        Explained(
            "DATA-MIXED",
            Severity.WARNING,
            "a loss over batches of several loaders",
            "A training loop draws from several loaders before it runs backward. The loss is weighted by this "
            "process's share of the batch that was dealt last, which is wrong for the batch of another loader if the "
            "processes share that one otherwise: if batches have other sizes, or one ends earlier with a smaller one. "
            "It is a note where drop_last=True leaves only batches of one size to each. Give the loaders "
            "drop_last=True and batch sizes that the number of processes divides.",
        ),
        Explained(
            "DATA-WHOLE",
            Severity.WARNING,
            "a source of batches is not shared out",
            "A loop over one loader draws batches of another one by next(). That one is not prepared, so every process "
            "trains on whole batches of it. They are the same on every process, and the gradient that of one process, "
            "only if its order is: without shuffle, or with a seed. Prepare it, too, and take out the moves of its "
            "batches. So it is where a loop is over a DataLoader on one setting, and on another one over what is not "
            "known to be one (an iterator of another library): prepare leaves that as it is.",
        ),
        Explained(
            "DATA-COUNTED",
            Severity.WARNING,
            "a data set that counts the samples it gives",
            "The `__getitem__` of a data set does not look at its index, and gives the sample that it has counted to "
            "itself. Every process is asked for its share of a batch and counts by itself: all of them get the same "
            "first samples, and the others come in no share. Take the sample by the index.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        seen: set[ast.AST] = set()
        counting: set[ast.AST] = set()
        for loop in draft.blueprint.train_loops:
            if loop in draft.blueprint.handmade or not draft.blueprint.shares_batches(loop):
                continue
            for method, count in _counting(draft, loop):
                if method not in counting:
                    counting.add(method)
                    yield draft.finding(
                        "DATA-COUNTED",
                        Severity.WARNING,
                        count,
                        f"this data set gives the samples that `{draft.facts.segment(count)}` has counted, whatever it "
                        "is asked for: every process counts by itself, and all of them get the same samples",
                        "take the sample by the index",
                    )
            yield from self._instead(draft, loop)
            if not draft.runtime:  # Accelerate weights no loss
                continue
            kept = next((v for source in self._sources(draft, loop) for v in _kept(draft, source)), None)
            if kept is not None and kept.origin is not None and kept.origin not in seen:
                seen.add(kept.origin)
                yield self._later(draft, kept)
            together = self._together(draft, loop)
            if together and not self._alike(draft, together):
                yield self._mixed(draft, loop, together)
            yield from self._whole(draft, loop)
            mean = mean_of_earlier(draft, loop) if not self._drop(draft, list(loop.loaders)) else None
            if mean is not None and mean not in seen:
                seen.add(mean)
                yield self._earlier(draft, mean)

    def _instead(self, draft: Draft, loop: BatchLoop) -> Iterator[Finding]:
        """What a loop may draw from instead of a loader, which prepare would leave as it is."""
        for origin in [v.origin for v in draft.facts.loops.others(loop) if isinstance(v.origin, ast.expr)][:1]:
            yield draft.finding(
                "DATA-WHOLE",
                Severity.WARNING,
                loop.node,
                f"this loop may also be over what `{draft.facts.short(origin)}` of line {origin.lineno} gives, "
                "which is not known to be a DataLoader: if it is none, prepare leaves it as it is, and every process "
                f"{'goes through' if loop.evaluates else 'trains on'} all of it",
                "put those data behind a torch.utils.data.DataLoader, too",
            )

    def _whole(self, draft: Draft, loop: BatchLoop) -> Iterator[Finding]:
        """What a loop over a prepared loader draws from one that is not."""
        last = max((position(c) for c in draft.facts.loops.backwards_in(loop.node)), default=None)
        for stream in draft.facts.loops.streams(loop.node) if loop.direct else ():
            if isinstance(stream, ast.Call) and last is not None and position(stream) > last:
                continue  # of a new pass each time, nothing is kept for the next step
            loaders = draft.facts.loops.loaders(draft.facts.resolver.values(stream))
            if loaders and not any(map(draft.blueprint.is_prepared, loaders)):
                yield draft.finding(
                    "DATA-WHOLE",
                    Severity.WARNING,
                    stream,
                    f"`{draft.facts.segment(stream)}` draws from a loader that is not prepared: every process trains "
                    "on whole batches of it, in an order of its own if it is shuffled without a seed",
                    "prepare it, too, or seed the script",
                )
                return

    def _sources(self, draft: Draft, loop: BatchLoop) -> list[Values]:
        """What a loop draws its batches from."""
        values = draft.facts.resolver.values
        found = [values(stream) for stream in draft.facts.loops.streams(loop.node)]
        return [values(loop.node.iter), *found] if loop.direct else found  # type: ignore[union-attr]

    def _together(self, draft: Draft, loop: BatchLoop) -> list[Value]:
        """The prepared loaders that a loop has drawn from when it first runs backward, if they are several."""
        loops, values = draft.facts.loops, draft.facts.resolver.values
        backward = min((position(c) for c in loops.backwards_in(loop.node)), default=None)
        sources = [values(s) for s, at in loops.draws(loop.node) if backward is None or position(at) < backward]
        if loop.direct:
            sources += _side_by_side(values(loop.node.iter))  # type: ignore[union-attr]
        drawn = [[v for v in loops.loaders(source) if draft.blueprint.is_prepared(v)] for source in sources]
        several = len({frozenset(found) for found in drawn if found}) > 1
        return list(dict.fromkeys(v for found in drawn for v in found)) if several else []

    def _alike(self, draft: Draft, loaders: list[Value]) -> bool:
        """Whether the loaders deal equally large batches at every step, as far as the script tells."""
        alike = ("batch_size",) if self._drop(draft, loaders) else ("batch_size", "dataset", "drop_last")
        given = [draft.facts.objects.loader(v).arguments for v in loaders]
        texts = {tuple(draft.facts.segment(e) if (e := a.get(n)) is not None else "" for n in alike) for a in given}
        return len(texts) == 1 and not any("batch_sampler" in a for a in given)

    def _drop(self, draft: Draft, loaders: list[Value]) -> bool:
        """Whether loaders leave out a smaller batch at the end."""
        given = (draft.facts.objects.loader(v).arguments.get("drop_last") for v in loaders)
        return all(is_constant(d, True) for d in given)

    def _later(self, draft: Draft, kept: Value) -> Finding:
        loaders = [v for inner in kept.inner for v in draft.facts.loops.loaders(inner)]
        text = draft.facts.segment(kept.origin) if kept.origin is not None else ""
        if self._drop(draft, loaders):
            what, remedy = "is right only if", "choose such a batch size, or pass over the loader in each epoch"
            return draft.finding(
                "DATA-KEPT",
                Severity.NOTE,
                kept.origin or 1,
                f"training on the batches that `{text}` keeps {what} the number of processes divides the batch size",
                remedy,
            )
        return draft.finding(
            "DATA-KEPT",
            Severity.WARNING,
            kept.origin or 1,
            f"training comes to the batches that `{text}` keeps when it is no longer known how they were shared: one "
            "that cannot be shared evenly, such as the last, gives another gradient than on one process",
            "pass over the loader in each epoch, or give it drop_last=True",
        )

    def _earlier(self, draft: Draft, mean: ast.Call) -> Finding:
        return draft.finding(
            "DATA-KEPT",
            Severity.WARNING,
            mean,
            f"`{draft.facts.short(mean)}` is a mean over samples of an earlier batch, and the loss is weighted by this "
            "process's share of the last one: where that cannot be shared evenly, it is another mean",
            "give the loader drop_last=True",
        )

    def _mixed(self, draft: Draft, loop: BatchLoop, loaders: list[Value]) -> Finding:
        if self._drop(draft, loaders):
            return draft.finding(
                "DATA-MIXED",
                Severity.NOTE,
                loop.node,
                "a loss over the batches of these loaders is right only if the number of processes divides their sizes",
                "choose such batch sizes",
            )
        return draft.finding(
            "DATA-MIXED",
            Severity.WARNING,
            loop.node,
            "the loss is weighted by this process's share of the batch that was dealt last, but these loaders' batches "
            "may be shared otherwise, at the latest where one of them ends with a smaller batch",
            "give the loaders drop_last=True, and batch sizes that the number of processes divides",
        )


def _counting(draft: Draft, loop: BatchLoop) -> Iterator[tuple[Function, ast.expr]]:
    """The `__getitem__` of data sets of a loop that never look at their index, and what they count instead."""
    resolver = draft.facts.resolver
    given = (draft.facts.objects.loader(v).arguments.get("dataset") for v in loop.loaders)
    for value in (v for dataset in given for v in resolver.values(dataset)):
        method = unasked(resolver, value.declaration)
        if method is None:
            continue
        targets = [n.target for s in method.body for n in walk(s) if isinstance(n, ast.AugAssign)]
        counts = [t for t in targets if isinstance(t, ast.Attribute) and is_self(t.value)]
        read = {ast.unparse(n) for s in method.body for n in walk(s) if isinstance(n, ast.Attribute) and _is_read(n)}
        yield from ((method, count) for count in counts if ast.unparse(count) in read)


def _is_read(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _kept(draft: Draft, values: Values) -> Iterator[Value]:
    """What keeps the batches of a loader among what is iterated over."""
    for value in values:
        if value.role is Role.ITERATOR and value.name in _KEEP and any(map(draft.facts.loops.loaders, value.inner)):
            yield value
        elif value.role in (Role.ITERATOR, Role.ENUMERATE, Role.ZIP):
            for inner in value.inner:
                yield from _kept(draft, inner)


def _side_by_side(values: Values) -> list[Values]:
    """What is iterated over at the same time: the parts of a `zip`."""
    found: list[Values] = []
    for value in values:
        if value.role in (Role.ITERATOR, Role.ENUMERATE):
            found += _side_by_side(value.inner[0])
        elif value.role is Role.ZIP:
            found += value.inner
    return found or [values]
