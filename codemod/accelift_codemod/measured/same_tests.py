"""Tests on what a process has of a batch that come out alike on every process."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

from accelift_codemod.batches import padding
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.layout import Environment, Layout
from accelift_codemod.facts.layout.algebra import FIXED
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Value
from accelift_codemod.measured import whole_batches
from accelift_codemod.measured.anew import bound_anew
from accelift_codemod.measured.sums import Loop

_OPERATORS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_MANY = 1 << 20  # rows, more than any batch has


def comes_out_alike(draft: Draft, node: Loop, test: ast.expr, local: set[str]) -> bool:
    """Whether a test of an iteration comes out alike on every process, though it asks for what these have apart: for
    the form of a tensor, or how many rows it has, if any share has so many, or none."""
    loop = draft.blueprint.loops.get(node)
    if loop is not None and test in whole_batches.asked(draft, loop):
        return True
    env = draft.environment(loop, draft.facts.index.statement(test)) if loop is not None else None
    return loop is not None and env is not None and _is_alike(draft, loop, test, env, local)


def reads_place(test: ast.expr, local: set[str]) -> bool:
    """Whether a test reads what is set of a network, or of options, that goes by how it is spelled: `model.stop`."""
    places = {name for name in local if not name.isidentifier()}
    parts = (n for n in walk(test) if isinstance(n, (ast.Attribute, ast.Subscript))) if places else ()
    return any(ast.unparse(part) in places for part in parts)


def _is_alike(draft: Draft, loop: BatchLoop, test: ast.expr, env: Environment, local: set[str]) -> bool:
    if isinstance(test, ast.BoolOp):
        return all(_is_alike(draft, loop, part, env, local) for part in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_alike(draft, loop, test.operand, env, local)
    if local.isdisjoint(n.id for n in loads(test)):
        return not reads_place(test, local)
    if not isinstance(test, ast.Compare):
        return False
    sides = (test.left, *test.comparators)
    if all(map(_is_rank, sides)):
        return True
    # What earlier iterations have left, or what is filled, may have been so under a condition.
    carried = (n for n in loads(test) if n.id in local and not bound_anew(draft, loop.node, n))
    if not any(carried) and all(_is_fixed(draft, side, env) for side in sides) and padding.alike(draft, loop):
        return True
    return _asks_for_rows(draft, loop, test, env)


def compares_alike(draft: Draft, node: Loop, test: ast.expr) -> bool:
    """Whether a test compares what is the same on every process, such as numbers of dimensions: `y.dim() > 1`."""
    loop = draft.blueprint.loops.get(node)
    env = draft.environment(loop, draft.facts.index.statement(test)) if loop is not None else None
    compared = [n for n in walk(test) if isinstance(n, ast.Compare)]
    sides = [side for n in compared for side in (n.left, *n.comparators)]
    return env is not None and all(_is_fixed(draft, side, env) for side in sides)


def _is_fixed(draft: Draft, node: ast.expr, env: Environment) -> bool:
    """Whether an expression depends on no batch, or is a number of dimensions."""
    return _is_rank(node) or draft.facts.layouts.read(node, env) in FIXED


def _is_rank(node: ast.expr) -> bool:
    """Whether an expression is a number of dimensions, or one that is written out."""
    func = node.func if isinstance(node, ast.Call) and not node.args else node
    rank = isinstance(func, ast.Attribute) and func.attr in ("ndim", "dim", "ndimension")
    return rank or isinstance(node, ast.Constant)


def _asks_for_rows(draft: Draft, loop: BatchLoop, test: ast.Compare, env: Environment) -> bool:
    """Whether any share answers alike how its number of rows compares with a number."""
    compare, other = _OPERATORS.get(type(test.ops[0])), test.comparators[0]
    if len(test.ops) != 1 or compare is None or draft.facts.layouts.read(test.left, env) is not Layout.COUNT:
        return False
    if draft.options.batch != "global" or not loop.loaders:
        return False
    number = integer(other)
    if number is None:
        return False
    sizes = [integer(draft.facts.objects.loader(v).arguments.get("batch_size")) for v in loop.loaders]
    most = max(size or _MANY for size in sizes) - 1
    least = 2 if all(drops(draft, v) for v in loop.loaders) else 1
    rows = {n for n in (1, 2, number - 1, number, number + 1, most) if least <= n <= most}
    return len({compare(n, number) for n in rows}) == 1


def drops(draft: Draft, loader: Value) -> bool:
    """Whether a loader leaves out a last batch that is not whole, and its batches are of more than one row."""
    arguments = draft.facts.objects.loader(loader).arguments
    drops, size = arguments.get("drop_last"), arguments.get("batch_size")
    many = size is not None and not (isinstance(size, ast.Constant) and size.value in (None, 1))
    return isinstance(drops, ast.Constant) and drops.value is True and many
