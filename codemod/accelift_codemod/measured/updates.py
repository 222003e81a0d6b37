"""What weights and gradients are changed by in place: what differs from process to process leaves them other models."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import targets, walk, whole

# What clips gradients: to what, is told in the second argument.
CLIPS = frozenset(
    f"torch.nn.utils.{module}{name}"
    for module in ("", "clip_grad.")
    for name in ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")
)
_SAME = frozenset("dtype device ndim dim".split())  # what says nothing of a share


def changed_by(draft: Draft, node: ast.AST, names: set[str]) -> ast.expr | None:
    """What a node changes a weight or gradient by, if it is one of some variables, or how large that is.

    `p.grad /= len(x)`, `p.data.mul_(loss.item())`, `clip_grad_norm_(model.parameters(), loss.item())`.
    """
    given: list[ast.expr] = []
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        bound = isinstance(node, ast.Assign)  # a variable, which changes nothing
        if any(_is_changed(draft, t) for t in targets(node) if not (bound and isinstance(t, ast.Name))):
            given = [node.value]
    elif isinstance(node, ast.Call) and draft.facts.resolver.qualified(node.func) in CLIPS:
        given = [*node.args[1:], *(k.value for k in node.keywords)]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr.endswith("_") and not node.func.attr.endswith("__") and _is_changed(draft, node.func.value):
            given = [*node.args, *(k.value for k in node.keywords)]
    return next((value for value in given if _depends(draft, value, names)), None)


def sets_gradient(statement: ast.stmt) -> bool:
    """Whether a statement changes a gradient, whatever that is of: `weight.grad.data = step`, `g.grad.mul_(scale)`."""
    places = targets(statement)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        func = statement.value.func
        if isinstance(func, ast.Attribute) and func.attr.endswith("_") and not func.attr.endswith("__"):
            places = [func.value]
    return any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in map(whole, places))


def _is_changed(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is a parameter of a loop over those of a network, its gradient, or that of a layer."""
    node = whole(node)
    if isinstance(node, ast.Attribute) and node.attr == "grad":
        return draft.facts.objects.is_parameter(node.value) or draft.facts.objects.is_part(node.value)
    return draft.facts.objects.is_parameter(node)


def _depends(draft: Draft, node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names and not draft.facts.objects.is_parameter(node)
    if isinstance(node, ast.Attribute) and node.attr in _SAME:
        return False
    return any(_depends(draft, child, names) for child in ast.iter_child_nodes(node))


def rows_that_divide(draft: Draft, loop: BatchLoop, statement: ast.stmt) -> ast.expr | None:
    """How many samples the process has, or one by that, where a statement divides gradients by it: `p.grad /= len(x)`,
    `p.grad.mul_(1 / len(x))`."""
    env = draft.environment(loop, statement)
    for node in walk(statement) if env is not None else ():
        for changed, by, layout in _scaled(node):
            of_gradient = any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in walk(changed))
            if of_gradient and draft.facts.layouts.read(by, env or {}) is layout:
                return by
    return None


def _scaled(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, Layout]]:
    """What a node divides or multiplies, by what, and what that is where it is the rows of a share that divide."""
    if isinstance(node, (ast.AugAssign, ast.BinOp)):
        left, right = (node.target, node.value) if isinstance(node, ast.AugAssign) else (node.left, node.right)
        if isinstance(node.op, ast.Div):
            yield left, right, Layout.COUNT
        elif isinstance(node.op, ast.Mult):
            yield left, right, Layout.INVERSE
            yield right, left, Layout.INVERSE
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        name = node.func.attr.rstrip("_")
        if name in ("div", "mul"):
            yield node.func.value, node.args[0], Layout.COUNT if name == "div" else Layout.INVERSE


def divides_a_sum(draft: Draft, loop: BatchLoop, statement: ast.stmt) -> bool:
    """Whether a statement divides gradients of sums over the samples by how many of them the process has."""
    rows = rows_that_divide(draft, loop, statement)
    calls = draft.facts.loops.backwards_in(loop.node)
    return rows is not None and bool(calls) and all(_is_of_sum(draft, loop, call) for call in calls)


def _is_of_sum(draft: Draft, loop: BatchLoop, call: ast.Call) -> bool:
    """Whether a backward pass goes back from a sum over the samples."""
    env = draft.environment(loop, call) if isinstance(call.func, ast.Attribute) else None
    return env is not None and draft.facts.layouts.read(call.func.value, env) is Layout.SUM  # type: ignore[attr-defined]


def changes(draft: Draft, statement: ast.stmt, names: set[str]) -> ast.expr | None:
    """The same of a simple statement, and the calls in it: `total = clip_grad_norm_(model.parameters(), limit)`."""
    if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)):
        return None
    found = (changed_by(draft, node, names) for node in walk(statement) if isinstance(node, (ast.Call, ast.stmt)))
    return next((value for value in found if value is not None), None)
