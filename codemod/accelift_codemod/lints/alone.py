"""What some processes do alone to what all of them have: iterators, forward passes, and changes of what trains."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import position
from accelift_codemod.facts.norms import keeps_averages
from accelift_codemod.facts.ranks import Guard
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Evidence, Role, Value
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint, unbound
from accelift_codemod.plan import Finding, Severity

_TRAINED = (Role.MODEL, Role.OPTIMIZER, Role.SCHEDULER)
# What to do instead of a forward pass, and of an iterator.
REMEDIES = (
    "run accelerator.unwrap_model(model), or do it on every process",
    "take the batch on every process, or from a loader that was not prepared",
)


def draws(world: World, call: ast.Call) -> str:
    """What comes of it if some processes make an iterator of a prepared loader; empty if a call makes none."""
    if world.resolver.builtin(call.func) != "iter" or len(call.args) != 1:
        return ""
    values = world.resolver.values(call.args[0])
    loaders = bool(values) and all(v.role is Role.LOADER and world.resolver.is_prepared(v) for v in values)
    return "if the loader shuffles, it waits for the other processes until the job times out" if loaders else ""


def hands_buffers(world: World, call: ast.Call) -> str:
    """What comes of it if some processes run a prepared model that has buffers; empty if a call runs none."""
    values = world.resolver.values(call.func) if world.wraps and not world.mentions("broadcast_buffers") else ()
    models = bool(values) and all(v.role is Role.MODEL and world.resolver.is_prepared(v) for v in values)
    if not models or not all(world.wrapped(v) and _has_buffers(world, world.original(v)) for v in values):
        return ""
    return "before it the wrapper hands buffers (those of BatchNorm, say) to the other processes, which do not join in"


def balanced(world: World, one: tuple[ast.AST, Guard], other: tuple[ast.AST, Guard]) -> bool:
    """Whether what a guard keeps from some processes may be what these do at another place of the same function."""
    return one[1].chosen is not other[1].chosen and world.index.function(one[0]) is world.index.function(other[0])


def _has_buffers(world: World, model: Value) -> bool:
    """Whether a model certainly has buffers: layers of BatchNorm, or some that its class registers."""
    resolver = world.resolver
    made: list[ast.AST] = [model.origin]
    made += [part for cls in resolver.ancestry(model.declaration) for part in cls.body]
    for call in (n for part in made for n in walk(part) if isinstance(n, ast.Call)):
        registers = isinstance(call.func, ast.Attribute) and call.func.attr == "register_buffer"
        if registers or keeps_averages(resolver, call):
            return True
    return False


class ChangedAlone(Lint):
    """Every process has an optimizer, a schedule and, after prepare, a model of its own. The wrapper makes the models
    equal once, when it is made, and averages gradients from then on. So a schedule that the main process alone steps
    gives the others another learning rate, and weights that it alone loads, or an optimizer that it alone steps, make
    other models of it: the processes train apart, without an error. A variable that the main process alone is given
    is no variable on the others: reading it there is an error.
    """

    code = "STATE-MAIN"
    severity = Severity.ERROR
    title = "what every process has is changed on some only"
    wrong = """\
optimizer.step()
if accelerator.is_main_process:
    scheduler.step()
"""
    right = """\
optimizer.step()
scheduler.step()
"""

    def check(self, world: World) -> Iterator[Finding]:
        changes = [(call, world.ranks.guard(call)) for call in world.calls if self._changes(world, call)]
        found = [(call, guard) for call, guard in changes if guard is not None]
        for call, guard in found:
            if any(balanced(world, (call, guard), other) for other in found):
                continue
            if not self._trains_on(world, call) or self._handed_on(world, call):
                continue
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` runs on some processes only: the others go on with what they have, and the "
                "processes train apart",
                "do it on every process, outside the guard",
                (Evidence(guard.node.lineno, f"`{world.text(guard.node)}`"),),  # type: ignore[attr-defined]
            )
        for read, guard in unbound.read_by_all(world):
            line = guard.node.lineno  # type: ignore[attr-defined]
            yield Finding(
                self.code,
                self.severity,
                read.lineno,
                f"`{read.id}` is given a value on some processes only (line {line}): for the others reading "
                "it is an error",
                "give it a value on every process, or read it under the same guard",
                (Evidence(line, f"`{world.text(guard.node)}`"),),
            )

    def _changes(self, world: World, call: ast.Call) -> bool:
        """Whether a call changes what training goes on with: steps it, or loads it after it was prepared."""
        func, resolver = call.func, world.resolver
        if not isinstance(func, ast.Attribute) or func.attr not in ("step", "load_state_dict"):
            return False
        values = resolver.values(func.value)
        if not values or not all(v.role in _TRAINED for v in values):
            return False
        if func.attr == "step":
            return all(
                v.role is Role.SCHEDULER or (v.role is Role.OPTIMIZER and resolver.is_prepared(v)) for v in values
            )
        unwrapped = isinstance(func.value, ast.Call) and world.together.verb(func.value) == "unwrap_model"
        return unwrapped or all(map(resolver.is_prepared, values))

    def _trains_on(self, world: World, call: ast.Call) -> bool:
        """Whether training goes on after a call: it stands in a loop that trains, or such a loop comes later."""
        index, trains = world.index, world.facts.loops.reaches_backward
        around = index.enclosing_loops(call)
        if any(trains(loop.body) for loop in around):  # type: ignore[attr-defined]
            return True
        home = index.function(call)
        later = (
            loop for loop in world.loops if index.function(loop.node) is home and position(loop.node) > position(call)
        )
        return any(loop.trains for loop in later)

    def _handed_on(self, world: World, call: ast.Call) -> bool:
        """Whether something is broadcast after a call, in its function: it may be what was changed."""
        home = world.index.function(call)
        later = (c for c in world.calls if world.index.function(c) is home and position(c) > position(call))
        return any("broadcast" in world.together.of(c) for c in later)
