"""What a loop measures of its batches, computed from the rows of all processes: labels and predictions in lists, and
numbers that are no mean or sum over the samples."""

from __future__ import annotations

import ast

from accelift_codemod.batches import padding
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, How, Kind, position
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.index import Binding
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.showing import is_on_a_bar, is_shown
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.measured.averaging import is_detached
from accelift_codemod.measured.carrying_objects import led
from accelift_codemod.measured.counting import (
    GATHERED,
    MEAN_OF_ALL,
    RULE,
    WHY,
    count_of_all,
    counted_in,
    of_all,
    sum_of_all,
)
from accelift_codemod.measured.filling import FILLING, filled, given_to
from accelift_codemod.measured.numbers import number_of
from accelift_codemod.plan import Edit, Need, Operation

_TENSORS = (Layout.ROWS, Layout.MEAN, Layout.SUM)
# What is reduced where it is read, and not where it is computed.
_REDUCED = (Layout.MEAN, Layout.WEIGHTED, Layout.SUM, Layout.COUNT)
_SEVERAL = (ast.Tuple, ast.List, ast.Dict, ast.JoinedStr)


def from_all_rows(draft: Draft, loop: BatchLoop, statement: ast.stmt, value: ast.expr, local: set[str]) -> list[Edit]:
    """The edits that make an expression what one process computes, by gathering the tensors with a row for each sample
    that it is computed from.

    Empty unless everything of a share in it comes from such tensors, perhaps by variables that only measure, as what
    the statement sets does: rows of all samples are nowhere computed with beside those of a share.
    """
    if not draft.runtime or not padding.alike(draft, loop):
        return []
    rows = _Rows(draft, loop, statement, local)
    return rows.edits if rows.only_measures() and rows.joins(value, statement) else []


def computed_with(draft: Draft, read: ast.expr) -> ast.expr:
    """The largest expression around a read that computes one thing: of several in a tuple or a text, its own."""
    parent = draft.facts.index.parents[read]
    while isinstance(parent, (ast.expr, ast.keyword)) and not isinstance(parent, _SEVERAL):
        if isinstance(parent, ast.Call) and _shows_each(draft, parent):
            break
        read = parent if isinstance(parent, ast.expr) else read
        parent = draft.facts.index.parents[parent]
    return read


