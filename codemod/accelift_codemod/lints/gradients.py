"""Gradients that the wrapper of a prepared model does not average."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.freezing import Switch, switches
from accelift_codemod.facts.index import FUNCTIONS, position
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Evidence, Role, Value
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity

_IN_PLACE = frozenset({"add_", "sub_", "copy_", "mul_", "addcmul_", "addcdiv_"})
_SYNCED = frozenset({"accumulate", "autocast", "profile"})  # contexts in which gradients are averaged when it is time
_CALLERS = 3
_LAYERS = ("Linear", "Conv", "Embedding", "LSTM", "GRU", "RNN", "Sequential", "Transformer", "MultiheadAttention")


class TwoBackwards(Lint):
    """DistributedDataParallel averages the gradients of one backward pass for each forward pass. What a second one adds
    (`retain_graph=True`) stays as it is on each process: without an error the processes drift apart, or torch says that
    a variable was marked ready twice. (The bundled runtime's `accelerator.backward` averages it, too.)
    """

    code = "DDP-TWOBWD"
    severity = Severity.ERROR
    title = "a second backward through one forward is not averaged"
    wrong = """\
logits, features = model(inputs)
accelerator.backward(criterion(logits, targets), retain_graph=True)
accelerator.backward(penalty(features))
"""
    right = """\
logits, features = model(inputs)
accelerator.backward(criterion(logits, targets) + penalty(features))
"""

    def check(self, world: World) -> Iterator[Finding]:
        if not world.wraps or world.mentions("static_graph"):
            return
        calls = [*world.verbs("backward"), *world.facts.loops.backwards]
        calls = sorted(dict.fromkeys(c for c in calls if world.facts.runs(c)), key=position)
        for first in calls:
            if not self._retains(first):
                continue
            again = self._in_rounds(world, first)
            if again is not None and not (world.library == "accelift" and world.together.verb(first)):
                yield Finding(
                    self.code,
                    self.severity,
                    first.lineno,
                    f"`{world.text(first)}` goes through `{world.text(again)}` in every round of a loop: what all but "
                    "the first add to the gradients is not averaged, and the processes drift apart",
                    "add the losses, and call accelerator.backward once",
                    (Evidence(again.lineno, f"`{world.text(again)}` runs the prepared model, outside of the loop"),),
                )
                continue
            for second in calls:
                if not self._follows(world, first, second):
                    continue
                if world.library == "accelift" and world.together.verb(second):
                    break
                shared = self._forwards(world, first) & self._forwards(world, second)
                if any(self._may_be_unsynced(world, forward) for forward in shared):
                    break
                if shared and not self._again(world, first, second, shared):
                    forward = min(shared, key=position)
                    yield Finding(
                        self.code,
                        self.severity,
                        second.lineno,
                        f"`{world.text(second)}` is the second backward pass through `{world.text(forward)}`: what it "
                        "adds to the gradients is not averaged, and the processes drift apart",
                        "add the losses, and call accelerator.backward once",
                        (
                            Evidence(forward.lineno, f"`{world.text(forward)}` runs the prepared model"),
                            Evidence(first.lineno, f"`{world.text(first)}` is the first backward pass through it"),
                        ),
                    )
                break

    def _in_rounds(self, world: World, call: ast.Call) -> ast.Call | None:
        """The forward pass outside of a loop through which each of its rounds goes back."""
        loop = next(iter(world.index.enclosing_loops(call)), None)
        forwards = self._forwards(world, call) if loop is not None else set()
        if loop is None or any(loop in world.index.ancestors(forward) for forward in forwards):
            return None
        known = {v.origin for forward in forwards for v in world.resolver.values(forward.func)}
        for other in (n for n in walk(loop) if isinstance(n, ast.Call)):
            if world.resolver.callee(other) is not None or any(
                v.origin in known for v in world.resolver.values(other.func)
            ):
                return None  # which may run the model again
        forward = min(forwards, key=position, default=None)
        return None if forward is None or self._may_be_unsynced(world, forward) else forward

    def _may_be_unsynced(self, world: World, node: ast.AST, steps: int = _CALLERS) -> bool:
        """Whether a forward pass may run under `no_sync()`, so that no backward pass through it is averaged; in a
        function, where that is called."""
        if not world.mentions("no_sync"):
            return False
        function = world.index.function(node)
        for around in world.index.ancestors(node):
            if isinstance(around, (ast.With, ast.AsyncWith)) and world.index.function(around) is function:
                if any(getattr(getattr(i.context_expr, "func", None), "attr", "") not in _SYNCED for i in around.items):
                    return True
        if not isinstance(function, FUNCTIONS):
            return False
        sites = world.resolver.sites(function)
        return not steps or not sites or any(self._may_be_unsynced(world, site, steps - 1) for site in sites)

    def _retains(self, call: ast.Call) -> bool:
        return any(
            k.arg == "retain_graph" and isinstance(k.value, ast.Constant) and k.value.value for k in call.keywords
        )

    def _follows(self, world: World, first: ast.Call, second: ast.Call) -> bool:
        """Whether the second call comes after the first, which has certainly run then, in one function."""
        return position(first) < position(second) and world.certainly_before(first, second)

    def _forwards(self, world: World, call: ast.Call) -> set[ast.Call]:
        """The forward passes of prepared models, in the same function, through which a backward pass goes."""
        loss = world.resolver.argument(call, 0, "loss") if world.together.verb(call) else None
        if loss is None and isinstance(call.func, ast.Attribute) and not world.together.verb(call):
            loss = call.func.value
        if loss is None:
            return set()
        return {
            part
            for part in _behind(world, loss)
            if isinstance(part, ast.Call)
            and world.prepared(part.func, Role.MODEL)
            and world.index.function(part) is world.index.function(call)
            and position(part) < position(call)
        }

    def _again(self, world: World, first: ast.Call, second: ast.Call, shared: set[ast.Call]) -> bool:
        """Whether something between two passes may run the model again, so that the wrapper expects another one."""
        function, own = world.index.function(first), set(walk(first))
        known = {v.origin for forward in shared for v in world.resolver.values(forward.func)}
        for call in world.calls:
            if not position(first) < position(call) < position(second) or world.index.function(call) is not function:
                continue
            if call in own:
                continue
            if world.resolver.callee(call) is not None:
                return True
            if any(v.origin in known for v in world.resolver.values(call.func)):
                return True
            if any(v.origin in known for a in call.args for v in world.resolver.values(a)):
                return True
        return False


class Unfrozen(Lint):
    """DistributedDataParallel averages the gradients of the parameters that are trained when `prepare` is called. Those
    that are unfrozen afterwards are trained on each process's own data: without any error the processes drift apart.
    (The bundled runtime's `accelerator.backward` averages them, too.)
    """

    code = "DDP-UNFREEZE"
    severity = Severity.ERROR
    title = "parameters are unfrozen after prepare"
    library = "accelerate"
    wrong = """\
model.backbone.requires_grad_(False)
model, optimizer = accelerator.prepare(model, optimizer)
...
if epoch == 5:
    accelerator.unwrap_model(model).backbone.requires_grad_(True)
"""
    right = """\
model, optimizer = accelerator.prepare(model, optimizer)
if epoch < 5:
    set_learning_rate_of_backbone(optimizer, 0.0)
"""

    def check(self, world: World) -> Iterator[Finding]:
        found = list(switches(world.resolver))
        if not world.wraps or not any(s.on for s in found) or not any(True for _ in world.verbs("backward")):
            return
        for argument, prepare in world.prepared_arguments:
            models = world.resolver.values(argument)
            if len(models) != 1 or models[0].role is not Role.MODEL:
                continue
            mine = [s for s in found if self._of(world, s, models[0])]
            before = [s for s in mine if world.certainly_before(s.node, prepare)]
            after = [s for s in mine if s.on and world.runs_after(prepare, s.node)]
            if len([a for a, _ in world.prepared_arguments if world.resolver.values(a) == models]) > 1:
                continue
            for on in after:
                undone = [s for s in mine if s.on and s is not on and not world.runs_after(prepare, s.node)]
                off = next((s for s in before if self._frozen(s, on, undone)), None)
                if off is None:
                    continue
                yield Finding(
                    self.code,
                    self.severity,
                    on.node.lineno,
                    f"`{world.text(on.node)}` unfreezes what was frozen when `{world.text(prepare.func)}` wrapped the "
                    "model: its gradients are not averaged, and the processes drift apart",
                    "prepare the model with everything trained, and keep its learning rate at 0 until then",
                    (
                        Evidence(off.node.lineno, f"`{world.text(off.node)}` freezes it"),
                        Evidence(prepare.lineno, f"`{world.text(prepare)}`"),
                    ),
                )
                break

    def _frozen(self, off: Switch, on: Switch, undone: list[Switch]) -> bool:
        """Whether a statement freezes something that another one unfreezes later, and none before."""
        if off.on or any(s.covers(on) or s.covers(off) for s in undone):
            return False
        return off.covers(on) or on.covers(off)

    def _of(self, world: World, switch: Switch, model: Value) -> bool:
        values = [world.original(v) for v in world.resolver.values(switch.root)]
        return bool(values) and all(v.origin is model.origin and v.role is model.role for v in values)


class GradFunction(Lint):
    """`torch.autograd.grad` returns gradients and averages none: only backward does. A script that updates parameters
    with them by hand trains each process's model on its own data: without any error the processes drift apart.
    """

    code = "DDP-GRADFN"
    severity = Severity.ERROR
    title = "gradients of torch.autograd.grad are not averaged"
    wrong = """\
gradients = torch.autograd.grad(criterion(model(inputs), targets), parameters)
with torch.no_grad():
    for parameter, gradient in zip(parameters, gradients):
        parameter -= 0.1 * gradient
"""
    right = """\
gradients = torch.autograd.grad(criterion(model(inputs), targets), parameters)
gradients = accelerator.reduce(gradients, reduction="mean")
with torch.no_grad():
    for parameter, gradient in zip(parameters, gradients):
        parameter -= 0.1 * gradient
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            if world.qualified(call) != "torch.autograd.grad" or not world.facts.runs(call):
                continue
            loss, inputs = world.resolver.argument(call, 0, "outputs"), world.resolver.argument(call, 1, "inputs")
            if loss is None or inputs is None or world.resolver.argument(call, 4, "create_graph") is not None:
                continue
            parameters = self._parameters(world, inputs)
            update = self._update(world, call)
            if parameters is None or update is None or world.flow.from_batch(loss) is None:
                continue
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` averages no gradients, and `{world.text(update)}` (line {update.lineno}) trains "
                "with them: the processes drift apart",
                'average them with accelerator.reduce(gradients, reduction="mean"), or call accelerator.backward',
                (Evidence(parameters.lineno, f"`{world.text(parameters)}` are those of a prepared model"),),
            )

    def _parameters(self, world: World, inputs: ast.expr) -> ast.Call | None:
        for part in world.flow.sources(inputs):
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
                if part.func.attr in ("parameters", "named_parameters"):
                    values = world.resolver.values(part.func.value)
                    if values and all(v.role is Role.MODEL and world.is_given(v) for v in values):
                        return part
        return None

    def _update(self, world: World, call: ast.Call) -> ast.stmt | None:
        """The statement that changes parameters by what a call returns, which nothing joins on the way."""
        function = world.index.function(call)

        def ends(node: ast.AST) -> bool:
            return node is call or _cut_value(node) or world.flow.names_prepared(node)

        for statement in (n for n in walk(function or world.index.tree) if isinstance(n, ast.stmt)):
            given: list[ast.expr] = []
            if isinstance(statement, ast.AugAssign):
                given = [statement.value]
            elif isinstance(statement, ast.Assign):
                if any(isinstance(t, ast.Attribute) and t.attr in ("grad", "data") for t in statement.targets):
                    given = [statement.value]
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                func = statement.value.func
                if isinstance(func, ast.Attribute) and func.attr in _IN_PLACE:
                    given = statement.value.args
            parts = [part for node in given for part in world.flow.sources(node, ends)]
            if call in parts and not any(self._joins(world, part) for part in parts):
                return statement
        return None

    def _joins(self, world: World, part: ast.AST) -> bool:
        if isinstance(part, ast.Call):
            return bool(world.together.of(part)) or world.flow.unknown(part)
        if isinstance(part, ast.Name):
            owner = world.index.scope(part).owner(part.id)
            return owner is not None and (owner, part.id) in world.joined
        return False


class Submodule(Lint):
    """DistributedDataParallel averages gradients of what is computed by calling the wrapper. A part of the prepared
    model that is called itself goes past it: without any error the processes drift apart. (The bundled runtime's
    `accelerator.backward` averages the gradients of every prepared model.)
    """

    code = "DDP-SUBMODULE"
    severity = Severity.ERROR
    title = "parts of a prepared model are called past its wrapper"
    library = "accelerate"
    wrong = """\
model = accelerator.prepare(nn.Sequential(encoder, decoder))
loss = criterion(decoder(encoder(inputs)), targets)
accelerator.backward(loss)
"""
    right = """\
encoder, decoder = accelerator.prepare(encoder, decoder)
loss = criterion(decoder(encoder(inputs)), targets)
accelerator.backward(loss)
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.verbs("backward") if world.wraps else ():
            loss = world.resolver.argument(call, 0, "loss")
            if loss is None or world.flow.from_batch(loss) is None:
                continue
            calls = [p for p in _behind(world, loss) if isinstance(p, ast.Call)]
            if any(v.role is Role.MODEL and world.is_given(v) for c in calls for v in world.resolver.values(c.func)):
                continue  # a forward pass of a whole model
            past = next((c for c in calls if self._is_part(world, c)), None)
            if past is not None:
                yield Finding(
                    self.code,
                    self.severity,
                    past.lineno,
                    f"`{world.text(past.func)}` is a part of a prepared model, called past its wrapper, and is "
                    "backpropagated: its gradients are not averaged, and the processes drift apart",
                    "call the prepared model itself, or prepare its parts instead",
                    (Evidence(call.lineno, f"`{world.text(call)}`"),),
                )

    def _is_part(self, world: World, call: ast.Call) -> bool:
        """Whether a call certainly runs a layer with parameters that lies in a prepared model."""
        func = call.func
        if isinstance(func, (ast.Attribute, ast.Subscript)):
            values = world.resolver.values(func.value)
            unwraps = isinstance(func.value, ast.Call) and world.together.verb(func.value) == "unwrap_model"
            wrapper = isinstance(func.value, ast.Attribute) and func.value.attr == "module"
            if (
                not values
                or not (unwraps or wrapper)
                or not all(v.role is Role.MODEL and world.is_given(v) for v in values)
            ):
                return False
            if isinstance(func, ast.Subscript):
                return all(v.name == "torch.nn.Sequential" for v in values)
            return all(self._has_layer(world, v, func.attr) for v in values)
        values = world.resolver.values(func)
        layers = bool(values) and all(_trains(v) and not world.is_given(v) for v in values)
        return layers and any(
            world.index.function(prepare) is world.index.function(call)
            and position(prepare) < position(call)
            and any(self._made_of(world, whole, v) for whole in world.resolver.values(argument) for v in values)
            for argument, prepare in world.prepared_arguments
        )

    def _made_of(self, world: World, whole: Value, part: Value) -> bool:
        made = world.original(whole).origin
        return isinstance(made, ast.Call) and any(
            v.origin is part.origin and v.role is part.role
            for a in (*made.args, *(k.value for k in made.keywords))
            for v in world.resolver.values(a)
        )

    def _has_layer(self, world: World, model: Value, name: str) -> bool:
        for cls in world.resolver.ancestry(model.declaration):
            for binding in world.index.attribute_bindings.get(name, []):
                if world.index.enclosing_class(binding.node) is cls and binding.value is not None:
                    values = world.resolver.values(binding.value)
                    return bool(values) and all(map(_trains, values))
        return False


def _trains(value: Value) -> bool:
    """Whether a value is a module that has parameters for certain."""
    if value.role is not Role.MODEL:
        return False
    return value.declaration is not None or value.name.rpartition(".")[2].startswith(_LAYERS)


def _behind(world: World, loss: ast.expr) -> Iterator[ast.AST]:
    """What a loss comes from, and may give gradients on to."""

    def cuts(node: ast.AST) -> bool:
        func = node.func if isinstance(node, ast.Call) else node
        if isinstance(func, ast.Attribute) and func.attr in torch_ops.NO_GRADIENT:
            return True
        return isinstance(node, ast.Compare) or world.gradients_off(node)

    return (part for part in world.flow.sources(loss, cuts) if not cuts(part))


def _cut_value(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item"
