"""What each process decides for itself: by items that the script deals out, by the clock, by numbers that it draws."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.chance import drawn_from
from accelift_codemod.facts.flow import Local
from accelift_codemod.facts.own_values import CLOCKS
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.world import World


def decides(world: World, test: ast.expr) -> Local | None:
    """Why a test comes out for each process as it does for itself alone; None if that is not certain."""
    return world.flow.local(test) or counted(world, test) or _made_up(world, test)


def _made_up(world: World, test: ast.expr) -> Local | None:
    """Why a test goes by what each process makes up: the seconds since it began, a number that it draws unseeded."""
    found: Local | None = None
    compares = any(isinstance(n, ast.Compare) for n in walk(test))
    for part in world.flow.sources(test, world.flow.opaque) if compares else ():
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and world.flow.joined_in_place(part):
            return None
        if not isinstance(part, ast.Call):
            continue
        family = drawn_from(world.resolver, part)
        if world.qualified(part) in CLOCKS and world.facts.runs(part):
            found = found or Local(part, f"`{world.text(part)}` is another time on every process")
        elif family and world.facts.runs(part) and not world.seeding.alike(part, family):
            found = found or Local(
                part, f"`{world.text(part)}` is drawn without a seed, for each process another number"
            )
        elif world.together.of(part) or world.flow.unknown(part):
            return None
    return found


def counted(world: World, test: ast.expr) -> Local | None:
    """Why a test of how many items a process has is decided by each for itself; None if that is not certain."""
    for counting in _counting(world, test):
        parts = list(world.flow.sources(counting, lambda node: _deals(world, node)))
        dealt = next((part for part in parts if _deals(world, part)), None)
        calls = [part for part in parts if isinstance(part, ast.Call) and part is not dealt]
        if dealt is not None and not any(world.together.of(call) or world.flow.unknown(call) for call in calls):
            return Local(counting, f"`{world.text(counting)}` is what this process was dealt by `{world.text(dealt)}`")
    return None


def _counting(world: World, test: ast.expr) -> Iterator[ast.expr]:
    """What a test counts: `len(items) == 0`, `not items`."""
    for node in walk(test):
        if isinstance(node, ast.Call) and world.resolver.builtin(node.func) == "len" and len(node.args) == 1:
            yield node.args[0]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and isinstance(node.operand, ast.Name):
            yield node.operand
    if isinstance(test, ast.Name):
        yield test


def _deals(world: World, node: ast.AST) -> bool:
    """Whether an expression is a process's own part of something: a slice by its number, or what it is dealt."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return any(_goes_by_rank(world, bound) for bound in (node.slice.lower, node.slice.upper) if bound is not None)
    if not isinstance(node, ast.Call):
        return False
    if world.together.verb(node) == "split_between_processes":
        return world.resolver.argument(node, 1, "apply_padding") is None
    shards = isinstance(node.func, ast.Attribute) and node.func.attr == "shard" and not world.qualified(node)
    return shards and any(_goes_by_rank(world, given) for given in (*node.args, *(k.value for k in node.keywords)))


def _goes_by_rank(world: World, node: ast.expr) -> bool:
    return any(map(world.ranks.is_rank, world.flow.sources(node, lambda part: isinstance(part, ast.Call))))
