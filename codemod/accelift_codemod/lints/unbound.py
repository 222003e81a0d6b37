"""Variables that only some processes are given, and all of them read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import How, Scope, position
from accelift_codemod.facts.ranks import Guard, mentions_process
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.world import World

_TELL_NOTHING = frozenset("len isinstance bool int float str abs min max sum any all hasattr range".split())
_GIVES = (How.ASSIGN, How.AUGMENT, How.WITH, How.LOOP)
_CHOICES = (ast.If, ast.IfExp, ast.While)


def read_by_all(world: World) -> Iterator[tuple[ast.Name, Guard]]:
    """The first read of each variable by all processes, with the test under which alone it is given a value."""
    for scope in world.index.scopes.values():
        for name, bindings in scope.bindings.items() if not scope.is_class else ():
            if any(b.how not in _GIVES or isinstance(b.node, ast.comprehension) for b in bindings):
                continue
            guards = [world.ranks.guard(binding.node) for binding in bindings]
            if not guards or any(guard is None or not guard.chosen for guard in guards):
                continue
            home = world.index.function(bindings[0].node)
            reads = [n for n in scope.loads.get(name, []) if world.index.function(n) is home]
            read = next((n for n in sorted(reads, key=position) if not _is_kept(world, n, scope)), None)
            if read is not None and guards[0] is not None and position(bindings[0].node) < position(read):
                yield read, guards[0]


def _is_kept(world: World, read: ast.Name, scope: Scope) -> bool:
    """Whether only some processes may come to a read, or what keeps the others from it cannot be told."""
    if world.ranks.perhaps_alone(read) or world.index.scope(read) is not scope:
        return True
    child: ast.AST = read
    for parent in world.index.ancestors(read):
        if isinstance(parent, ast.Try) or any(_is_given_alone(world, test) for test in _asked_before(parent, child)):
            return True
        if isinstance(parent, ast.stmt) and any(_is_given_alone(world, t) for t in _left_by(world, parent)):
            return True
        child = parent
    return False


def _left_by(world: World, statement: ast.stmt) -> Iterator[ast.expr]:
    """The tests before a statement in its block with which some may have left: by a call, too, that may end them."""
    yield from world.ranks.left_before(statement)
    try:
        block, place = world.index.block(statement)
    except KeyError:
        return
    for earlier in block[:place]:
        if isinstance(earlier, ast.If) and isinstance(last := earlier.body[-1], ast.Expr):
            if isinstance(last.value, ast.Call) and _ends(world, last.value):
                yield earlier.test
        elif isinstance(earlier, ast.Assert):
            yield earlier.test


def _ends(world: World, call: ast.Call) -> bool:
    """Whether a call ends the process."""
    ends = world.resolver.builtin(call.func) in ("exit", "quit")
    return ends or world.qualified(call) in ("sys.exit", "os._exit")


def _asked_before(parent: ast.AST, child: ast.AST) -> list[ast.expr]:
    """The tests that have been evaluated where a part of a choice is come to: none for what is read in the first."""
    if isinstance(parent, ast.BoolOp):
        return [value for value in parent.values if position(value) < position(child)]
    return [parent.test] if isinstance(parent, _CHOICES) and child is not parent.test else []


def _is_given_alone(world: World, test: ast.expr) -> bool:
    """Whether a test may be another one on some processes."""
    if mentions_process(test) or any(isinstance(n, ast.Call) and _may_know(world, n) for n in walk(test)):
        return True
    for name in (n for n in walk(test) if isinstance(n, ast.Name)):
        owner = world.index.scope(name).owner(name.id)
        for binding in owner.bindings[name.id] if owner is not None else ():
            if world.ranks.guard(binding.node) is not None:
                return True
            if isinstance(world.index.parents.get(name), ast.Attribute):
                continue  # a setting, say: what asks for the process by its name is known
            value = binding.value
            if binding.how is How.PARAMETER or (isinstance(value, ast.Call) and _may_know(world, value)):
                return True  # which may ask
    return False


def _may_know(world: World, call: ast.Call) -> bool:
    """Whether a call may tell which process this is."""
    return world.resolver.builtin(call.func) not in _TELL_NOTHING
