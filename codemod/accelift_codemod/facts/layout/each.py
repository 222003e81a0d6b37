"""Loops over the samples of a batch, one by one: `for x, y in zip(xs, ys): loss += criterion(model(x), y)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.layout.algebra import FIXED, Environment, Frame, Layout, Shape
from accelift_codemod.facts.layout.arithmetic import combine
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts

_LOOPS = (ast.For, ast.AsyncFor)


def one(layouts: Layouts, node: ast.expr, env: Environment, frame: Frame) -> Shape | None:
    """What a loop's variables are, if each pass is for one sample: a constant, as far as other samples go."""
    node = gone_through(layouts, node)
    builtin = layouts.resolver.builtin(node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and builtin == "enumerate" and node.args:
        inner = one(layouts, node.args[0], env, frame)
        return None if inner is None else (Layout.UNKNOWN, inner)
    if isinstance(node, ast.Call) and builtin == "zip":
        parts = [layouts.read(gone_through(layouts, a), env, frame) for a in node.args]
        if Layout.ROWS not in parts:
            return None
        return tuple(Layout.CONST if part in (Layout.ROWS, *FIXED) else Layout.UNKNOWN for part in parts)
    if isinstance(node, ast.Call) and builtin == "range":
        counts = len(node.args) == 1 and layouts.read(node.args[0], env, frame) is Layout.COUNT
        return Layout.UNKNOWN if counts else None
    return Layout.CONST if layouts.read(node, env, frame) is Layout.ROWS else None


def gone_through(layouts: Layouts, node: ast.expr) -> ast.expr:
    """What a loop goes through where it is over a list of it: the samples of `list(z)`."""
    while isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        if layouts.resolver.builtin(node.func) not in ("list", "tuple"):
            break
        node = node.args[0]
    return node


def run(layouts: Layouts, loop: ast.For | ast.AsyncFor, sample: Shape, env: Environment, frame: Frame) -> None:
    """Interpret a loop over samples: what it adds up is a sum over them, what else it leaves behind is not known."""
    added = {n for s in loop.body for n in _added(s)}
    filled = {n for s in loop.body for n in _filled(s)}
    body = {**env, **dict.fromkeys(added, Layout.ZERO)}
    layouts.assign(loop.target, sample, body)
    outer, layouts.single = layouts.single, True
    layouts.run(loop.body, body, frame)
    layouts.single = outer
    crossed = Layout.MIXED if _meets_others(layouts, loop, env, frame) else None
    for name in {n for s in (loop, *loop.body) for n in stores(s)} | filled:
        left = body.get(name, Layout.UNKNOWN)
        if name in added:
            part = crossed or (
                Layout.SUM if left in FIXED else Layout.MIXED if left is Layout.MIXED else Layout.UNKNOWN
            )
            env[name] = combine(ast.Add(), env.get(name, Layout.CONST), part)
        elif name in filled:
            met = left is Layout.MIXED or (isinstance(left, tuple) and Layout.MIXED in left)
            env[name] = crossed or (Layout.MIXED if met else Layout.UNKNOWN)
        elif env.get(name) != left or left in FIXED:
            env[name] = Layout.MIXED if left is Layout.MIXED else Layout.UNKNOWN
    layouts.run(loop.orelse, env, frame)


def _added(statement: ast.stmt) -> set[str]:
    """The variables that a statement adds something to: `total += x`, `total = total + x`."""
    found: set[str] = set()
    for node in walk(statement):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
            target, left = node.targets[0], node.value.left
            if isinstance(target, ast.Name) and isinstance(left, ast.Name) and left.id == target.id:
                found.add(target.id)
    return found


def _filled(statement: ast.stmt) -> set[str]:
    """The lists that a statement puts something into."""
    calls = (n.func for n in walk(statement) if isinstance(n, ast.Call))
    methods = (f for f in calls if isinstance(f, ast.Attribute) and f.attr in ("append", "extend", "insert"))
    return {f.value.id for f in methods if isinstance(f.value, ast.Name)}


def _meets_others(layouts: Layouts, loop: ast.For | ast.AsyncFor, env: Environment, frame: Frame) -> bool:
    """Whether a loop inside goes over the samples again, with the one of this pass."""
    own = stores(loop.target)
    for inner in (n for s in loop.body for n in walk(s) if isinstance(n, _LOOPS)):
        if one(layouts, inner.iter, env, frame) is not None:
            if own & {n.id for s in inner.body for n in loads(s)}:
                return True
    return False
