"""Reports rows that training takes by their place in the batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, How
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.layout.settled import may_run
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured.numbers import number_of
from accelift_codemod.networks.methods import attribute
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rows import tables
from accelift_codemod.rows.placed import Places, is_loss
from accelift_codemod.rules import Explained, Rule

_STEPS = 4  # from a list to where it was filled


class BatchPlaces(Rule):
    """Reports a loss, or a forward pass, of rows that are taken by their place in a batch: `out[:labeled]`.

    A process has some rows of each batch. If the first ones are labelled, say, and the others not, the second process
    would learn from what are no labels. So it is with rows that meet their neighbours: `out.roll(1, 0)`.
    """

    code = "PLACES"
    name = "rows by their place in the batch"
    findings = (
        Explained(
            "BATCH-PLACES",
            Severity.WARNING,
            "takes rows by their place in the batch",
            "The training uses the first rows of each batch, or others by a fixed place, in another way than the rest. "
            "A process has only its share of a batch, with other rows in these places. So it is with labels that are "
            "taken, by the number of the batch, from an array beside the loader, or from a list that a pass over whole "
            "batches has filled. Pieces that chunk, split, narrow or unbind cut from a batch are such rows, too, where "
            "one is taken by its number, or each into its variable; and the first rows of a table that is drawn, or "
            "counts up, before, perhaps in a network: every process takes the same ones for its share.",
        ),
        Explained(
            "BATCH-COMPOSED",
            Severity.WARNING,
            "batches that a sampler of the script composes",
            "A class of the script chooses which samples are in a batch together (episodes, pairs, so many of each "
            "class), and the loss is one that the script computes itself. A process has a part of each batch: if the "
            "loss needs all of it, it is another loss.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for loop in draft.blueprint.train_loops:
            yield from self._beside(draft, loop)
        if draft.options.batch != "global":
            return
        for loop in draft.blueprint.train_loops:
            yield from self._composed(draft, loop)
            places = Places(draft, loop)
            called = (f for statement in loop.body for f in draft.blueprint.timeline.calls_into(statement))
            bodies = [loop.body, *(function.body for function in dict.fromkeys((*called, *places.passes)))]
            for node in (n for body in bodies for statement in body for n in walk(statement)):
                beside = tables.by_places(places, node)
                if (beside or places.is_shift(node) or places.is_piece(node)) and places.meet():
                    continue
                if (beside or places.is_placed(node)) and places.trains(node) and may_run(draft.facts.resolver, node):
                    yield self._placed(draft, node, beside)
                    break  # the other slices say the same

    def _placed(self, draft: Draft, node: ast.AST, beside: bool) -> Finding:
        return draft.finding(
            "BATCH-PLACES",
            Severity.WARNING,
            node,
            f"`{draft.facts.segment(node)}` takes "
            + (
                "the first rows of what is the same for every batch, and a process has only its share of one: every "
                "process takes the same rows"
                if beside
                else "rows by their place in the batch, and a process has only its share of one: other rows are in "
                "these places"
            ),
            "have every process draw whole batches (--batch per-process), or " + _instead(node, beside),
        )

    def _beside(self, draft: Draft, loop: BatchLoop) -> Iterator[Finding]:
        """Rows of an array outside the loader, taken by the number of the batch or of the samples before it."""
        if loop in draft.blueprint.handmade:
            return
        numbers, places = self._numbers(draft, loop), Places(draft, loop)
        for node in (n for statement in loop.body for n in walk(statement)):
            if not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Store):
                continue
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            bounds = [first.lower, first.upper] if isinstance(first, ast.Slice) else []
            counted = [b for b in bounds if b is not None and numbers & {n.id for n in loads(b)}]
            kept = isinstance(first, ast.Name) and first.id in numbers and _is_of_batches(draft, loop, node.value)
            if not kept and (len(counted) != 2 or places.layout(node, node.value) is not Layout.CONST):
                continue
            if places.trains(node) and may_run(draft.facts.resolver, node):
                yield draft.finding(
                    "BATCH-PLACES",
                    Severity.ERROR,
                    node,
                    f"`{draft.facts.segment(node)}` takes what belongs to a batch by the batch's number, and a process "
                    "has only its share of that batch: it is not what belongs to its samples",
                    "put it into the data set, so that the loader deals it with the samples",
                )
                return

    def _composed(self, draft: Draft, loop: BatchLoop) -> Iterator[Finding]:
        """Batches that a class of the script puts together, and a loss that is none of torch's."""
        facts = draft.facts
        for loader in loop.loaders if not facts.processes.managed else ():  # else its batches are its own
            given = facts.objects.composer(loader)
            if given is None or not may_run(facts.resolver, given):
                continue
            if not all(self._is_of_samples(draft, c) for c in facts.loops.backwards_in(loop.node)):
                yield draft.finding(
                    "BATCH-COMPOSED",
                    Severity.WARNING,
                    loop.node,
                    f"`{facts.segment(given)}` says which samples are in a batch together, and a process has only its "
                    "share of them: if the loss compares them, it is another loss",
                    "have every process draw whole batches (--batch per-process) if it does",
                )
                return

    def _is_of_samples(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a backward pass starts from a loss of torch, which is one of each sample if it is against what comes
        with the samples: numbers that are made for a batch (`torch.arange(ways)`) say what is where in it."""
        loss = call.func.value if isinstance(call.func, ast.Attribute) else call
        bound = draft.facts.resolver.bindings(loss) if isinstance(loss, ast.Name) else []
        losses = [b.value for b in bound if isinstance(b.value, ast.Call) and is_loss(draft, b.value.func)]
        targets = [draft.facts.resolver.argument(one, 1, "target") for one in losses]
        dealt = [target is None or draft.facts.by_hand.of_batch(target) for target in targets]
        return bool(bound) and len(losses) == len(bound) and all(dealt)

    def _numbers(self, draft: Draft, loop: BatchLoop) -> set[str]:
        """Variables that count the batches of a loop, or the samples before them, and what is computed from these."""
        node = loop.node
        counts = isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Tuple)
        enumerated = counts and draft.facts.resolver.builtin(node.iter.func) == "enumerate"  # type: ignore[union-attr]
        numbers = stores(node.target.elts[0]) if enumerated else set()  # type: ignore[union-attr]
        for statement in (s for outer in loop.body for s in walk(outer)):
            if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
                each = draft.facts.index.enclosing_loops(statement)[:1] == [node]  # once in an iteration
                numbers |= stores(statement) if each else set()
            elif isinstance(statement, ast.Assign) and numbers & {n.id for n in loads(statement.value)}:
                plain = (ast.Name, ast.BinOp, ast.Constant, ast.operator, ast.expr_context)
                if all(isinstance(n, plain) for n in walk(statement.value)):
                    numbers |= stores(statement)
        return numbers


def _is_of_batches(draft: Draft, loop: BatchLoop, node: ast.expr | None, steps: int = _STEPS) -> bool:
    """Whether an expression is a list that another loop over batches has put tensors into, one for each whole batch: in
    a function that returns it, or that hands it on, too."""
    resolver = draft.facts.resolver
    function = resolver.callee(node) if isinstance(node, ast.Call) and steps else None
    if isinstance(function, FUNCTIONS):
        return any(_is_of_batches(draft, loop, s.value, steps - 1) for s in resolver.returns(function))
    owner = draft.facts.index.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
    if owner is None or not isinstance(node, ast.Name):
        return False
    whole = {n.node for n in (*draft.blueprint.cuts, *draft.blueprint.replicated)} - {loop.node}
    for load in draft.facts.loads(owner, node.id):
        func = draft.facts.index.parents.get(load)
        call = draft.facts.index.parents.get(func) if isinstance(func, ast.Attribute) else None
        if isinstance(func, ast.Attribute) and func.attr == "append" and isinstance(call, ast.Call) and call.args:
            if whole.intersection(draft.facts.index.enclosing_loops(call)) and number_of(draft, call.args[0]) is None:
                return True
    for binding in resolver.bindings(node) if steps else ():
        made = resolver.handed(binding) if binding.how is How.PARAMETER else [] if binding.path else [binding.value]
        if any(_is_of_batches(draft, loop, value, steps - 1) for value in made):
            return True
    return False


def _instead(node: ast.AST, beside: bool) -> str:
    """What could be done instead of taking rows by their place; `beside`, of a table."""
    if not beside:
        return "choose rows by what they are"
    if isinstance(node, ast.Subscript) and attribute(node):
        return "take them by the places in a sequence, if its length was meant"
    return "draw it anew for each, or put it into the data set"
