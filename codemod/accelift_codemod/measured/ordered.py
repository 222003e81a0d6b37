"""What an evaluation measures of each batch as a whole: other batches of the same samples come to something else."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelift_codemod.chance.noise import fills
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, How
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import container, targets, walk

_STEPS = 4  # variables, and functions that a number comes from
_KEEPS = frozenset({"append", "update", "add", "extend"})
_ALONG = frozenset({"cpu", "cuda", "detach", "numpy", "to", "double", "float", "data"})
_EXTREMES = frozenset({"max", "min"})
_OF_ONE = frozenset({"round", "int", "abs"})
_HOLDS = frozenset({"torch.tensor", "torch.as_tensor", "numpy.array", "numpy.asarray"})  # a number
_SUMS = frozenset({"sum", "count_nonzero", "nansum"})


def goes_by_batches(draft: Draft, loop: BatchLoop, name: str) -> bool:
    """Whether a loop keeps in a variable, over its iterations, a number of each batch that is no sum over the samples:
    what all of these give depends on which samples are in a batch together."""
    for statement in (n for s in loop.body for n in walk(s) if isinstance(n, ast.stmt)):
        if any(_goes_on(draft, part, name) for part in _chosen(draft, statement, name)):
            return True
        kept = [one for part in _kept(draft, statement, name) for one in _written_out(part)]
        if kept and not any(_is_count(draft, other) for other in kept[1:]):  # `update(loss, len(x))` is a sum
            environment = draft.environment(loop, statement)
            layout = draft.facts.layouts.read(kept[0], environment) if environment is not None else Layout.UNKNOWN
            even = layout is Layout.MEAN and _are_even(draft, loop)
            if not even and layout not in (Layout.SUM, Layout.COUNT) and _is_of_batch(draft, kept[0], _STEPS):
                return True
    return False


def _chosen(draft: Draft, statement: ast.stmt, name: str) -> Iterator[ast.stmt | ast.expr]:
    """What is kept, or counted, only if a number of the batch says so: `if iou(out, y) > 0.5: count += 1`."""
    if isinstance(statement, ast.If) and _weighs(draft, statement.test):
        yield from (n for s in (*statement.body, *statement.orelse) for n in walk(s) if isinstance(n, ast.stmt))
    for part in _kept(draft, statement, name):
        if isinstance(part, ast.IfExp) and _weighs(draft, part.test):
            yield part


def _goes_on(draft: Draft, part: ast.stmt | ast.expr, name: str) -> bool:
    return isinstance(part, ast.expr) or any(True for _ in _kept(draft, part, name))


def _weighs(draft: Draft, test: ast.expr) -> bool:
    """Whether a test compares a number of the batch."""
    sides = (side for n in walk(test) if isinstance(n, ast.Compare) for side in (n.left, *n.comparators))
    return any(_is_of_batch(draft, side, _STEPS) for side in sides)


def _written_out(node: ast.expr) -> list[ast.expr]:
    """The entries of a list that is written out: of `kept += [loss]`."""
    return node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]


def _kept(draft: Draft, statement: ast.stmt, name: str) -> Iterator[ast.expr]:
    """What a statement adds to what a variable holds, and what it is told besides."""
    if isinstance(statement, ast.AugAssign) and _is_of(statement.target, name):
        yield statement.value
    elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        sides = statement.value.left, statement.value.right
        if any(_is_of(target, name) for target in targets(statement)) and any(_is_of(side, name) for side in sides):
            yield from (side for side in sides if not _is_of(side, name))
    elif isinstance(statement, ast.Assign) and isinstance(call := statement.value, ast.Call):
        if draft.facts.resolver.builtin(call.func) in _EXTREMES and any(_is_of(a, name) for a in call.args):
            if any(_is_of(target, name) for target in targets(statement)):
                yield from (part for part in call.args if not _is_of(part, name))
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        func = statement.value.func
        if isinstance(func, ast.Attribute) and func.attr in _KEEPS and _is_of(func.value, name):
            yield from (*statement.value.args, *(k.value for k in statement.value.keywords))


def _is_of(node: ast.expr, name: str) -> bool:
    """Whether an expression is a variable, or an entry of what it holds."""
    held = container(node)
    return isinstance(held, ast.Name) and held.id == name


def _is_of_batch(draft: Draft, node: ast.expr, steps: int) -> bool:
    """Whether an expression is certainly one number that is made of tensors (`iou(out, y).item()`), and neither a sum
    nor a product with a number of samples."""
    if not steps:
        return False
    if isinstance(node, ast.BinOp):
        sides = node.left, node.right
        if isinstance(node.op, ast.Mult) and any(_is_count(draft, side) for side in sides):
            return False
        shared = isinstance(node.op, ast.Div) and _has_sum_of_all(draft, node.right, steps)
        return shared or any(_is_of_batch(draft, side, steps - 1) for side in sides)
    if isinstance(node, ast.Name):
        bound = [b for b in draft.facts.resolver.bindings(node) if b.how is How.ASSIGN and not b.path]
        return _all_of_batch(draft, [b.value for b in bound if b.value is not None], steps)
    if isinstance(node, ast.Compare):
        return any(_is_of_batch(draft, side, steps - 1) for side in (node.left, *node.comparators))
    if not isinstance(node, ast.Call):
        return False
    resolver = draft.facts.resolver
    if resolver.builtin(node.func) in _OF_ONE or resolver.qualified(node.func) in _HOLDS:
        return bool(node.args) and _is_of_batch(draft, node.args[0], steps - 1)
    function = draft.facts.resolver.callee(node)
    if isinstance(function, FUNCTIONS):
        return _all_of_batch(draft, [n.value for n in walk(function) if isinstance(n, ast.Return) and n.value], steps)
    if draft.facts.resolver.builtin(node.func) == "float" and len(node.args) == 1:
        return not _is_sum(draft, node.args[0], steps)
    if isinstance(node.func, ast.Attribute):
        if node.func.attr == "item":
            return not _is_sum(draft, node.func.value, steps)
        return node.func.attr == "mean" or (
            node.func.attr in _ALONG and _is_of_batch(draft, node.func.value, steps - 1)
        )
    return False


def _has_sum_of_all(draft: Draft, node: ast.expr, steps: int) -> bool:
    """Whether what something is divided by has a sum over a whole tensor in it: `inter / (a.sum() + b.sum())`."""
    for part in walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "sum":
            if not part.args and not part.keywords:
                return True
        if isinstance(part, ast.Name) and steps:
            values = [b.value for b in draft.facts.resolver.bindings(part) if b.value is not None and not b.path]
            if any(_has_sum_of_all(draft, value, steps - 1) for value in values):
                return True
    return False


def _all_of_batch(draft: Draft, nodes: Sequence[ast.expr], steps: int) -> bool:
    return bool(nodes) and all(_is_of_batch(draft, node, steps - 1) for node in nodes)


def _is_sum(draft: Draft, node: ast.expr, steps: int) -> bool:
    """Whether a tensor is a sum, maybe of what is in a variable, or weighed by a number of samples."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        func = node.func if isinstance(node, ast.Call) else node
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        if name in _SUMS:
            return True
        if name not in _ALONG or not isinstance(func, ast.Attribute):
            break
        node = func.value
    if isinstance(node, ast.Name) and steps:
        values = [b.value for b in draft.facts.resolver.bindings(node) if b.value is not None and not b.path]
        return any(_is_sum(draft, value, steps - 1) for value in values)
    return isinstance(node, ast.BinOp) and any(_is_count(draft, n) for n in (node.left, node.right))


def _is_count(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression says how many rows something has: `len(x)`, `x.size(0)`, `x.shape[0]`, or a name of it."""
    if isinstance(node, ast.Name):
        values = [b.value for b in draft.facts.resolver.bindings(node) if b.value is not None and not b.path]
        return any(not isinstance(value, ast.Name) and _is_count(draft, value) for value in values)
    if isinstance(node, ast.Call):
        sized = isinstance(node.func, ast.Attribute) and node.func.attr == "size"
        return sized or draft.facts.resolver.builtin(node.func) == "len"
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape"


def _are_even(draft: Draft, loop: BatchLoop) -> bool:
    """Whether all batches of a loop have as many samples, so that the mean of their means is that of all samples."""
    loaders = [draft.facts.objects.loader(value) for value in loop.loaders]
    drops = [loader.arguments.get("drop_last") for loader in loaders]
    whole = all(isinstance(drop, ast.Constant) and drop.value is True for drop in drops)
    return whole or (bool(loaders) and all(fills(draft, loader) for loader in loaders))
