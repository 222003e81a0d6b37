"""Gradients that are clipped or thrown away while they accumulate."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import position
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Evidence, Role
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity

_CLIPS = frozenset(
    f"torch.nn.utils.{home}{name}"
    for home in ("", "clip_grad.")
    for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm")
)


class ClippedEach(Lint):
    """Inside `accumulate` every micro-batch is backpropagated, but only the last of a group is followed by a step.
    Clipping without `if accelerator.sync_gradients:` clips the incomplete sums of gradients, too, and so weights the
    micro-batches differently: on one process, too, so that `--fix`, which changes nothing there, leaves it.
    """

    code = "ACC-CLIP"
    severity = Severity.WARNING
    title = "incomplete gradients are clipped"
    wrong = """\
with accelerator.accumulate(model):
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
    right = """\
with accelerator.accumulate(model):
    accelerator.backward(loss)
    if accelerator.sync_gradients:
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""

    def check(self, world: World) -> Iterator[Finding]:
        steps = world.setting("gradient_accumulation_steps")
        if isinstance(steps, ast.Constant) and steps.value == 1:
            return
        for call in world.calls:
            clips = world.together.verb(call) in ("clip_grad_norm_", "clip_grad_value_")
            if not clips and world.qualified(call) not in _CLIPS:
                continue
            context = world.accumulating(call)
            if context is None or self._gated(world, call):
                continue
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call.func)}` clips with every micro-batch, while gradients still accumulate",
                "put it under `if accelerator.sync_gradients:`",
                (Evidence(context.lineno, f"inside `{world.text(context.items[0].context_expr)}`"),),
            )

    def _gated(self, world: World, call: ast.Call) -> bool:
        """Whether any test stands between the micro-batch and the call: it may be about synchronisation."""
        for parent in world.index.ancestors(call):
            if isinstance(parent, (ast.If, ast.IfExp, ast.BoolOp)):
                return True
            if isinstance(parent, ast.With) and any(world.accumulates(i) for i in parent.items):
                return self._leaves_before(parent, call)
        return True

    def _leaves_before(self, context: ast.With, call: ast.Call) -> bool:
        return any(
            isinstance(n, (ast.Continue, ast.Break, ast.Return)) and position(n) < position(call)
            for n in walk(context)
            if isinstance(n, ast.stmt)
        )


_PRECISIONS = ("fp16", "bf16", "fp8")


class ClippedScaled(Lint):
    """With float16 the loss is multiplied by a scale, and so are the gradients until the optimizer steps. A clipping
    function of torch compares these with the limit: nearly all of every gradient is cut away, on one process, too.
    `accelerator.clip_grad_norm_` divides them by the scale first.
    """

    code = "AMP-CLIP"
    severity = Severity.ERROR
    title = "scaled gradients are clipped"
    wrong = """\
accelerator = Accelerator(mixed_precision="fp16")
...
accelerator.backward(loss)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
"""
    right = """\
accelerator = Accelerator(mixed_precision="fp16")
...
accelerator.backward(loss)
accelerator.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
"""

    def check(self, world: World) -> Iterator[Finding]:
        setting = world.setting("mixed_precision")
        half = self._half(world, setting) if setting is not None else None
        if half is None or any(map(world.mentions, ("unscale_gradients", "unscale_", "GradScaler", "get_scale"))):
            return
        for call in world.calls:
            if world.qualified(call) not in _CLIPS or not world.facts.runs(call) or not self._of_prepared(world, call):
                continue
            if _asks_for_precision(world, call):
                continue
            surely = isinstance(setting, ast.Constant)
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call.func)}` clips gradients that are still multiplied by the scale of the loss"
                + ("" if surely else ", where the precision is fp16"),
                "write accelerator.clip_grad_norm_, or call accelerator.unscale_gradients() before",
                (Evidence(half.lineno, "mixed_precision is fp16" if surely else "mixed_precision may be fp16"),),
            )

    def _half(self, world: World, setting: ast.expr) -> ast.expr | None:
        """What says that the precision is fp16, or may be: a word, or one that an option takes."""
        for part in world.flow.sources(setting):
            if isinstance(world.index.parents.get(part), ast.Compare):
                continue  # it is asked for, to choose another one
            if isinstance(part, ast.Constant) and part.value == "fp16":
                assert isinstance(part, ast.expr)
                return part
            if isinstance(part, ast.Attribute) and Role.ARGUMENTS in world.resolver.roles(part.value):
                option = world.facts.command_line.options.get(part.attr)
                choices = world.resolver.argument(option, None, "choices") if option is not None else None
                if isinstance(choices, (ast.List, ast.Tuple)):
                    words = [c for c in choices.elts if isinstance(c, ast.Constant) and c.value == "fp16"]
                    return words[0] if words else None
        return None

    def _of_prepared(self, world: World, call: ast.Call) -> bool:
        """Whether the parameters are those of a prepared model, whose gradients the accelerator computes."""
        given = call.args[0] if call.args else world.resolver.argument(call, 0, "parameters")
        parts = list(world.flow.sources(given)) if given is not None else []
        prepared = any(world.prepared(part, Role.MODEL) for part in parts)
        return prepared and any(True for _ in world.verbs("backward"))


class ZeroFirst(Lint):
    """A prepared optimizer ignores `zero_grad` and `step` while gradients accumulate. If `zero_grad` comes before
    backward, it takes effect with the last micro-batch of a group, and throws the gradients of the others away: they
    were computed for nothing. After `step` it is right.
    """

    code = "ACC-ZEROFIRST"
    severity = Severity.ERROR
    title = "zero_grad throws accumulated gradients away"
    wrong = """\
