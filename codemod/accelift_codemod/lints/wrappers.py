"""Prepared optimizers and schedulers that are asked for what Accelerate's wrappers do not have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from accelift_codemod.facts.index import How, position
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.facts.values import Evidence, Role
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Operation, Severity

# What `AcceleratedOptimizer` and `AcceleratedScheduler` have.
_OPTIMIZER = frozenset(
    "optimizer scaler accelerator_state gradient_state device_placement state param_groups defaults add_param_group "
    "load_state_dict state_dict zero_grad train eval step step_was_skipped profile_hook_step".split()
)
_SCHEDULER = frozenset(
    "scheduler optimizers split_batches step_with_optimizer gradient_state step get_last_lr state_dict load_state_dict "
    "get_lr print_lr".split()
)


class Attribute(Lint):
    """Accelerate's `prepare` puts wrappers around optimizers and schedulers that hand on what most scripts ask for, and
    nothing else: `scheduler.last_epoch`, `scheduler.base_lrs`, `optimizer.register_step_post_hook`, methods of an
    optimizer's own raise an AttributeError. (The bundled runtime's are the objects themselves.)
    """

    code = "OPT-ATTR"
    severity = Severity.ERROR
    title = "a prepared optimizer or scheduler has no such attribute"
    fixed = "everywhere"
    library = "accelerate"
    wrong = """\
optimizer, scheduler = accelerator.prepare(optimizer, scheduler)
print(scheduler.last_epoch)
"""
    right = """\
optimizer, scheduler = accelerator.prepare(optimizer, scheduler)
print(scheduler.scheduler.last_epoch)
"""

    def check(self, world: World) -> Iterator[Finding]:
        for name, nodes in world.index.attributes.items():
            for node in nodes:
                if name.startswith("__") or not isinstance(node.ctx, ast.Load) or not world.facts.runs(node):
                    continue
                for role, has, inner in (
                    (Role.OPTIMIZER, _OPTIMIZER, "optimizer"),
                    (Role.SCHEDULER, _SCHEDULER, "scheduler"),
                ):
                    if name in has or not world.prepared(node.value, role) or self._asks(world, node):
                        continue
                    yield Finding(
                        self.code,
                        self.severity,
                        node.lineno,
                        f"`{world.text(node)}` raises an AttributeError: Accelerate's wrapper does not hand it on",
                        f"ask {world.text(node.value)}.{inner}",
                        fix=(self.edit(world, node.value, Operation.SURROUND, f"{{}}.{inner}"),),
                    )

    def _asks(self, world: World, node: ast.expr) -> bool:
        """Whether the script is prepared for the attribute's being missing."""
        for parent in world.index.ancestors(node):
            if isinstance(parent, ast.Try):
                return True
            if isinstance(parent, (ast.If, ast.IfExp)):
                if any(isinstance(n, ast.Name) and n.id in ("hasattr", "isinstance") for n in walk(parent.test)):
                    return True
        return False


