"""Reports tables that a training loop fills, of which every process has its own samples only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Role, position
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured.onward import is_within, reached, targets
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_DEALS = frozenset({Role.LOADER, Role.DATASET})
_DATA = "torch.utils.data."
# What sets all that is there, and adds nothing to it.
_REPLACE = frozenset(
    {"resize_", "resize_as_", "set_", "copy_", "index_copy_", "scatter_", "masked_scatter_", "index_put_", "fill_"}
)


class Tables(Rule):
    """Reports a tensor outside of a training loop that the loop writes entries of, if it has a part in the training.

    Class centres that a later loss is measured from, scores of samples that a sampler draws by, refined labels in a
    data set: each process writes what its own share of a batch gives.
    """

    code = "TABLE"
    name = "tables that a training loop fills"
    findings = (
        Explained(
            "TABLE-OWN",
            Severity.WARNING,
            "every process fills a table with its own share",
            "A training loop writes what it computes from a batch into entries of a tensor or a data set that lies "
            "outside of it, and a later loss, a sampler or a data set reads them: class centres, the losses of samples "
            "that a sampler weighs, refined labels. Each process writes what its own share gives, and knows nothing of "
            "the other samples. Gather the values and the indices before they are written.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        if draft.facts.processes.managed:
            return
        seen: set[str] = set()
        for loop in draft.blueprint.train_loops:
            if loop in draft.blueprint.handmade or not draft.blueprint.shares_batches(loop):
                continue
            for node in (n for statement in loop.body for n in walk(statement)):
                written = self._written(draft, loop, node)
                if written is None or written.id in seen:
                    continue
                seen.add(written.id)
                yield draft.finding(
                    "TABLE-OWN",
                    Severity.WARNING,
                    node,
                    f"`{draft.facts.segment(written)}` is given what a process computes from its own share of the "
                    "batch, and the training goes on with it: every process would have something else",
                    "write what all processes have: gather the values and the indices by accelerator.gather",
                )

    def _written(self, draft: Draft, loop: BatchLoop, node: ast.AST) -> ast.Name | None:
        """The table that a node writes into, if the training reads it later."""
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            for target in filter(_is_entry, targets(node)):
                places = [n.slice for n in walk(target) if isinstance(n, ast.Subscript)]
                grows = isinstance(node, ast.AugAssign)
                given = [node.value, *(places if grows else [])]
                if self._keeps(draft, loop, target, given, node.value, grows):
                    return _table(target)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        table, name = _table(node.func.value), node.func.attr
        if table is node.func.value and Role.DATASET in draft.facts.resolver.roles(table):
            return table if _fills(draft, node) and any(map(draft.facts.by_hand.of_batch, node.args)) else None
        if _is_in_place(name):
            grows = name not in _REPLACE
            if self._keeps(draft, loop, node.func.value, node.args, node, grows):
                return table
        return None

    def _keeps(
        self,
        draft: Draft,
        loop: BatchLoop,
        place: ast.expr,
        given: list[ast.expr],
        value: ast.expr,
        grows: bool,
    ) -> bool:
        """Whether a place in a table outside of the loop gets something of the batch that the training reads later."""
        table = _table(place)
        if table is None or not _is_outside(draft, loop, table):
            return False
        return any(map(draft.facts.by_hand.of_batch, given)) and _is_read(draft, loop, table, place, value, grows)


def _is_entry(target: ast.expr) -> bool:
    return isinstance(target, ast.Subscript)


def _table(place: ast.expr) -> ast.Name | None:
    """The variable that something is written into: `centres[k]`, `data.targets[i]`, `mean.mul_(0.9)` before `.add_`."""
    node = place
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        if isinstance(node, ast.Call):
            if not (isinstance(node.func, ast.Attribute) and _is_in_place(node.func.attr)):
                return None
            node = node.func.value
        else:
            node = node.value
    return node if isinstance(node, ast.Name) else None


def _is_in_place(method: str) -> bool:
    return method.endswith("_") and not method.endswith("__")


def _is_outside(draft: Draft, loop: BatchLoop, table: ast.Name) -> bool:
    """Whether a variable is bound outside of a loop, to nothing of a batch."""
    bindings = draft.facts.resolver.bindings(table)
    inside = (loop.node in draft.facts.index.ancestors(b.node) for b in bindings)
    return bool(bindings) and not any(inside) and not draft.facts.by_hand.of_batch(table)


def _is_read(draft: Draft, loop: BatchLoop, table: ast.Name, place: ast.expr, value: ast.expr, grows: bool) -> bool:
    """Whether a later loss is computed with a table, or what deals samples is made of it, or is the table."""
    if Role.DATASET in draft.facts.resolver.roles(table):
        return True
    owner = draft.facts.index.scope(table).owner(table.id)
    loads = draft.facts.loads(owner, table.id) if owner is not None else []
    reads = [n for n in loads if not is_within(draft, n, place)]
    within = [n for n in reads if loop.node in draft.facts.index.ancestors(n)]
    grows = grows or any(is_within(draft, n, value) for n in within)
    earlier = [n for n in within if grows or position(n) < position(place)]
    losses = [c.func.value for c in draft.facts.loops.backwards_in(loop.node) if isinstance(c.func, ast.Attribute)]
    if any(is_within(draft, use, loss) for use in reached(draft, earlier) for loss in losses):
        return True
    return any(_deals(draft, use) for use in reached(draft, [n for n in reads if n not in within]))


def _deals(draft: Draft, use: ast.expr) -> bool:
    """Whether an expression is given to what makes a data set, a sampler or a loader."""
    for parent in draft.facts.index.ancestors(use):
        if isinstance(parent, ast.stmt):
            return False
        if isinstance(parent, ast.Call) and not is_within(draft, use, parent.func):
            if (draft.facts.resolver.qualified(parent.func) or "").startswith(_DATA):
                return True
            if _DEALS & draft.facts.resolver.roles(parent):
                return True
    return False


def _fills(draft: Draft, call: ast.Call) -> bool:
    """Whether a method of a data set writes what it is given into entries of what the object keeps."""
    method = draft.facts.resolver.callee(call)
    if not isinstance(method, FUNCTIONS):
        return False
    given = {p.arg for p in method.args.args[1:]}
    for node in walk(method):
        if isinstance(node, (ast.Assign, ast.AugAssign)) and any(_is_kept(method, t) for t in targets(node)):
            if any(isinstance(n, ast.Name) and n.id in given for n in walk(node.value)):
                return True
    return False


def _is_kept(method: Function, target: ast.expr) -> bool:
    """Whether an assignment writes an entry of an attribute of the object."""
    table = _table(target) if isinstance(target, ast.Subscript) else None
    return table is not None and [table.id] == [p.arg for p in method.args.args[:1]]
