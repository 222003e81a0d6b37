"""Counts of samples seen so far."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import TypeGuard

from accelift_codemod.chance.noise import all_whole
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Role, library
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Values
from accelift_codemod.following.onward import reads_of
from accelift_codemod.measured.dividing import Dividing
from accelift_codemod.plan import Edit, Finding, Need, Operation
from accelift_codemod.rules import Rule

_RULE = "SEEN"


class Counts(Rule):
    """Multiplies "samples seen so far", the number of the batch times its size, by the number of processes, and so what
    a progress bar with a total goes on by: `bar.update(len(data))`.

    In a training loop a process holds its share of each batch, so the product would count the samples of one process,
    and so would a sum of whole batches and this one: `batch_idx * args.batch_size + len(data)`.
    It is exact where a batch is dealt evenly; of the last batch, of which the main process may have a sample more than
    others, it may count a few too many. Batches of one sample, which every process gets, are counted as they are. So
    are samples by which something is divided that one process has measured: `correct / ((i + 1) * len(data))`.
    """

    code = _RULE
    name = "samples seen so far"
    before = "print(batch_idx * len(data), len(loader.dataset))\n"
    after = """\
accelerator.print(batch_idx * len(data) * accelerator.num_processes, len(loader.dataset))
"""

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for loop in draft.blueprint.train_loops:
            if all_whole(draft, loop):
                continue  # every process counts all of them
            for size in (n.args[0] for s in loop.body for n in walk(s) if self._advances(n, draft)):
                if self._is_size(draft, size, loop):
                    yield draft.edit(
                        _RULE,
                        size,
                        Operation.SURROUND,
                        "the bar counts the samples of all processes",
                        "{} * {accelerator}.num_processes",
                        need=Need.WEAK,
                    )
            dividing = Dividing(draft, loop)
            for body, indices in _numbered(draft, loop):
                for node in (n for s in body for n in walk(s)):
                    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                        if self._is_seen(draft, loop, node, indices) and not dividing.a_share(node):
                            yield draft.edit(
                                _RULE,
                                node,
                                Operation.SURROUND,
                                "every process has seen as many samples",
                                "{} * {accelerator}.num_processes",
                                need=Need.WEAK,
                            )
                    if (
                        isinstance(node, ast.BinOp)
                        and isinstance(node.op, ast.Add)
                        and (added := self._added(draft, loop, node, indices)) is not None
                        and not dividing.a_share(node)
                        and not _is_a_place(draft, node)
                    ):
                        yield draft.edit(
                            _RULE,
                            added,
                            Operation.SURROUND,
                            "the other batches are counted whole",
                            "{} * {accelerator}.num_processes",
                            need=Need.WEAK,
                        )

    def _added(self, draft: Draft, loop: BatchLoop, total: ast.BinOp, indices: set[str]) -> ast.expr | None:
        """The size of the batch, if a sum adds it to so many samples for each batch before: `i * 64 + len(data)`."""
        for product, size in ((total.left, total.right), (total.right, total.left)):
            if (
                isinstance(product, ast.BinOp)
                and isinstance(product.op, ast.Mult)
                and any(isinstance(n, ast.Name) and n.id in indices for n in (product.left, product.right))
                and self._is_size(draft, size, loop)
            ):
                return size
        return None

    def _is_seen(self, draft: Draft, loop: BatchLoop, product: ast.BinOp, indices: set[str]) -> bool:
        """Whether a product is the number of a batch times its size."""
        for number, size in ((product.left, product.right), (product.right, product.left)):
            if any(_is_number(number, index) for index in indices) and self._is_size(draft, size, loop):
                return True
        return False

    def _advances(self, node: ast.AST, draft: Draft) -> TypeGuard[ast.Call]:
        """Whether a node tells a progress bar, which knows how much there is in all, by how much it goes on."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update"):
            return False
        values = draft.facts.resolver.values(node.func.value)
        bars = bool(values) and all(v.role is Role.ITERATOR and v.name in library.TQDM for v in values)
        whole = (isinstance(v.origin, ast.Call) and any(k.arg == "total" for k in v.origin.keywords) for v in values)
        return bars and len(node.args) == 1 and all(whole)

    def _is_size(self, draft: Draft, node: ast.expr, loop: BatchLoop) -> bool:
        """Whether an expression is the number of rows of a part of the loop's batch."""
        tensor: ast.expr | None = None
        if isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "len" and len(node.args) == 1:
            tensor = node.args[0]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
            first = node.args[0] if len(node.args) == 1 else None
            tensor = node.func.value if isinstance(first, ast.Constant) and first.value == 0 else None
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            zero = isinstance(node.slice, ast.Constant) and node.slice.value == 0
            tensor = node.value.value if zero else None
        if isinstance(tensor, ast.Name):
            env = draft.environment(loop, node)
            shape = draft.facts.layouts.read(tensor, env) if env is not None else Layout.BATCH
            if shape not in (Layout.ROWS, Layout.BATCH):
                return False  # a part of the batch
            if shape is Layout.ROWS and draft.facts.resolver.only(tensor, Role.DATA):
                return True  # computed from it: `x = x.view(x.size(0), -1)`
        values = draft.facts.resolver.values(tensor)
        return bool(values) and all(
            v.role is Role.BATCH and any(part in loop.loaders for inner in v.inner for part in inner) for v in values
        )


