"""What is added up over a share of a batch, and divided by the size of the whole."""

from __future__ import annotations

import ast
from collections.abc import Collection

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured.sums import Loop
from accelift_codemod.rows import batch_sizes

_LEAVES = frozenset("sum item cpu float double int long detach numpy".split())  # of a count, a count
_MOST_STEPS = 12


def by_batch_size(draft: Draft, loop: BatchLoop, node: Loop, sums: Collection[str]) -> list[ast.BinOp]:
    """Divisions in a training loop by its loader's batch size (or so many times it) of what one process adds up.

    Those of the loss are left out: its gradients are made those of the whole batch.

    Args:
        draft: the draft.
        loop: the training loop.
        node: its node.
        sums: variables that the loop adds up over samples.
    """
    losses = _losses(draft, node)
    found: list[ast.BinOp] = []
    for division in (n for statement in node.body for n in walk(statement)):
        if not (isinstance(division, ast.BinOp) and isinstance(division.op, ast.Div)):
            continue
        statement = draft.facts.index.statement(division)
        if stores(statement) & losses or any(c in walk(statement) for c in draft.facts.loops.backwards_in(node)):
            continue
        if batch_sizes.is_product(draft, loop, division.right) and _is_sum(draft, loop, _unscaled(division.left), sums):
            found.append(division)
    return found


def is_weighed(draft: Draft, loop: BatchLoop, value: ast.expr) -> bool:
    """Whether a number is multiplied by how many rows the process has, whatever it measures: `loss.item() * len(x)`."""
    if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult)):
        return False
    return any(_counts_rows(draft, loop, side) for side in (value.left, value.right))


def _counts_rows(draft: Draft, loop: BatchLoop, node: ast.expr) -> bool:
    """Whether an expression is how many rows something has that an iteration makes: `x.size(0)`, `x.shape[0]`."""
    if isinstance(node, ast.Name):
        made = [b.value for b in draft.facts.resolver.bindings(node) if not b.path and b.value is not None]
        return len(made) == 1 and not isinstance(made[0], ast.Name) and _counts_rows(draft, loop, made[0])
    rows: ast.expr | None = None
    place: ast.expr | None = ast.Constant(0)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        rows, place = node.value.value, node.slice
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):  # `x.size()[0]`
        rows, place = _sized(node.value), node.slice
        rows = rows if not node.value.args else None
    elif isinstance(node, ast.Call) and _sized(node) is not None:
        rows, place = _sized(node), node.args[0] if len(node.args) == 1 else None
    elif isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "len" and len(node.args) == 1:
        rows = node.args[0]
    if not isinstance(rows, ast.Name) or not (isinstance(place, ast.Constant) and place.value == 0):
        return False
    bound = draft.facts.resolver.bindings(rows)
    return bool(bound) and all(loop.node in draft.facts.index.ancestors(b.node) for b in bound)


def _sized(node: ast.Call) -> ast.expr | None:
    """What a call asks for its size."""
    return node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "size" else None


def _is_sum(draft: Draft, loop: BatchLoop, node: ast.expr, sums: Collection[str]) -> bool:
    if isinstance(node, ast.Name) and node.id in sums:
        return True
    env = draft.environment(loop, node)
    if env is None:
        return False
    layout = draft.facts.layouts.read(node, env)
    return layout is Layout.SUM or (layout in (Layout.UNKNOWN, Layout.UNSURE) and _counts_hits(draft, node))


def _counts_hits(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression counts where something of the batch is another thing: `pred.eq(y).sum().item()`."""
    summed = False
    for _ in range(_MOST_STEPS):
        if isinstance(node, ast.Name):
            values = [b.value for b in draft.facts.resolver.bindings(node) if not b.path and b.value is not None]
            if len(values) != 1:
                return False
            node = values[0]
        elif isinstance(node, ast.Compare):
            return summed and len(node.ops) == 1 and draft.facts.by_hand.of_batch(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name == "eq" and len(node.args) == 1:
                return summed and draft.facts.by_hand.of_batch(node)
            if name not in _LEAVES or node.args or node.keywords:
                return False
            summed, node = summed or name == "sum", node.func.value
        else:
            return False
    return False


def _unscaled(node: ast.expr) -> ast.expr:
    """An expression without the numbers that it is multiplied by: `100.0 * correct`."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        if isinstance(node.left, ast.Constant):
            node = node.right
        elif isinstance(node.right, ast.Constant):
            node = node.left
        else:
            break
    return node


def _losses(draft: Draft, node: Loop) -> set[str]:
    """The variables of a loop that its backward passes are computed from."""
    found = {n.id for call in draft.facts.loops.backwards_in(node) for n in loads(call)}
    assigned = [s for s in walk(node) if isinstance(s, (ast.Assign, ast.AugAssign, ast.AnnAssign))]
    while more := {n.id for s in assigned if stores(s) & found and s.value is not None for n in loads(s.value)} - found:
        found |= more
    return found