with accelerator.accumulate(model):
    optimizer.zero_grad()
    accelerator.backward(criterion(model(inputs), targets))
    optimizer.step()
"""
    right = """\
with accelerator.accumulate(model):
    accelerator.backward(criterion(model(inputs), targets))
    optimizer.step()
    optimizer.zero_grad()
"""

    def check(self, world: World) -> Iterator[Finding]:
        if world.steps is None and not self._plugin(world):
            return
        for call in world.index.methods.get("zero_grad", []):
            context = world.accumulating(call)
            assert isinstance(call.func, ast.Attribute)
            optimizers = world.prepared(call.func.value, Role.OPTIMIZER)
            if context is None or not optimizers or world.index.statement(call) not in context.body:
                continue
            later = [n for n in _own(context) if position(n) > position(call)]
            stepped = [n for n in later if self._is(world, n, "step", call.func.value)]
            earlier = [n for n in _own(context) if position(n) < position(call)]
            if any(
                world.together.verb(n) == "backward" or n.func.attr == "backward"
                for n in earlier
                if isinstance(n.func, ast.Attribute)
            ):
                continue
            backward = next((n for n in later if world.together.verb(n) == "backward"), None)
            if backward is not None and stepped and position(backward) < position(stepped[0]):
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` comes before backward: with the last micro-batch of a group it throws away "
                    "what the others have accumulated",
                    f"move it behind `{world.text(stepped[0])}`",
                    (Evidence(context.lineno, f"inside `{world.text(context.items[0].context_expr)}`"),),
                )

    def _plugin(self, world: World) -> bool:
        return world.setting("gradient_accumulation_plugin") is not None

    def _is(self, world: World, node: ast.Call, method: str, receiver: ast.expr) -> bool:
        func = node.func
        if not isinstance(func, ast.Attribute) or func.attr != method:
            return False
        return set(world.resolver.values(func.value)) == set(world.resolver.values(receiver))


class ModelZero(Lint):
    """A prepared optimizer's `zero_grad` waits until the accumulated gradients were applied; that of a model does not.
    Called with every micro-batch, it throws away what was accumulated.
    """

    code = "ACC-MODELZERO"
    severity = Severity.ERROR
    title = "model.zero_grad() with every micro-batch"
    wrong = """\
with accelerator.accumulate(model):
    accelerator.backward(criterion(model(inputs), targets))
    optimizer.step()
    model.zero_grad()
"""
    right = """\
with accelerator.accumulate(model):
    accelerator.backward(criterion(model(inputs), targets))
    optimizer.step()
    optimizer.zero_grad()
"""

    def check(self, world: World) -> Iterator[Finding]:
        if world.steps is None:
            return
        for call in world.index.methods.get("zero_grad", []):
            context = world.accumulating(call)
            assert isinstance(call.func, ast.Attribute)
            if context is None or world.index.statement(call) not in context.body:
                continue
            if not world.resolver.only(call.func.value, Role.MODEL):
                continue
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` throws the accumulated gradients away with every micro-batch",
                "call the prepared optimizer's zero_grad(), which waits for the step",
                (Evidence(context.lineno, f"inside `{world.text(context.items[0].context_expr)}`"),),
            )


def _own(context: ast.With) -> list[ast.Call]:
    """The calls inside a block, in source order."""
    return sorted((n for s in context.body for n in walk(s) if isinstance(n, ast.Call)), key=position)


def _asks_for_precision(world: World, call: ast.Call) -> bool:
    """Whether a test around a call asks in which precision it runs: `if args.precision != "fp16"`."""
    tests = [p.test for p in world.index.ancestors(call) if isinstance(p, (ast.If, ast.IfExp))]
    parts = [part for test in tests for part in world.flow.sources(test)]
    return any(
        (isinstance(part, ast.Constant) and part.value in _PRECISIONS)
        or (isinstance(part, ast.Attribute) and part.attr in ("mixed_precision", "native_amp", "scaler"))
        for part in parts
    )
