"""Training that goes past the accelerator: what is not prepared, and backward by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.objects import Optimizer
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Evidence, Role, Value
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Edit, Finding, Operation, Severity

_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})


class RawBackward(Lint):
    """`loss.backward()` skips what `accelerator.backward(loss)` does besides: scaling the loss for float16, dividing it
    by the accumulation steps, handing it to DeepSpeed; in the bundled runtime also weighting the processes where the
    last batch cannot be shared out evenly.
    """

    code = "BWD-RAW"
    severity = Severity.WARNING
    title = "backward without the accelerator"
    fixed = "where the accelerator is at hand, and accumulates nothing"
    wrong = """\
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for inputs, targets in loader:
    loss = criterion(model(inputs), targets)
    loss.backward()
"""
    right = """\
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for inputs, targets in loader:
    loss = criterion(model(inputs), targets)
    accelerator.backward(loss)
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.facts.loops.backwards:
            if world.together.verb(call) or not isinstance(call.func, ast.Attribute) or not world.facts.runs(call):
                continue
            if world.ranks.absent.at(call):
                continue
            receiver = call.args[0] if world.qualified(call) == "torch.autograd.backward" and call.args else None
            if receiver is None:
                receiver = call.func.value
            model = self._model(world, receiver)
            if model is None:
                continue
            more = "weights for an uneven last batch" if world.library == "accelift" else "DeepSpeed"
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` goes past the accelerator: no loss scaling for float16, no division by the "
                f"accumulation steps, no {more}",
                "write accelerator.backward(loss)",
                (Evidence(model.lineno, f"`{world.text(model)}` runs the prepared model"),),
                self._fix(world, call),
            )

    def _fix(self, world: World, call: ast.Call) -> tuple[Edit, ...]:
        """`accelerator.backward(loss)`, where the accelerator certainly divides nothing, nor the script scales."""
        name = world.accelerator_at(call)
        divides = any(
            world.setting(s) is not None for s in ("gradient_accumulation_steps", "gradient_accumulation_plugin")
        )
        if not name or divides or not world.settings_known or world.mentions("gradient_accumulation_steps"):
            return ()
        if call.args or world.qualified(call) or any(True for _ in world.facts.objects_of(Role.SCALER)):
            return ()
        return (self.edit(world, call, Operation.CALL_ON, f"{name}.backward"),)

    def _model(self, world: World, loss: ast.expr) -> ast.Call | None:
        """The forward pass of a prepared model that a loss comes from."""
        for part in world.flow.sources(loss):
            if isinstance(part, ast.Call) and world.prepared(part.func, Role.MODEL):
                return part
        return None


class UnpreparedOptimizer(Lint):
    """An optimizer that is not prepared knows nothing of the accelerator: inside `accumulate` it steps with every
    micro-batch, and with float16 it applies gradients that are still scaled. A script that uses neither computes the
    same with it, as long as no launch config switches float16 on: there it is a note.
    """

    code = "OPT-UNPREPARED"
    severity = Severity.WARNING
    title = "the optimizer of a prepared model is not prepared"
    wrong = """\
model, loader = accelerator.prepare(model, loader)
...
accelerator.backward(loss)
optimizer.step()
"""
    right = """\
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
...
accelerator.backward(loss)
optimizer.step()
"""

    def check(self, world: World) -> Iterator[Finding]:
        if world.unknown_given:
            return
        for optimizer in world.optimizers:
            if world.is_given(optimizer.value) or not optimizer.models:
                continue
            if not all(world.is_given(m) for m in optimizer.models):
                continue
            for call in world.index.methods.get("step", []):
                assert isinstance(call.func, ast.Attribute)
                values = world.resolver.values(call.func.value)
                if values and all(v.role is Role.OPTIMIZER and v.origin is optimizer.call for v in values):
                    matters = world.mentions("accumulate") or world.setting("mixed_precision") is not None
                    yield Finding(
                        self.code,
                        self.severity if matters else Severity.NOTE,
                        call.lineno,
                        f"`{world.text(call)}` steps an optimizer that was not prepared: it takes no notice of "
                        "accumulation, nor of the loss scaling of float16",
                        "give it to accelerator.prepare together with its model",
                        (Evidence(optimizer.call.lineno, f"made by `{world.text(optimizer.call)}`"),),
                    )
                    break


class UnpreparedModel(Lint):
    """Gradients are averaged among the processes by the wrapper that `prepare` puts around a model. A trained model
    that is not prepared follows each process's own data: without any error the processes drift apart, and what is saved
    is the model of one of them. (The bundled runtime averages the gradients of a prepared optimizer all the same.)
    """

    code = "MODEL-UNPREPARED"
    severity = Severity.ERROR
    title = "a trained model is not prepared"
    wrong = """\
optimizer, loader = accelerator.prepare(optimizer, loader)
for inputs, targets in loader:
    accelerator.backward(criterion(model(inputs), targets))
    optimizer.step()
"""
    right = """\
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for inputs, targets in loader:
    accelerator.backward(criterion(model(inputs), targets))
    optimizer.step()
"""

    def check(self, world: World) -> Iterator[Finding]:
        if world.unknown_given:
            return
        for optimizer in world.optimizers:
            if world.library == "accelift" and world.is_given(optimizer.value):
                continue
            alone = {m.origin: m for m in optimizer.models if m.role is Role.MODEL and not world.is_given(m)}
            for call in world.verbs("backward"):
                loss = world.resolver.argument(call, 0, "loss")
                forward = self._forward(world, loss, alone) if loss is not None and alone else None
                if forward is None:
                    continue
                made = optimizer.call
                yield Finding(
                    self.code,
                    self.severity,
                    forward.lineno,
                    f"`{world.text(forward.func)}` is trained, but was not prepared: its gradients are not averaged, "
                    "and the processes drift apart",
                    "give it to accelerator.prepare together with its optimizer",
                    (
                        Evidence(made.lineno, f"trained by `{world.text(made)}`"),
                        Evidence(call.lineno, f"`{world.text(call)}` computes its gradients"),
                    ),
                )
                break

    def _forward(self, world: World, loss: ast.expr, models: dict[ast.AST, Value]) -> ast.Call | None:
        """The forward pass of one of the models, on data of a prepared loader, that a loss comes from."""
        if world.flow.from_batch(loss) is None:
            return None
        for part in world.flow.sources(loss):
            if isinstance(part, ast.Call):
                values = world.resolver.values(part.func)
                if values and all(v.origin in models for v in values) and not world.gradients_off(part):
                    return part
        return None


class FreeParameter(Lint):
    """Accelerate averages the gradients of prepared models. A parameter that belongs to none is trained on each
    process's own data: without any error the processes drift apart. (The bundled runtime averages whatever a prepared
    optimizer updates.)
    """

    code = "DDP-FREEPARAM"
    severity = Severity.ERROR
    title = "a parameter outside of every model is trained"
    library = "accelerate"
    wrong = """\
scale = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([*model.parameters(), scale], lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
"""
    right = """\
class Scaled(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.scale = model, nn.Parameter(torch.ones(1))
...
model = Scaled(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
"""

    def check(self, world: World) -> Iterator[Finding]:
        for optimizer in world.optimizers:
            if not world.is_given(optimizer.value) or not any(world.is_given(m) for m in optimizer.models):
                continue
            for node in (*optimizer.loose, *self._added(world, optimizer)):
                values = world.resolver.values(node)
                if not values or not all(map(self._is_trained, values)):
                    continue
                yield Finding(
                    self.code,
                    self.severity,
                    node.lineno,
                    f"`{world.text(node)}` is trained and belongs to no prepared model: its gradients are not "
                    "averaged, and the processes drift apart",
                    "make it a parameter of the model",
                    (Evidence(values[0].origin.lineno, f"`{world.text(values[0].origin)}`"),),  # type: ignore[attr-defined]
                )

    def _added(self, world: World, optimizer: Optimizer) -> Iterator[ast.expr]:
        """The variables that an optimizer is given later: `optimizer.add_param_group({"params": [scale]})`."""
        for call in world.index.methods.get("add_param_group", []):
            assert isinstance(call.func, ast.Attribute)
            values = [world.original(v) for v in world.resolver.values(call.func.value)]
            group = world.resolver.argument(call, 0, "param_group")
            if not values or any(v.origin is not optimizer.call for v in values) or not isinstance(group, ast.Dict):
                continue
            for key, value in zip(group.keys, group.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "params":
                    yield from value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]

    def _is_trained(self, value: Value) -> bool:
        """Whether a value is a parameter, or a tensor of torch that is made to be trained."""
        made = value.origin
        return value.name in _PARAMETERS or (
            isinstance(made, ast.Call)
            and value.name.startswith("torch.")
            and any(k.arg == "requires_grad" and is_constant(k.value, True) for k in made.keywords)
        )


class NeverSynced(Lint):
    """Under `accelerator.no_sync(model)` backward leaves gradients as they are on each process. Where every backward
    pass of a training loop is under it, and the optimizer steps all the same, nothing ever averages them: without any
    error the processes drift apart.
    """

    code = "DDP-NOSYNC"
    severity = Severity.ERROR
    title = "gradients are never averaged"
    wrong = """\
for batch in loader:
    with accelerator.no_sync(model):
        accelerator.backward(loss_of(model, batch))
    optimizer.step()
"""
    right = """\
for batch in loader:
    accelerator.backward(loss_of(model, batch))
    optimizer.step()
"""

    def check(self, world: World) -> Iterator[Finding]:
        for loop in world.loops:
            if not loop.trains:
                continue
            calls = [n for s in loop.body for n in walk(s) if isinstance(n, ast.Call)]
            backwards = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "backward"]
            steps = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "step"]
            contexts = [self._context(world, c, loop.node) for c in backwards]
            first = next((c for c in contexts if c is not None), None)
            if first is None or None in contexts:
                continue
            if not any(
                world.resolver.only(c.func.value, Role.OPTIMIZER) and self._plain(world, c, loop.node)  # type: ignore[attr-defined]
                for c in steps
            ):
                continue
            yield Finding(
                self.code,
                self.severity,
                first.lineno,
                f"every backward pass of this loop is under `{world.text(first.items[0].context_expr)}`: gradients are "
                "never averaged, and the processes drift apart",
                "leave the last micro-batch before a step outside, or use accelerator.accumulate",
                (Evidence(backwards[0].lineno, f"`{world.text(backwards[0])}`"),),
            )

    def _context(self, world: World, call: ast.Call, loop: ast.AST) -> ast.With | None:
        """The `with accelerator.no_sync(...)` around a call in a loop, if nothing but `with` stands between them."""
        found: ast.With | None = None
        for parent in world.index.ancestors(call):
            if parent is loop:
                return found
            if isinstance(parent, ast.With):
                for item in parent.items:
                    enters = item.context_expr
                    if isinstance(enters, ast.Call) and self._is_no_sync(world, enters):
                        found = parent
            elif isinstance(parent, (ast.If, ast.For, ast.While, ast.Try)):
                return None
        return None

    def _is_no_sync(self, world: World, call: ast.Call) -> bool:
        """`accelerator.no_sync(model)`, or `model.no_sync()` of the wrapper itself."""
        if world.together.verb(call) == "no_sync":
            return True
        func = call.func
        return (
            isinstance(func, ast.Attribute) and func.attr == "no_sync" and bool(world.prepared(func.value, Role.MODEL))
        )

    def _plain(self, world: World, call: ast.Call, loop: ast.AST) -> bool:
        """Whether a call is made in every iteration of a loop."""
        for parent in world.index.ancestors(call):
            if parent is loop:
                return True
            if isinstance(parent, (ast.If, ast.For, ast.While, ast.Try)):
                return False
        return False
