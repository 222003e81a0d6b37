"""Numbers of one process that are divided by the number of processes, though nothing has added up those of all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.accelerate import is_state
from accelift_codemod.facts.flow import Local
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.world import World

_SHOWS = frozenset(
    "print log info debug warning error write add_scalar add_scalars set_postfix set_description format item round "
    "cpu detach float".split()
)


def by_processes(world: World) -> Iterator[tuple[ast.BinOp, Local]]:
    """The divisions, with what makes the number one of the process's own."""
    divisions = [n for n in walk(world.index.tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    divisions = [n for n in divisions if _counts(world, n.right)]
    losses = {part for loss in _losses(world) for part in world.flow.sources(loss)} if divisions else set()
    for division in divisions:
        local = world.flow.local(division.left)
        if local is None or division in losses or world.ranks.counted(division) or _is_joined(world, division):
            continue
        if world.facts.runs(division):
            yield division, local


def _counts(world: World, node: ast.expr) -> bool:
    """Whether an expression is the number of processes."""
    if not isinstance(node, ast.Attribute) or node.attr != "num_processes":
        return False
    values = world.resolver.values(node.value)
    return bool(values) and all(map(is_state, values))


def _losses(world: World) -> Iterator[ast.expr]:
    """What is backpropagated: it may be divided as the script likes."""
    for call in world.facts.loops.backwards:
        yield from call.args
        if isinstance(call.func, ast.Attribute):
            yield call.func.value


def _is_joined(world: World, division: ast.BinOp) -> bool:
    """Whether those of all processes are joined afterwards, or what is given to something unknown may be."""
    for parent in world.index.ancestors(division):
        if isinstance(parent, ast.Call) and _may_be_joined_by(world, parent):
            return True
        if isinstance(parent, ast.stmt):
            targets = parent.targets if isinstance(parent, ast.Assign) else []
            return any(_may_join(world, target) for target in targets)
    return False


def _may_join(world: World, target: ast.expr) -> bool:
    if not isinstance(target, ast.Name):
        return True
    owner = world.index.scope(target).owner(target.id)
    if owner is None or (owner, target.id) in world.joined:
        return True
    for read in world.facts.loads(owner, target.id):
        for parent in world.index.ancestors(read):
            if isinstance(parent, ast.Call) and read is not parent.func and _may_be_joined_by(world, parent):
                return True
            if isinstance(parent, ast.stmt):
                break
    return False


def _may_be_joined_by(world: World, call: ast.Call) -> bool:
    """Whether a call may join what it is given with those of the other processes, or keep it for somebody who does."""
    if world.together.of(call) or world.flow.unknown(call):
        return True
    if not isinstance(call.func, ast.Attribute) or world.qualified(call):
        return world.resolver.callee(call) is not None
    return call.func.attr not in _SHOWS
