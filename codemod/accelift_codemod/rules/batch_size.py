"""Shapes that assume the whole batch, in code that sees a share of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain, islice

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured import whole_batches
from accelift_codemod.plan import Assumption, Edit, Finding, Need, Operation, Safety, Severity
from accelift_codemod.rows import (
    batch_sizes,
    elsewhere,
    fallbacks,
    made_before,
    made_for,
    mixed,
    row_numbers,
    said_rows,
)
from accelift_codemod.rows.copies import is_place, name_of, same
from accelift_codemod.rows.counted_rows import Counted
from accelift_codemod.rows.early_rows import DRAWS, EarlyRows, own_rows
from accelift_codemod.rows.states import is_state
from accelift_codemod.rules import Explained, Rule

_RULE = "BATCHSIZE"
_COUNTS = Assumption("the batch size counts samples here, and the number of processes divides it")
_NUMBER = Assumption("this number counts the samples of a batch", Safety.UNSAFE)


class BatchSize(Rule):
    """Divides the loader's batch size by the number of processes where the training loop uses it as a number of rows.

    With the global batch kept, a process sees `batch_size // num_processes` samples at a time. A tensor of labels or
    noise, a `view`, a loop over rows or a hidden state made for `batch_size` rows would not fit. On one process the
    division is by one. A test by which the loop leaves out batches that are not whole asks how many samples all
    processes have, so that all of them leave out the same ones.
    """

    code = _RULE
    name = "batch size as a shape"
    before = "real_labels = torch.ones(batch_size, 1)\n"
    after = "real_labels = torch.ones(batch_size // accelerator.num_processes, 1)\n"
    assumptions = (_COUNTS, _NUMBER)
    findings = (
        Explained(
            "BATCH-ONE",
            Severity.WARNING,
            "batches of one sample",
            "A batch of one sample cannot be shared out, and neither can one that a data set makes itself "
            "(batch_size=None): every process is dealt it whole, and computes what one process would. "
            "--batch per-process gives each process samples of its own; the global batch grows then. It is a note "
            "where an option of the command line is one by default.",
        ),
        Explained(
            "BATCH-LITERAL",
            Severity.WARNING,
            "the batch size as a literal number",
            "The number that is the loader's batch size is also used in the training loop, as a number of rows by the "
            "look of it. A process has only its share of a batch.",
        ),
        Explained(
            "BATCH-MODEL",
            Severity.WARNING,
            "a model made for the whole batch",
            "A model, a loss, or an object that training asks for rows, is made with the loader's batch size, is told "
            "it by a method that keeps it, or reads it itself, for hidden states, masks or views by the look of it. A "
            "process has only its share of a batch. Take the number of rows from the input, in forward.",
        ),
        Explained(
            "BATCH-MIXED",
            Severity.WARNING,
            "the batch size for rows and for more",
            "A function that training calls is handed the loader's batch size, makes or shapes tensors by it, and "
            "uses it for something else, too: a divisor, say. Or it has the batch size by default, which other calls "
            "of it may mean, or is called outside of the training loop, too. Or places are counted out by it, and "
            "divided by it, or it is compared with what may be a number of rows. A process has only its share of a "
            "batch. Take the number of rows from a tensor.",
        ),
        Explained(
            "BATCH-KEPT",
            Severity.WARNING,
            "a store that is filled by whole batches",
            "A queue or bank that training keeps from step to step is filled with as many rows as the loader's batch "
            "size says. A process has only its share of a batch, and keeps its own. Take the number of rows from what "
            "is put in; gather that first if the store is to hold the rows of all processes.",
        ),
        Explained(
            "BATCH-MADE",
            Severity.WARNING,
            "rows for a whole batch",
            "A function makes a tensor of as many rows as a batch has before the training loop, and the loss is "
            "computed with what becomes of it. A process has only its share of a batch: the rows may not fit.",
        ),
        Explained(
            "BATCH-DRAWN",
            Severity.WARNING,
            "numbers for each row of a whole batch",
            "Random numbers for as many rows as a batch has are drawn before the training loop and used with the batch "
            "in it, or numbers are spread over its rows (linspace). A process has only its share of a batch: drawing "
            "less would change all that is drawn later, and fewer numbers over the same range are others.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        if draft.options.batch != "global":
            return
        seen: set[ast.AST] = set()
        built = made_for.made_with(draft)
        cut = any(isinstance(n, ast.Slice) for n in walk(draft.facts.tree))
        for loop in dict.fromkeys(map(draft.facts.loops.around, draft.blueprint.train_loops)):
            early = EarlyRows(draft, loop)
            yield from chain.from_iterable(whole_batches.asked(draft, loop).values())
            yield from self._literals(draft, loop, early)
            yield from self._ones(draft, loop)
            sizes = [size for size in batch_sizes.of_loaders(draft, loop) if is_place(size)]
            yield from self._drawn(draft, loop, sizes, early)
            for given, made in (a for size in sizes for a in built.get(name_of(size), ())):
                if given not in seen and any(same(draft, given, size) for size in sizes):
                    seen.add(given)
                    what = f"{made} is made for batches of this size, and a process has only its share of one"
                    yield self._fixed(draft, given, what, made)
            named = bool(sizes) or "batch_size" in draft.facts.index.attributes
            if not named and not cut:
                continue
            nodes = batch_sizes.nodes(draft, loop)
            yield from self._kept(draft, loop, sizes, nodes)
            if not named:
                continue
            yield from mixed.findings(draft, loop, sizes, nodes, self._said(draft, loop, nodes).keys())
            rows, torn = self._together(draft, loop, sizes, nodes, early)
            for node in torn:
                yield draft.finding(
                    "BATCH-MIXED",
                    Severity.WARNING,
                    node,
                    f"places in a batch are counted out and divided by `{draft.facts.segment(node)}`, the size of the "
                    "whole; a process has only its share of one",
                    "take the number of rows from a tensor, and make the same of it for a share as for the whole",
                )
            inside = set(nodes)
            for node in rows:
                if node in seen:
                    continue
                seen.add(node)
                other = elsewhere.called(draft, loop, node, inside)
                if other is not None:
                    yield self._elsewhere(draft, node, other)
                else:
                    yield draft.edit(
                        _RULE,
                        node,
                        Operation.SURROUND,
                        "a process sees its share of the batch",
                        "{} // {accelerator}.num_processes",
                        need=Need.STRONG,
                        assumes=_COUNTS,
                    )
            yield from self._made_whole(draft, loop, sizes, seen)
            for node in made_for.shaped(draft, loop, sizes):
                if node not in seen:
                    seen.add(node)
                    what = "the training takes this for its number of rows, and a process has only its share of a batch"
                    yield self._fixed(draft, node, what)
        for given, told in made_for.told(draft):
            if given not in seen:
                seen.add(given)
                what = f"{told} is set up for batches of this size, and a process has only its share of one"
                yield self._fixed(draft, given, what, told)

    def _elsewhere(self, draft: Draft, size: ast.expr, other: ast.Call) -> Finding:
        return draft.finding(
            "BATCH-MIXED",
            Severity.WARNING,
            size,
            f"a process has only its share of a batch, and `{draft.facts.segment(other)}` outside of the training loop "
            "gets as many rows as the whole has, too",
            "hand the function the number of rows that the batch has",
        )

    def _fixed(self, draft: Draft, size: ast.expr, what: str, of: str = made_for.MODEL) -> Finding:
        remedy = "take the number of rows from what forward is given"
        remedy = remedy if of == made_for.MODEL else "hand it the number of rows that the batch has, in the loop"
        return draft.finding("BATCH-MODEL", Severity.WARNING, size, what, remedy)

    def _made_whole(
        self, draft: Draft, loop: BatchLoop, sizes: list[ast.expr], seen: set[ast.AST]
    ) -> Iterator[Finding]:
        """What is made for whole batches before the loop, in ways that are not followed to where it meets a share."""
        asking: dict[ast.Call, ast.expr] = {}
        for call in draft.facts.index.calls:
            if (draft.facts.resolver.qualified(call.func) or "").rpartition(".")[2] in DRAWS:
                continue
            for size in said_rows.asked(draft, call):
                if size not in seen and is_place(size) and batch_sizes.is_size(draft, size, loop, sizes):
                    asking[call] = size
        for call in made_before.reaching(draft, loop, list(asking)):
            seen.add(asking[call])
            yield draft.finding(
                "BATCH-MADE",
                Severity.WARNING,
                call,
                f"`{draft.facts.segment(call.func)}` makes as many rows as a whole batch has, and the loss is computed "
                "with them; a process has only its share of a batch",
                "make one row, which fits any number of them, or as many as the batch has, in the loop",
            )

    def _ones(self, draft: Draft, loop: BatchLoop) -> Iterator[Finding]:
        """Loaders that deal one sample at a time."""
        for value in loop.loaders if loop.direct else ():
            size = draft.facts.objects.loader(value).arguments.get("batch_size")
            always = draft.facts.objects.deals_whole(value)
            default = f" (`{draft.facts.segment(size or loop.node)}` is 1 by default)"
            if always or draft.facts.command_line.number(size) == 1:
                made = draft.facts.objects.deals_items(value)
                what = "its data set makes the batches" if made else f"a batch is one sample{'' if always else default}"
                yield draft.finding(
                    "BATCH-ONE",
                    Severity.WARNING if always else Severity.NOTE,
                    loop.node.iter,  # type: ignore[union-attr]
                    f"{what}, which cannot be shared out: every process computes on {'all of them' if made else 'it'}, "
                    "and nothing gets faster",
                    "let the loader make the batches" if made else "use larger batches, or --batch per-process",
                )
                return

    def _literals(self, draft: Draft, loop: BatchLoop, early: EarlyRows) -> Iterator[Edit | Finding]:
        """A batch size that is written out both for the loader and as a number of rows; one finding for all."""
        place: ast.Call | None = None
        sizes = {size.value for size in batch_sizes.of_loaders(draft, loop) if isinstance(size, ast.Constant)}
        inside = [n for statement in loop.body for n in walk(statement)]
        names = [n for n in inside if sizes and isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        before = [n for n in names if early.calls(n) and draft.facts.batches.meets(n, loop)]
        number_of, whole = batch_sizes.number_of, whole_batches.asked(draft, loop)
        compared = (n for n in inside if sizes and isinstance(n, ast.Compare) and n not in whole)
        said = (s for n in compared for s in said_rows.against(draft, loop, n) if number_of(draft, s) in sizes - {1})
        yield from (self._literal(draft, size, number_of(draft, size)) for size in islice(said, 1))
        states = self._states(draft, loop, early, before)
        for node in dict.fromkeys([*inside, *(call for name in before for call in early.calls(name))]):
            if not isinstance(node, ast.Call) or not node.args or not row_numbers.takes(draft, node):
                continue
            shape = node.args[0].elts if isinstance(node.args[0], (ast.Tuple, ast.List)) else node.args
            first = shape[1 if node in states and len(shape) == 3 else 0] if shape else None  # (layers, rows, features)
            number = first.value if isinstance(first, ast.Constant) else None
            if first is None or not isinstance(number, int) or number <= 1 or number not in sizes:
                continue
            place = place or node
            found = self._literal(draft, place, number)
            if own_rows(draft, node, drawn=node not in inside):
                yield found  # fewer of them would be others
                continue
            yield draft.edit(
                _RULE,
                first,
                Operation.SURROUND,
                "a process sees its share of the batch",
                "{} // {accelerator}.num_processes",
                need=Need.STRONG,
                assumes=_NUMBER,
                otherwise=found,
            )

    def _literal(self, draft: Draft, place: ast.expr, number: object) -> Finding:
        return draft.finding(
            "BATCH-LITERAL",
            Severity.WARNING,
            place,
            f"{number} is the batch size of the loader: if it counts samples here, a process has only "
            "its share of them",
            "take the number of rows from the batch itself",
        )

    def _states(self, draft: Draft, loop: BatchLoop, early: EarlyRows, names: list[ast.Name]) -> set[ast.Call]:
        """The calls that make what some variables hold which have the state of a network."""
        owners = {n: draft.facts.index.scope(n).owner(n.id) for n in names}
        states = [n for n, owner in owners.items() if owner is not None and is_state(draft, loop, owner, n.id)]
        return {call for name in states for call in early.calls(name)}

    def _together(
        self, draft: Draft, loop: BatchLoop, sizes: list[ast.expr], nodes: list[ast.AST], early: EarlyRows
    ) -> tuple[list[ast.expr], list[ast.expr]]:
        """The numbers of rows, with all that has to change with them, and what keeps those of its statement from it."""
        rows = list(self._rows(draft, loop, sizes, nodes, early))
        counted = {node: Counted(draft, node, nodes) for node in rows}
        torn = {n: [t for t in c.torn if batch_sizes.is_size(draft, t, loop, sizes)] for n, c in counted.items()}
        kept = {draft.facts.index.statement(node) for node, divisors in torn.items() if divisors}
        rows = [node for node in rows if draft.facts.index.statement(node) not in kept]
        more = (size for node in rows for size in counted[node].changing)
        rows += [size for size in more if batch_sizes.is_size(draft, size, loop, sizes)]
        return rows, list(dict.fromkeys(t for divisors in torn.values() for t in divisors))

    def _rows(
        self, draft: Draft, loop: BatchLoop, sizes: list[ast.expr], nodes: list[ast.AST], early: EarlyRows
    ) -> Iterator[ast.expr]:
        """Expressions that say in the code of a training loop that something has as many rows as a whole batch."""
        shares: set[ast.AST] = set()  # calls that make as many rows as a process has of a batch
        said = self._said(draft, loop, nodes)
        for call in (n for n in nodes if isinstance(n, ast.Call)):
            asked = list(said_rows.asked(draft, call, said.keys()))
            asked += [size for rows in asked if fallbacks.only_rows(draft, rows) for size in fallbacks.of(draft, rows)]
            found = [size for size in asked if batch_sizes.is_size(draft, size, loop, sizes)]
            if found:
                shares.add(call)
                yield from found
        yield from (size for size in said if batch_sizes.is_size(draft, size, loop, sizes))
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                made = [size for size, own in early.sizes(node) if not own]
                made = [size for size in made if batch_sizes.is_size(draft, size, loop, sizes)]
                made = [] if self._is_store(draft, node, loop) else made
                if made and draft.facts.batches.meets(node, loop, shares):
                    yield from made

    def _said(self, draft: Draft, loop: BatchLoop, nodes: list[ast.AST]) -> dict[ast.expr, None]:
        """What is taken for the number of rows of tensors, but for tests that ask for the rows of all processes."""
        whole = whole_batches.asked(draft, loop)
        return dict.fromkeys(said_rows.said(draft, loop, (n for n in nodes if n not in whole)))

    def _kept(self, draft: Draft, loop: BatchLoop, sizes: list[ast.expr], nodes: list[ast.AST]) -> Iterator[Finding]:
        """What is filled batch by batch, from one training step to the next: `bank = cat([bank[batch_size:], new])`."""
        written = {batch_sizes.number_of(draft, size) for size in batch_sizes.of_loaders(draft, loop)} - {None, 1}
        for node in (n for n in nodes if isinstance(n, ast.Subscript)):
            cuts = [n for n in walk(node.slice) if isinstance(n, ast.Slice)]
            parts = [n for cut in cuts for n in walk(cut) if isinstance(n, ast.expr) and is_place(n)]
            rows = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            numbers = [n for n in walk(rows) if isinstance(n, ast.Constant)] if rows in cuts else []
            if not any(batch_sizes.is_size(draft, part, loop, sizes) for part in parts):
                if not any(number.value in written for number in numbers):
                    continue
            statement = draft.facts.index.statement(node)
            if isinstance(statement, ast.Assign) and self._is_filled(draft, loop, statement, node):
                yield draft.finding(
                    "BATCH-KEPT",
                    Severity.WARNING,
                    node,
                    f"`{draft.facts.segment(node)}` is filled with as many rows as a whole batch has, and a process "
                    "has only its share of one",
                    "take the number of rows from what is put in, and gather that first if it is to hold all",
                )
                return

    def _is_store(self, draft: Draft, name: ast.Name, loop: BatchLoop) -> bool:
        """Whether a variable is set in a training loop to something that has a part of itself."""
        return any(
            b.value is not None
            and loop.node in draft.facts.index.ancestors(b.node)
            and any(isinstance(n, ast.Subscript) and name_of(n.value) == name.id for n in walk(b.value))
            for b in draft.facts.resolver.bindings(name)
        )

    def _is_filled(self, draft: Draft, loop: BatchLoop, statement: ast.Assign, node: ast.AST) -> bool:
        """Whether a statement puts something of a batch where a part of it is taken, or beside that."""
        base = node.value if isinstance(node, ast.Subscript) else None
        again = [name_of(t) for t in statement.targets if is_place(t)]
        stored = node in statement.targets or (base is not None and name_of(base) in again and name_of(base) != "")
        names = (n for n in walk(statement.value) if isinstance(n, ast.Name) and n is not base)
        return stored and any(draft.facts.batches.is_from(name, loop, ()) for name in names)

    def _drawn(self, draft: Draft, loop: BatchLoop, sizes: list[ast.expr], early: EarlyRows) -> Iterator[Finding]:
        """Rows for a whole batch that have numbers of their own, and meet a share of it; most are random, and drawn
        before the loop.

        They are left as they are: fewer of them would be others, and would change all that are drawn after them.
        """
        for node in (n for statement in loop.body for n in walk(statement)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                rows = [
                    size for size, own in early.sizes(node) if own and batch_sizes.is_size(draft, size, loop, sizes)
                ]
                rows = rows if rows and draft.facts.batches.meets(node, loop) else []
                made = node.id
            elif isinstance(node, ast.Call) and own_rows(draft, node, drawn=False):
                rows = [s for s in row_numbers.given(draft, node) if batch_sizes.is_size(draft, s, loop, sizes)]
                made = draft.facts.segment(node)
            else:
                continue
            if rows:
                yield draft.finding(
                    "BATCH-DRAWN",
                    Severity.WARNING,
                    rows[0],
                    f"`{made}` has numbers of its own for each row of a whole batch, and a process has only its share "
                    "of one",
                    "draw or make them in the loop, for as many rows as the batch has",
                )
                return
