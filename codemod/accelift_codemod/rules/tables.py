"""Reports tables that a training loop fills, of which every process has its own samples only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance.noise import alike
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Binding, How, Role, position
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS, Function, Scope
from accelift_codemod.facts.memo import kept, memoised
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.following.keys import apart, read, stored
from accelift_codemod.following.onward import is_within, reached
from accelift_codemod.measured.anew import bound_anew
from accelift_codemod.measured.carrying_objects import carried
from accelift_codemod.measured.counting import RULE as REDUCES
from accelift_codemod.measured.pools import pooled
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rows.states import is_state
from accelift_codemod.rules import Explained, Rule

_DEALS = frozenset({Role.LOADER, Role.DATASET})
_DATA = "torch.utils.data."
_LISTS = frozenset({"append", "appendleft", "extend", "insert"})
# What sets all that is there, and adds nothing to it.
_REPLACE = frozenset(
    {"resize_", "resize_as_", "set_", "copy_", "index_copy_", "scatter_", "masked_scatter_", "index_put_", "fill_"}
)


class Tables(Rule):
    """Reports a tensor outside of a training loop that the loop writes entries of, if it has a part in the training.

    Class centres that a later loss is measured from, scores of samples that a sampler draws by, refined labels in a
    data set, a queue of keys: each process writes what its own share of a batch gives.
    """

    code = "TABLE"
    name = "tables that a training loop fills"
    findings = (
        Explained(
            "TABLE-OWN",
            Severity.WARNING,
            "every process fills a table with its own share",
            "A training loop writes what it computes from a batch into entries of a tensor, a list or a data set that "
            "lies outside of it, or joins it to a tensor that it goes on with, and a later loss, a sampler or a data "
            "set reads them: class centres, a queue of keys, a pool of earlier images, the losses of samples that a "
            "sampler weighs, refined labels. Each process writes what its own share gives, and knows nothing of the "
            "other samples. Gather the values and the indices before they are written. Of a pool of earlier "
            "samples it is a note: what is drawn from each process's own is another draw of samples.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        if draft.facts.processes.managed:
            return
        seen: set[str] = set()
        for loop in draft.blueprint.train_loops:
            if loop in draft.blueprint.handmade or not draft.blueprint.shares_batches(loop) or alike(draft, loop):
                continue
            outer = _Outer(draft, loop)
            for node in (n for statement in loop.body for n in walk(statement)):
                written = self._written(draft, outer, node)
                if written is None or written.id in seen or _is_reduced(draft, node) or _is_of_all(draft, loop, node):
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

            for call, owner, mixes in pooled(draft, loop):
                if owner.id not in seen and call not in carried(draft, loop):  # which keeps a number, and is told of
                    seen.add(owner.id)
                    yield self._pools(draft, call, owner, mixes)

    def _pools(self, draft: Draft, call: ast.Call, owner: ast.Name, mixes: bool) -> Finding:
        """What is told of an object that keeps samples, or `mixes` what it has with them."""
        does, others, accept = ("keeps samples of", "samples", "accept it as another draw of samples, or ")
        if mixes:
            does, others, accept = ("goes on with what is in", "numbers", "")
        return draft.finding(
            "TABLE-OWN",
            Severity.WARNING if mixes else Severity.NOTE,
            call,
            f"`{draft.facts.segment(owner)}` {does} the process's own share of the batch, and a later loss is computed "
            f"with what it gives back: every process would have other {others} there",
            f"{accept}give it what all processes have: accelerator.gather(...)",
        )

    def _written(self, draft: Draft, outer: _Outer, node: ast.AST) -> ast.Name | None:
        """The table that a node writes into, if the training reads it later."""
        loop = outer.loop
        if isinstance(node, (ast.Assign, ast.AugAssign)) and self._goes_on(draft, outer, node):
            return _table(targets(node)[0])
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            for target in filter(_is_entry, targets(node)):
                places = [n.slice for n in walk(target) if isinstance(n, ast.Subscript)]
                grows = isinstance(node, ast.AugAssign)
                given = [node.value, *(places if grows else [])]
                if self._keeps(draft, loop, target, given, node.value, grows):
                    return _table(target)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        if draft.facts.resolver.qualified(node.func) is not None:
            return None  # a function of a module, which keeps nothing: `np.append(seen, x)`
        table, name = _table(node.func.value), node.func.attr
        if table is node.func.value and Role.DATASET in draft.facts.resolver.roles(table):
            return table if _fills(draft, node) and any(map(draft.facts.by_hand.of_batch, node.args)) else None
        if _is_in_place(name):
            grows = name not in _REPLACE
            if self._keeps(draft, loop, node.func.value, node.args, node, grows):
                return table
        if name in _LISTS and isinstance(table, ast.Name) and table is node.func.value:
            owner = draft.facts.index.scope(table).owner(table.id)
            told = _is_told(draft, table) or (owner is not None and outer.empties((owner, table.id)))
            return table if not told and self._keeps(draft, loop, table, node.args[-1:], node, True) else None
        return None

    def _goes_on(self, draft: Draft, outer: _Outer, node: ast.Assign | ast.AugAssign) -> bool:
        """Whether a statement makes a tensor of what an iteration before left, and of the batch: a queue of keys."""
        target, index, loop = targets(node)[0], draft.facts.index, outer.loop
        owner = index.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
        if len(targets(node)) > 1 or not isinstance(target, ast.Name) or owner is None:
            return False
        reaching, variable = draft.facts.resolver.reaching, (owner, target.id)
        if not outer.binds(variable) or not outer.matters(variable):
            return False
        read = outer.behind(node.value)
        own = [target] if isinstance(node, ast.AugAssign) else [n for n in read if n.id == target.id]
        left = [n for n in own if not all(_is_in(draft, loop, b.node) for b in reaching(n, owner))]
        if isinstance(loop.node, ast.comprehension) or all(bound_anew(draft, loop.node, n) for n in left):
            return False
        if outer.empties(variable) or _is_told(draft, target) or outer.is_state(variable):
            return False
        if not draft.facts.by_hand.of_batch(node.value) or not any(_is_dealt(draft, loop, n) for n in read):
            return False
        return _is_read(draft, loop, target, target, node.value, True)

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


def _is_reduced(draft: Draft, node: ast.AST) -> bool:
    """Whether what a statement puts there has been made that of all processes."""
    return isinstance(node, ast.stmt) and any(e.rule == REDUCES for n in walk(node) for e in draft.edits_at(n))


def _is_of_all(draft: Draft, loop: BatchLoop, node: ast.AST) -> bool:
    """Whether all that a node reads of an iteration has been made that of all processes where it was bound."""
    bound = (b for n in loads(node) for b in draft.facts.resolver.bindings(n) if _is_in(draft, loop, b.node))
    here = [None if b.how is How.LOOP else draft.facts.index.statement(b.node) for b in bound]
    others = [statement for statement in here if statement is not node]
    return bool(others) and all(s is not None and _is_reduced(draft, s) for s in others)


class _Outer:
    """What there is before an iteration of a loop, and what becomes of it there."""

    def __init__(self, draft: Draft, loop: BatchLoop) -> None:
        self.draft = draft
        self.loop = loop

    @memoised
    def binds(self, variable: tuple[Scope, str]) -> bool:
        """Whether a variable is bound outside of the loop, too."""
        owner, name = variable
        return not all(_is_in(self.draft, self.loop, b.node) for b in owner.bindings[name])

    @memoised
    def matters(self, variable: tuple[Scope, str]) -> bool:
        """Whether something that has a part in the training may be made of a variable."""
        parents = self.draft.facts.index.parents
        loads = self.draft.facts.loads(*variable)
        starts = [n for n in loads if not (isinstance(a := parents[n], ast.AugAssign) and a.target is n)]
        return _has_part(self.draft, self.loop, starts)

    @memoised
    def is_state(self, variable: tuple[Scope, str]) -> bool:
        """Whether a variable has the state of a network, of which each process needs that of its own rows."""
        return is_state(self.draft, self.loop, *variable)

    @memoised
    def empties(self, variable: tuple[Scope, str]) -> bool:
        """Whether the loop begins anew with what it keeps in a variable: what it has kept until then is of one step."""
        owner, name = variable
        clears = self.draft.facts.index.methods.get("clear", [])
        if any(isinstance(c.func, ast.Attribute) and ast.unparse(c.func.value) == name for c in clears):
            return True
        bound = (b for b in owner.bindings[name] if b.how is not How.AUGMENT and b.value is not None)
        inside = [b.value for b in bound if b.value is not None and _is_in(self.draft, self.loop, b.node)]
        return any(all(n.id != name for n in self.behind(value)) for value in inside)

    def behind(self, value: ast.expr) -> list[ast.Name]:
        """The variables that an expression is computed from, through what the loop binds."""
        queue = [n for n in walk(value) if isinstance(n, ast.Name)]
        seen: set[Binding] = set()
        found: list[ast.Name] = []
        while queue:
            name = queue.pop()
            found.append(name)
            new = self._bound(name) - seen
            seen |= new
            queue += [n for b in new for n in walk(b.value or b.node) if isinstance(n, ast.Name)]
        return found

    @memoised
    def _bound(self, name: ast.Name) -> frozenset[Binding]:
        """What the loop may have bound to a variable where it is read, but for what is that of all processes."""
        bindings = (b for b in self.draft.facts.resolver.bindings(name) if b.value is not None)
        inside = [b for b in bindings if _is_in(self.draft, self.loop, b.node)]
        return frozenset(b for b in inside if not _is_reduced(self.draft, self.draft.facts.index.statement(b.node)))


def _is_entry(target: ast.expr) -> bool:
    return isinstance(target, ast.Subscript)


def _table(place: ast.expr) -> ast.Name | None:
    """The variable that something is written into: `centres[k]`, `data.targets[i]`, `mean.mul_(0.9)` before `.add_`."""
    node = place
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        if isinstance(node, ast.Call):  # `centre.mul_(0.9).add_(mean)`
            if not isinstance(node.func, ast.Attribute) or not _is_in_place(node.func.attr):
                return None
            node = node.func
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _is_in(draft: Draft, loop: BatchLoop, node: ast.AST) -> bool:
    return loop.node in draft.facts.index.ancestors(node)


def _is_dealt(draft: Draft, loop: BatchLoop, name: ast.Name) -> bool:
    """Whether a variable is of a batch that a loop draws, not of one that was there before it."""
    bound = (b for b in draft.facts.resolver.bindings(name) if _is_in(draft, loop, b.node))
    drawn = any(b.how is How.LOOP or isinstance(b.value, ast.Call) for b in bound)
    return drawn and any(v.role in (Role.BATCH, Role.DATA) for v in draft.facts.resolver.values(name))


def _is_told(draft: Draft, table: ast.Name) -> bool:
    """Whether it has been said that what a variable holds decides on the training (see train_metrics.py)."""
    told = (f.message for f in draft.findings if f.code == "COLL-RANKFLOW")
    return any(message.startswith(f"`{table.id}` is measured") for message in told)


def _is_outside(draft: Draft, loop: BatchLoop, table: ast.Name) -> bool:
    """Whether a variable is bound outside of a loop, to nothing of a batch."""
    bindings = draft.facts.resolver.bindings(table)
    inside = (loop.node in draft.facts.index.ancestors(b.node) for b in bindings)
    return bool(bindings) and not any(inside) and not draft.facts.by_hand.of_batch(table)


def _is_read(draft: Draft, loop: BatchLoop, table: ast.Name, place: ast.expr, value: ast.expr, grows: bool) -> bool:
    """Whether a later loss is computed with a table, or what deals samples is made of it, or is the table."""
    if Role.DATASET in draft.facts.resolver.roles(table):
        return True
    own, inside = set(walk(place)), draft.inside(loop.node)
    reads = [n for n in draft.facts.loads_of(table) if n not in own and not _is_elsewhere(draft, n, place)]
    grows = grows or any(n in reads and n in inside for n in walk(value))
    here = position(place)
    kept = (n for n in reads if grows or position(n) < here or n not in inside or _is_of_earlier(draft, loop, n, place))
    return _has_part(draft, loop, list(kept))


def _is_of_earlier(draft: Draft, loop: BatchLoop, load: ast.Name, place: ast.expr) -> bool:
    """Whether a later line may read what an earlier pass has written: a table is filled in some, `if epoch == 0:`."""
    index, above = draft.facts.index, {*draft.facts.index.ancestors(load)}
    node: ast.AST = place
    for parent in index.ancestors(place):
        if isinstance(parent, ast.If) and above.isdisjoint(parent.body if node in parent.body else parent.orelse):
            named = [n for n in walk(parent.test) if isinstance(n, ast.Name)]
            if all(n.id != load.id for n in named) and any(_counts(draft, loop, n) for n in named):
                return True
        node = parent
    return False


def _counts(draft: Draft, loop: BatchLoop, name: ast.Name) -> bool:
    """Whether a variable counts the iterations of a loop over batches, or of one around it."""
    around = (loop.node, *draft.facts.index.ancestors(loop.node))
    for binding in draft.facts.resolver.bindings(name):
        if binding.how is How.LOOP and draft.facts.index.statement(binding.node) in around:
            return True
        if binding.how is How.PARAMETER:
            given = (n for n in draft.facts.resolver.handed(binding) if isinstance(n, ast.Name))
            if any(b.how is How.LOOP for n in given for b in draft.facts.resolver.bindings(n)):
                return True
    return False


def _is_elsewhere(draft: Draft, load: ast.Name, place: ast.expr) -> bool:
    """Whether a table is only written where a variable is loaded, or another entry of a dict is read than a place."""
    part, index = draft.facts.index.parents[load], draft.facts.index
    if not isinstance(part, ast.Subscript) or part.value is not load:
        return False
    if isinstance(part.ctx, ast.Store):
        return isinstance(index.parents[part], (ast.Assign, ast.AnnAssign))
    return apart(stored(place), read(draft, load))


def _has_part(draft: Draft, loop: BatchLoop, reads: list[ast.Name]) -> bool:
    """Whether a loss of a loop is computed with what it reads, or what deals samples is made of what others read."""
    losses = _losses(draft, loop.node)
    inside = draft.inside(loop.node)
    if losses and any(use in losses for use in reached(draft, [n for n in reads if n in inside])):
        return True
    return any(_deals(draft, use) for use in reached(draft, [n for n in reads if n not in inside]))


@kept
def _losses(draft: Draft, loop: ast.AST) -> frozenset[ast.AST]:
    """All that is in the losses of a loop."""
    calls = draft.facts.loops.backwards_in(loop)
    return frozenset(n for c in calls if isinstance(c.func, ast.Attribute) for n in walk(c.func.value))


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