class Wrapper(Lint):
    """Accelerate's wrapper of an optimizer runs `step(closure)` and returns None, not the closure's loss. And `prepare`
    gives the optimizer new parameter groups: one that was kept in a variable before is not the optimizer's any more,
    so that setting its learning rate changes nothing. (The bundled runtime does neither.)
    """

    code = "OPT-WRAPPER"
    severity = Severity.WARNING
    title = "what the optimizer gave before prepare, or gives, is lost"
    library = "accelerate"
    wrong = """\
group = optimizer.param_groups[0]
model, optimizer = accelerator.prepare(model, optimizer)
group["lr"] = 0.01
"""
    right = """\
model, optimizer = accelerator.prepare(model, optimizer)
optimizer.param_groups[0]["lr"] = 0.01
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.index.methods.get("step", []):
            assert isinstance(call.func, ast.Attribute)
            given = world.resolver.argument(call, 0, "closure")
            if given is None or isinstance(world.index.parents.get(call), ast.Expr):
                continue
            if world.prepared(call.func.value, Role.OPTIMIZER):
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` returns None: Accelerate's wrapper does not hand the closure's loss on",
                    "keep the loss in a variable that the closure sets",
                )
        yield from self._stale(world)

    def _stale(self, world: World) -> Iterator[Finding]:
        """Parameter groups that are kept before `prepare`, and changed after it."""
        for statement in (n for n in walk(world.index.tree) if isinstance(n, (ast.Assign, ast.AugAssign))):
            for target in targets(statement):
                name = target.value if isinstance(target, ast.Subscript) else None
                if not isinstance(name, ast.Name):
                    continue
                bindings = world.resolver.bindings(name)
                if len(bindings) != 1 or bindings[0].how is not How.ASSIGN or bindings[0].path:
                    continue
                kept = bindings[0].value
                prepare = self._prepare(world, kept, statement)
                if kept is not None and prepare is not None:
                    yield Finding(
                        self.code,
                        self.severity,
                        statement.lineno,
                        f"`{world.text(statement)}` changes a parameter group that is not the optimizer's any more: "
                        f"`{world.text(prepare.func)}` (line {prepare.lineno}) has given it new ones",
                        "ask the prepared optimizer for its param_groups",
                        (Evidence(kept.lineno, f"`{name.id}` is `{world.text(kept)}`"),),
                    )

    def _prepare(self, world: World, kept: ast.expr | None, statement: ast.stmt) -> ast.Call | None:
        """The `prepare` between a variable's being given a parameter group and a statement."""
        if not (isinstance(kept, ast.Subscript) and isinstance(kept.value, ast.Attribute)):
            return None
        if kept.value.attr != "param_groups" or world.mentions("device_placement"):
            return None
        values = world.resolver.values(kept.value.value)
        if not values or any(v.role is not Role.OPTIMIZER or world.resolver.is_prepared(v) for v in values):
            return None
        origins = {v.origin for v in values}
        for argument, call in world.prepared_arguments:
            if {v.origin for v in world.resolver.values(argument)} == origins:
                if position(kept) < position(call) < position(statement):
                    if len({world.index.function(n) for n in (kept, call, statement)}) == 1:
                        return call
        return None


class SharedScaler(Lint):
    """With float16 the loss is scaled by one scaler for all optimizers, and Accelerate's wrapper updates it whenever
    one of them steps. If the scale changes there, the gradients of the next optimizer, which were computed with the old
    one, are divided by the new one: they are twice or half as large in that step. (The bundled runtime updates it when
    the next loss is scaled.)
    """

    code = "AMP-MULTIOPT"
    severity = Severity.WARNING
    title = "the loss scale changes between two optimizers' steps"
    library = "accelerate"
    wrong = """\
accelerator = Accelerator(mixed_precision="fp16")
...
accelerator.backward(loss)
encoder_optimizer.step()
decoder_optimizer.step()
"""
    right = """\
accelerator = Accelerator(mixed_precision="bf16")
...
accelerator.backward(loss)
encoder_optimizer.step()
decoder_optimizer.step()
"""

    def check(self, world: World) -> Iterator[Finding]:
        setting = world.setting("mixed_precision")
        if not (isinstance(setting, ast.Constant) and setting.value == "fp16"):
            return
        steps: dict[int, list[ast.Call]] = {}
        for call in world.index.methods.get("step", []):
            assert isinstance(call.func, ast.Attribute)
            if world.prepared(call.func.value, Role.OPTIMIZER):
                block, _ = world.index.block(world.index.statement(call))
                steps.setdefault(id(block), []).append(call)
        for calls in steps.values():
            calls.sort(key=position)
            for first, second in pairwise(calls):
                if self._optimizer(world, first) == self._optimizer(world, second):
                    continue
                if any(position(first) < position(c) < position(second) for c in world.verbs("backward")):
                    continue
                yield Finding(
                    self.code,
                    self.severity,
                    second.lineno,
                    f"`{world.text(first)}` (line {first.lineno}) may change the loss scale, and "
                    f"`{world.text(second)}` divides gradients by the new one that were computed with the old one",
                    "give all parameters to one optimizer, in groups, or use bf16",
                    (Evidence(setting.lineno, "mixed_precision is fp16"),),
                )

    def _optimizer(self, world: World, call: ast.Call) -> set[ast.AST]:
        assert isinstance(call.func, ast.Attribute)
        return {v.origin for v in world.resolver.values(call.func.value)}