def _numbered(draft: Draft, loop: BatchLoop) -> Iterator[tuple[list[ast.stmt], set[str]]]:
    """The body of a loop, and of the functions that only its iterations call, with what numbers the batches there."""
    queue = [(loop.body, {name for name in (_index(draft, loop), *_counters(loop)) if name is not None})]
    known: list[ast.AST] = [loop.node]
    for body, indices in queue:
        if not indices:
            continue
        yield body, indices
        for call in (n for s in body for n in walk(s) if isinstance(n, ast.Call)):
            function = draft.facts.resolver.callee(call)
            if (
                not isinstance(function, FUNCTIONS)
                or function in known
                or len(draft.facts.resolver.sites(function)) != 1
            ):
                continue
            known.append(function)
            given = (draft.facts.resolver.bind(call, function) or {}).items()
            handed = {name for name, a in given if isinstance(a, ast.Name) and a.id in indices}
            bound = {n.id for s in function.body for n in walk(s) if isinstance(n, ast.Name) and not _is_load(n)}
            queue.append((function.body, handed - bound))


def _is_a_place(draft: Draft, number: ast.expr) -> bool:
    """Whether a number, or the variable that it is kept in, says where something is: `kept[i * 16 : i * 16 + n]`."""
    statement = draft.facts.index.statement(number)
    kept = isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is number
    return any(
        isinstance(parent, ast.Subscript) and child is parent.slice
        for read in (number, *(reads_of(draft, statement) if kept else ()))
        for child, parent in pairwise((read, *draft.facts.index.ancestors(read)))
    )


def _is_load(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _is_number(node: ast.expr, index: str) -> bool:
    """The number of the batch, from 0 or from 1, or so many times it: `i`, `i + 1`, `100. * i`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        if isinstance(node.left, ast.Constant):
            return _is_number(node.right, index)
        if isinstance(node.right, ast.Constant):
            node = node.left
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):
        node = node.left
    return isinstance(node, ast.Name) and node.id == index


def _index(draft: Draft, loop: BatchLoop) -> str | None:
    """The name that numbers the batches of a loop."""
    node = loop.node
    if not isinstance(node, (ast.For, ast.AsyncFor)) or not isinstance(node.target, ast.Tuple):
        return None
    if not _is_numbered(draft.facts.resolver.values(node.iter)):
        return None
    first = node.target.elts[0]
    return first.id if isinstance(first, ast.Name) else None


def _is_numbered(values: Values) -> bool:
    """Whether what is iterated over is `enumerate(...)`, perhaps shown by a bar: `tqdm(enumerate(loader))`."""
    shown = (v.role is Role.ITERATOR and len(v.inner) == 1 and _is_numbered(v.inner[0]) for v in values)
    return bool(values) and all(v.role is Role.ENUMERATE or inside for v, inside in zip(values, shown, strict=True))


def _counters(loop: BatchLoop) -> set[str]:
    """Variables that the loop counts its batches in: one more in every iteration."""
    counted = [
        statement.target.id
        for statement in loop.body
        if isinstance(statement, ast.AugAssign)
        and isinstance(statement.op, ast.Add)
        and isinstance(statement.target, ast.Name)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value == 1
    ]
    skips = any(isinstance(n, ast.Continue) for statement in loop.body for n in walk(statement))
    bound = [n.id for s in loop.body for n in walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return set() if skips else {name for name in counted if bound.count(name) == 1}
