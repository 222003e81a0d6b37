"""Shares out batches that the script makes itself."""

from __future__ import annotations

from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.handmade.steps import Step
from accelift_codemod.facts.index import MARK, position
from accelift_codemod.plan import Assumption, Edit, Finding, Need, Operation
from accelift_codemod.rules import Rule

_RULE = "SHARD"
_DIVIDES = Assumption("the number of processes divides the batch size")


class Shard(Rule):
    """With `--shard-manual`: gives each process its rows of the batches that a training loop makes without a loader.

    A batch is what the loop picks anew in each iteration: a slice whose bounds change with the loop, drawn indices and
    what they select, what a function of the script returns that picks so; or what it is dealt by a generator of the
    script, or by data that are cut to pieces (`order.split(32)`). It may also be what a call returns that is not
    followed (`x, y = batches.next_batch(64)`): one that is told a number greater than one, the same in each iteration,
    or a function of the script that puts several samples together. No network may take part in it, and it may not be
    told what the loop computes; that its parts have a row for each sample, `split_batch` sees.

    It may have the same rows each time, and other steps of them (`source[:, i : i + 32]`). Noise that every iteration
    draws is a batch, too (`z = torch.randn(n, 8)`); and noise, or constants, of as many rows as a batch belong to it
    (`real = torch.ones(n, 1)`). They are dealt where they are made, also when they are made again in the same
    iteration, as for the generator of a GAN.

    A state of a recurrent layer that the loop makes for as many rows as it picks (`h = torch.zeros(1, n, 8)`,
    `model.init_hidden(n)`) is made for a share: `n // accelerator.num_processes`.

    `split_batch` takes the batch that the main process made, so all processes train on one order of the data, and
    `backward` weights a last, smaller batch. On one process it returns the batch itself. If the loop hands its batches
    to a function that trains on them, and nothing else calls it, that function begins with its rows of them.

    It is done where it is proved that rows are computed one by one from there, up to losses that are means or sums over
    them, that nothing else reads the whole batch, and that nothing is kept by its rows. Otherwise, and without the
    option, the script is left alone (DATA-UNSHARDED). Noise that is drawn for the rows before the first network runs is
    dealt with them, so it is that of one process. Evaluation on batches made by hand stays as it is: every process
    evaluates all of them.

    Where every step computes on the whole data, their rows are dealt once, before the loop, under names of their
    own: `x_share, y_share = accelerator.split_batch(x, y)`. That inputs and targets have a row for each other is
    proved by how they are made, or the loss fails otherwise, or, of targets that a loss compares with outputs
    element by element, `split_batch` sees it: it raises a `ValueError` if they have not. Data that surely have one
    dimension are one sample for a layer of weights, and are left alone. What a network returned for these rows and
    is used after the loop is gathered there; anything else that is computed from them must not be used. A look at
    all of them without gradients, by which nothing of a share is measured, stays one at all of them.

    Recurrent layers take a tensor of two dimensions for one sequence, so it has to be proved that theirs have three.
    """

    code = _RULE
    name = "batches made by hand"
    required = True
    assumptions = (_DIVIDES,)
    before = """\
for i in range(0, len(X), 32):
    rows = order[i : i + 32]
    loss = F.cross_entropy(model(X[rows]), y[rows])
"""
    after = """\
for i in range(0, len(X), 32):
    rows = order[i : i + 32]
    rows = accelerator.split_batch(rows)
    loss = F.cross_entropy(model(X[rows]), y[rows])
"""

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for step in draft.blueprint.handmade.values():
            if step.whole:
                yield from self._whole(draft, step)
                continue
            for size in sorted(step.sizes, key=position):
                yield draft.edit(
                    _RULE,
                    size,
                    Operation.SURROUND,
                    "a process computes its rows of the batch",
                    "{} // {accelerator}.num_processes",
                    need=Need.STRONG,
                    assumes=_DIVIDES,
                )
            made = {step.made or step.first: step.names, **step.again}
            for statement, variables in made.items():
                names = ", ".join(variables)
                yield draft.edit(
                    _RULE,
                    statement,
                    Operation.BEFORE if statement is step.first and step.made is None else Operation.AFTER,
                    "a process computes its rows of the batch",
                    f"{names} = {{accelerator}}.split_batch({names})",
                    need=Need.STRONG,
                )

    def _whole(self, draft: Draft, step: Step) -> Iterator[Edit | Finding]:
        """The rows of data that every step computes on are dealt once, before the loop, under names of their own."""
        own = {name: self._own(draft, name) for name in step.whole}
        shares, data = ", ".join(own.values()), ", ".join(own)
        yield draft.edit(
            _RULE,
            step.loop.node,
            Operation.BEFORE,
            "a process computes its rows of the data",
            f"{shares} = {{accelerator}}.split_batch({data})",
            need=Need.STRONG,
        )
        if step.gathered:
            names = ", ".join(step.gathered)
            yield draft.edit(
                _RULE,
                step.loop.node,
                Operation.AFTER,
                "what is used later is that of all rows",
                f"{names} = {{accelerator}}.gather_for_metrics({f'({names})' if len(step.gathered) > 1 else names})",
                need=Need.STRONG,
            )
        for name, reads in step.whole.items():
            for read in reads:
                yield draft.edit(_RULE, read, Operation.BECOME, "the rows of this process", own[name], need=Need.NONE)

    def _own(self, draft: Draft, name: str) -> str:
        """A new name for the rows of a variable that one process computes on."""
        plain = f"{name.rpartition(MARK)[2].rpartition('.')[2]}_share"
        names = (plain, *(f"{plain}{n}" for n in range(2, 99)))
        return next(n for n in names if n not in draft.facts.bound)