def _shows_each(draft: Draft, call: ast.Call) -> bool:
    """Whether a call shows what it is given, one by one: `print`, `"{} {}".format`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "format":
        return True
    resolver = draft.facts.resolver
    return is_shown(resolver, call) or is_on_a_bar(resolver, call)


class _Rows:
    """Gathers what an expression of a statement is computed from."""

    def __init__(self, draft: Draft, loop: BatchLoop, statement: ast.stmt, local: set[str]) -> None:
        self.draft = draft
        self.loop = loop
        self.statement = statement
        self.local = local
        self.edits: list[Edit] = []
        self.joined = {statement}  # that compute from all rows

    def joins(self, node: ast.AST, place: ast.stmt) -> bool:
        """Whether an expression is that of all processes, once the edits are made."""
        if not any(isinstance(n, ast.Name) and n.id in self.local for n in walk(node)):
            return True
        if isinstance(node, ast.Lambda):
            return False  # somebody else calls it, when its variables may hold something else
        if isinstance(node, ast.expr):
            layout = self._layout(node, place)
            if layout in _TENSORS and self.draft.facts.kinds.of(node) is Kind.TENSOR:
                return self._gathers(node, layout)
            counted = counted_in(node) if layout is Layout.COUNT else None
            if counted is not None and self.draft.facts.kinds.of(counted) is Kind.TENSOR:
                return self._counts(node, place)
        if isinstance(node, ast.Name):
            return self._is_reduced(node, place) or self._is_joined(node, place)
        if isinstance(node, ast.Call) and self.draft.facts.objects.models(node.func):
            return False
        return all(self.joins(child, place) for child in ast.iter_child_nodes(node))

    def _layout(self, node: ast.expr, place: ast.stmt) -> object:
        env = self.draft.environment(self.loop, place)
        return self.draft.facts.layouts.read(node, env) if env is not None else None

    def _gathers(self, node: ast.expr, layout: object) -> bool:
        if layout is not Layout.ROWS and not self._needs_no_gradient(node):
            return False
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cpu":
            node = node.func.value  # rows travel faster between devices
        reduced = sum_of_all(self.draft, node) if layout is Layout.SUM else MEAN_OF_ALL
        code = GATHERED if layout is Layout.ROWS else reduced
        self.edits.append(self.draft.edit(RULE, node, Operation.SURROUND, WHY, code, need=Need.STRONG))
        return node not in led(self.draft, self.loop)

    def _needs_no_gradient(self, node: ast.expr) -> bool:
        """Whether gradients surely end at a tensor, or it is handed to a function of the script, which can be read."""
        call = self.draft.facts.index.parents[node]
        handed = isinstance(call, ast.Call) and self.draft.facts.resolver.callee(call) is not None
        number = isinstance(call, ast.Attribute) and call.attr == "item"
        return number or handed or is_detached(node) or self.draft.gradients_off(node)

    def _counts(self, node: ast.expr, place: ast.stmt) -> bool:
        env = self.draft.environment(self.loop, place)
        made = list(count_of_all(self.draft, self.loop, node, env)) if env is not None else []
        self.edits += made
        return bool(made)

    def _is_reduced(self, name: ast.Name, place: ast.stmt) -> bool:
        """Whether a variable holds one of several numbers that a function returns, which is made that of all alone."""
        unpacked = any(binding.path for binding in self.draft.facts.resolver.bindings(name))
        code = of_all(self.draft, self.loop, name, self._layout(name, place)) if unpacked else ""
        if code:
            self.edits.append(self.draft.edit(RULE, name, Operation.SURROUND, WHY, code, need=Need.STRONG))
        return bool(code)

    def _is_joined(self, name: ast.Name, place: ast.stmt) -> bool:
        """Whether a variable can be computed from all rows, of which nothing is known or what no others reduce."""
        bindings = self.draft.facts.resolver.bindings(name)
        binding = bindings[0] if len(bindings) == 1 and bindings[0].how is How.ASSIGN else None
        if binding is None or binding.value is None or binding.value in led(self.draft, self.loop):
            return False
        alone = self.draft.facts.loads(binding.scope, name.id) == [name]
        if not alone and self._layout(name, place) in _REDUCED and self._is_reduced_elsewhere(name, binding.value):
            return False
        made = self.draft.facts.index.statement(binding.node)
        if not self._comes_before(made, place) or not self._sets_measures(made, binding):
            return False
        if any(_runs_networks(self.draft, function) for function in self.draft.blueprint.timeline.calls_into(made)):
            return False
        self.joined.add(made)
        return self.joins(binding.value, made)

    def _is_reduced_elsewhere(self, name: ast.Name, made: ast.expr) -> bool:
        """Whether a mean, a sum or a count may be reduced where it is read: not one of an array."""
        of_array = self.draft.facts.kinds.of(name) is Kind.PLAIN and number_of(self.draft, made) is None
        return not of_array or self._layout(name, self.draft.facts.index.statement(name)) is Layout.COUNT

    def _comes_before(self, made: ast.stmt, place: ast.stmt) -> bool:
        """Whether an iteration has come by one statement when it comes to another one."""
        index = self.draft.facts.index
        around = [s for s in (place, *index.ancestors(place)) if isinstance(s, ast.stmt)]
        inside = around[: around.index(self.loop.node)] if self.loop.node in around else []
        blocks = [index.block(s)[0] for s in inside]
        return position(made) < position(place) and any(index.block(made)[0] is block for block in blocks)

    def only_measures(self) -> bool:
        """Whether what the statement sets or fills is computed with by the loop beside nothing else of a share."""
        facts, node = self.draft.facts, self.loop.node
        scope = facts.index.scope(self.statement)
        names = stores(self.statement) | filled(self.draft, self.statement, self.local)
        owners = {name: scope.owner(name) for name in names}
        reads = (n for name, owner in owners.items() if owner is not None for n in facts.loads(owner, name))
        inside = (n for n in reads if node in facts.index.ancestors(n))
        return all(self._measures(load, names) for load in inside)

    def _sets_measures(self, made: ast.stmt, binding: Binding) -> bool:
        """The same of a statement that computes something for it: and whatever reads that, puts it into objects, adds
        it up or shows it."""
        if not isinstance(made, (ast.Assign, ast.AnnAssign)):
            return False
        bound = (part for t in targets(made) for part in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t]))
        if not all(isinstance(part, ast.Name) for part in bound):
            return False
        facts, names = self.draft.facts, stores(made)
        reads = (load for name in names for load in facts.loads(binding.scope, name))
        near = (n for n in reads if made in {facts.index.statement(b.node) for b in facts.resolver.bindings(n)})
        return all(self._measures(load, names) for load in near)

    def _measures(self, load: ast.Name, names: set[str]) -> bool:
        """Whether a statement only keeps or shows what it reads there, and computes it with nothing else of a share."""
        statement = self.draft.facts.index.statement(load)
        if self._is_counted(load, statement):
            return False
        if statement in self.joined or not self.joined.isdisjoint(self.draft.facts.index.ancestors(statement)):
            return True
        own = stores(statement) | filled(self.draft, statement, self.local)
        if not isinstance(statement, (ast.Expr, ast.AugAssign)) and not (isinstance(statement, ast.Assign) and own):
            return False
        beside = self._of_share(computed_with(self.draft, load), statement)
        return isinstance(statement, FILLING) and beside <= {*names, *own}

    def _is_counted(self, load: ast.Name, statement: ast.stmt) -> bool:
        """Whether a number of samples is asked for, which others make that of all processes by itself."""
        around = [
            n
            for n in self.draft.facts.index.ancestors(load)
            if isinstance(n, ast.expr) and statement in self.draft.facts.index.ancestors(n)
        ]
        counts = [n for n in around if self._layout(n, statement) is Layout.COUNT]
        return bool(counts) and (statement not in self.joined or counts[-1] in given_to(statement))

    def _of_share(self, node: ast.AST, place: ast.stmt) -> set[str]:
        """The variables with something of a share that an expression reads, but for numbers of samples."""
        if isinstance(node, ast.expr) and self._layout(node, place) is Layout.COUNT:
            return set()
        if isinstance(node, ast.Name):
            return {node.id} & self.local
        return {name for child in ast.iter_child_nodes(node) for name in self._of_share(child, place)}


def _runs_networks(draft: Draft, node: ast.AST) -> bool:
    calls = (n for n in walk(node) if isinstance(n, ast.Call))
    return any(draft.facts.objects.models(call.func) for call in calls)
