"""Prepared models and loaders that are asked for what the wrapper does not have."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.plugins import may_share_otherwise
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Evidence, Role, Value, Values
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity

_TRANSFORMERS = frozenset(
    "generate config save_pretrained push_to_hub resize_token_embeddings get_input_embeddings "
    "gradient_checkpointing_enable generation_config".split()
)
# What DistributedDataParallel has by these names.
_WRAPPER = frozenset(
    "forward module training device device_ids output_device dim process_group mesh broadcast_buffers reducer logger "
    "find_unused_parameters static_graph gradient_as_bucket_view mixed_precision join no_sync gather scatter to_kwargs "
    "join_hook join_device join_process_group register_comm_hook to_empty ipu xpu mtia set_submodule call_super_init "
    "register_load_state_dict_pre_hook register_state_dict_post_hook register_state_dict_pre_hook".split()
)
_MAP_STYLE = frozenset({"torch.utils.data.TensorDataset", "torch.utils.data.Subset"})


class Method(Lint):
    """On several processes Accelerate wraps the prepared model in DistributedDataParallel, which has neither its
    methods nor its attributes: asking for one raises an AttributeError. Unwrapped, the model can be asked; but a
    forward pass of the unwrapped model that gradients are computed from goes past the wrapper, nothing averages them,
    and the processes drift apart without an error. So it is with a model that is unwrapped in the variable that the
    training goes on with. An attribute that is set is set on the wrapper, and the model does not see it. (The bundled
    runtime sends methods through the wrapper by itself.)
    """

    code = "DDP-METHOD"
    severity = Severity.ERROR
    title = "the wrapper has no such method, or is gone past"
    library = "accelerate"
    wrong = """\
model = accelerator.prepare(model)
loss = model.training_loss(batch)
"""
    right = """\
class Net(nn.Module):
    def forward(self, batch):
        return self.training_loss(batch)
...
model = accelerator.prepare(model)
loss = model(batch)
"""

    def check(self, world: World) -> Iterator[Finding]:
        if not world.wraps:
            return
        for nodes in world.index.attributes.values():
            for node in nodes:
                if isinstance(node.ctx, ast.Store) and self._misses(world, node):
                    name = world.text(node.value)
                    yield Finding(
                        self.code,
                        self.severity,
                        node.lineno,
                        f"`{world.text(node)}` is set on the wrapper on several processes: the model itself keeps the "
                        f"`{node.attr}` that it has",
                        f"set it on accelerator.unwrap_model({name})",
                    )
                if not isinstance(node.ctx, ast.Load):
                    continue
                models = world.prepared(node.value, Role.MODEL) or world.prepared(node.value, Role.OBJECT)
                if models and all(self._lacks(world, m, node.attr) for m in models) and not self._asks(world, node):
                    shared = " (if neither FSDP nor DeepSpeed has it)" if may_share_otherwise(world.resolver) else ""
                    yield Finding(
                        self.code,
                        Severity.WARNING if shared else self.severity,
                        node.lineno,
                        f"`{world.text(node)}`: on several processes the model is wrapped in "
                        f"DistributedDataParallel{shared}, which has no `{node.attr}`",
                        "call it from forward if it trains, else on accelerator.unwrap_model(...)",
                    )
        for subscript in (n for n in walk(world.index.tree) if isinstance(n, ast.Subscript)):
            models = world.prepared(subscript.value, Role.MODEL)
            if models and all(m.name == "torch.nn.Sequential" for m in models) and not self._asks(world, subscript):
                yield Finding(
                    self.code,
                    self.severity,
                    subscript.lineno,
                    f"`{world.text(subscript)}`: on several processes the model is wrapped in DistributedDataParallel, "
                    "which cannot be indexed",
                    "index accelerator.unwrap_model(...), or prepare the parts",
                )
        for call in world.verbs("backward"):
            loss = world.resolver.argument(call, 0, "loss")
            forward = self._past(world, loss) if loss is not None else None
            if forward is not None:
                yield Finding(
                    self.code,
                    self.severity,
                    forward.lineno,
                    f"`{world.text(forward)}` goes past the wrapper of the prepared model, and its result is "
                    "backpropagated: gradients are not averaged, and the processes drift apart",
                    "call the prepared model itself",
                    (Evidence(call.lineno, f"`{world.text(call)}`"),),
                )

        yield from self._taken_off(world)

    def _taken_off(self, world: World) -> Iterator[Finding]:
        """Variables that hold the unwrapped model instead of the wrapper when the training goes on."""
        losses = (c.args[0] for c in world.verbs("backward") if c.args)
        reads = (n for loss in losses for n in world.flow.sources(loss) if isinstance(n, ast.Name))
        said: set[ast.AST] = set()
        for read in reads:
            trained = any(v.role is Role.MODEL and world.resolver.is_prepared(v) for v in world.resolver.values(read))
            for binding in world.resolver.bindings(read) if trained else ():
                call = binding.value
                if binding.path or not isinstance(call, ast.Call) or world.together.verb(call) != "unwrap_model":
                    continue
                of = call.args[0] if call.args else None
                if (
                    not isinstance(of, ast.Name)
                    or of.id != binding.name
                    or call in said
                    or self._at_the_end(world, call)
                ):
                    continue
                said.add(call)
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{binding.name}` is the model without its wrapper from here on, and trained further (line "
                    f"{read.lineno}): gradients are not averaged, and the processes drift apart",
                    "give the unwrapped model a name of its own",
                )

    def _at_the_end(self, world: World, call: ast.Call) -> bool:
        """Whether no training may follow a statement: it leaves the loop, or a test compares how far the training is,
        otherwise than by a remainder."""
        statement = world.index.statement(call)
        block, place = world.index.block(statement)
        if any(isinstance(n, (ast.Break, ast.Return, ast.Raise)) for later in block[place:] for n in walk(later)):
            return True
        tests = [p.test for p in world.index.ancestors(statement) if isinstance(p, ast.If)]
        counts = (t for t in tests if not any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in walk(t)))
        ends = (ast.Eq, ast.Gt, ast.GtE, ast.Lt, ast.LtE)
        return any(isinstance(n, ast.Compare) and isinstance(n.ops[0], ends) for t in counts for n in walk(t))

    def _lacks(self, world: World, model: Value, name: str) -> bool:
        """Whether the wrapper certainly has no such attribute, and there is one: the model has it, or is trained, so
        that there is a wrapper around it."""
        if name in torch_ops.MODULE_METHODS or name in _WRAPPER or name.startswith("_"):
            return False
        known = bool(model.inner) and model.declaration is None  # what was prepared, but not what it is
        return world.wrapped(model) if self._has(world, model, name) else known and world.trained.surely(model)

    def _misses(self, world: World, node: ast.Attribute) -> bool:
        """Whether a prepared model asks itself for an attribute that is set from outside, where its wrapper is."""
        models = world.prepared(node.value, Role.MODEL)
        if node.attr in torch_ops.MODULE_METHODS or node.attr in _WRAPPER or self._asks(world, node):
            return False
        return bool(models) and all(world.wrapped(m) and self._asks_itself(world, m, node.attr) for m in models)

    def _asks_itself(self, world: World, model: Value, name: str) -> bool:
        reads = [n for n in world.index.attributes.get(name, []) if isinstance(n.ctx, ast.Load)]
        own = [n for n in reads if isinstance(n.value, ast.Name) and n.value.id == "self"]
        classes = world.resolver.ancestry(model.declaration)
        return any(parent in classes for n in own for parent in world.index.ancestors(n))

    def _has(self, world: World, model: Value, name: str) -> bool:
        """Whether a model certainly has an attribute of its own."""
        if model.declaration is not None:
            if world.resolver.method(model.declaration, name) is not None:
                return True
            for cls in world.resolver.ancestry(model.declaration):
                for node in walk(cls):
                    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == name:
                        if isinstance(node.value, ast.Name) and node.value.id == "self":
                            return True
            return False
        return model.name.startswith("transformers.") and name in _TRANSFORMERS

    def _asks(self, world: World, node: ast.expr) -> bool:
        """Whether the script asks before whether the model is wrapped."""
        child: ast.AST = node
        for parent in world.index.ancestors(node):
            if isinstance(parent, ast.IfExp) and _goes_into_wrapper(parent):
                return True
            if isinstance(parent, ast.If) and any(
                _goes_into_wrapper(statement)
                for arm in (parent.body, parent.orelse)
                if child not in arm
                for statement in arm
            ):
                return True
            if isinstance(child, ast.stmt) and any(
                _goes_into_wrapper(statement)
                for test in world.ranks.left_before(child)
                for statement in world.index.parents[test].body  # type: ignore[attr-defined]
            ):
                return True
            child = parent
            if isinstance(parent, (ast.If, ast.IfExp, ast.Try)):
                test = getattr(parent, "test", None)
                if test is None or any(
                    isinstance(n, ast.Name) and n.id in ("hasattr", "isinstance", "getattr") for n in walk(test)
                ):
                    return True
                if any(
                    isinstance(n, ast.Attribute) and n.attr in ("num_processes", "distributed_type", "use_distributed")
                    for n in walk(test)
                ):
                    return True
        return False

    def _past(self, world: World, loss: ast.expr) -> ast.Call | None:
        """The only forward pass that a loss comes from, if it is that of a prepared model without its wrapper."""
        found: ast.Call | None = None
        for part in world.flow.sources(loss):
            if not isinstance(part, ast.Call):
                continue
            values = world.resolver.values(part.func)
            if any(v.role is Role.MODEL and world.resolver.is_prepared(v) for v in values):
                return None
            wrapper = isinstance(part.func, ast.Attribute) and world.prepared(part.func.value, Role.MODEL)
            if wrapper and part.func.attr != "module":  # type: ignore[attr-defined]
                return None
            inner = self._inside(world, part)
            if not wrapper and inner:
                values = inner
            if values and all(v.role is Role.MODEL and world.is_given(v) for v in values):
                if not world.gradients_off(part) and (wrapper or inner or self._after(world, part, values[0])):
                    found = found or part
        return found

    def _inside(self, world: World, call: ast.Call) -> Values:
        """The unwrapped model of which a call runs a method of the script on a batch; none if it is no such call."""
        func = call.func
        if not isinstance(func, ast.Attribute) or not self._unwraps(world, func.value):
            return ()
        given = (*call.args, *(k.value for k in call.keywords))
        if not any(world.flow.from_batch(argument) is not None for argument in given):
            return ()
        values = world.resolver.values(func.value)
        methods = [world.resolver.method(v.declaration, func.attr) for v in values]
        return values if all(m is not None and not world.gradients_off(m.body[0]) for m in methods) else ()

    def _unwraps(self, world: World, node: ast.expr) -> bool:
        """`accelerator.unwrap_model(model)` or `model.module`."""
        if isinstance(node, ast.Name):
            bindings = world.resolver.bindings(node)
            value = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
            return isinstance(value, (ast.Call, ast.Attribute)) and self._unwraps(world, value)
        if isinstance(node, ast.Attribute):
            return node.attr == "module" and bool(world.prepared(node.value, Role.MODEL))
        return isinstance(node, ast.Call) and world.together.verb(node) == "unwrap_model"

    def _after(self, world: World, call: ast.Call, model: Value) -> bool:
        """Whether a call certainly comes after its model was prepared."""
        return any(
            (model.origin, model.role) in {(v.origin, v.role) for v in world.resolver.values(argument)}
            and world.runs_after(prepare, call)
            for argument, prepare in world.prepared_arguments
        ) or any(
            isinstance(n, ast.Call) and world.together.verb(n) == "unwrap_model" for n in world.flow.sources(call.func)
        )


def _goes_into_wrapper(node: ast.AST) -> bool:
    """Whether a part of the script knows of a wrapper, and asks for what is in it."""
    return any(isinstance(n, ast.Attribute) and n.attr == "module" for n in walk(node))


class LoaderAttribute(Lint):
    """Accelerate's prepared loader deals batches of another sampler: its `batch_size` is None and its `sampler` counts
    indices in order, whatever those of the original loader were.
    """

    code = "LOADER-ATTR"
    severity = Severity.ERROR
    title = "a prepared loader has lost the attribute"
    library = "accelerate"
    wrong = """\
loader = accelerator.prepare(DataLoader(dataset, batch_size=32, shuffle=True))
samples = len(loader) * loader.batch_size
"""
    right = """\
loader = accelerator.prepare(DataLoader(dataset, batch_size=32, shuffle=True))
samples = len(loader) * loader.total_batch_size
"""

    def check(self, world: World) -> Iterator[Finding]:
        for name in ("batch_size", "sampler"):
            for node in world.index.attributes.get(name, []):
                loaders = world.prepared(node.value, Role.LOADER)
                if not loaders or not isinstance(node.ctx, ast.Load) or not all(self._map(world, v) for v in loaders):
                    continue
                what = "is None after prepare" if name == "batch_size" else "is a plain SequentialSampler after prepare"
                remedy = (
                    "use loader.total_batch_size, or keep the number in a variable"
                    if name == "batch_size"
                    else "call set_epoch on the prepared loader; keep the sampler in a variable"
                )
                yield Finding(self.code, self.severity, node.lineno, f"`{world.text(node)}` {what}", remedy)

    def _map(self, world: World, value: Value) -> bool:
        """Whether a loader certainly has a data set with a length, and is not made of a batch sampler."""
        loader = world.facts.objects.loader(world.original(value))
        if loader.call is None or not loader.complete or "batch_sampler" in loader.arguments:
            return False
        shuffle = loader.arguments.get("shuffle")
        if is_constant(shuffle, True):
            return True
        dataset = world.resolver.values(loader.arguments.get("dataset"))
        return bool(dataset) and all(
            v.name in _MAP_STYLE or v.name.startswith("torchvision.datasets.") for v in dataset
        )


class UnwrapForGood(Lint):
    """`unwrap_model(model, keep_fp32_wrapper=False)` changes the model itself: from then on its forward pass runs
    without mixed precision. In the middle of training, the rest is trained in another precision.
    """

    code = "UNWRAP-FP32"
    severity = Severity.WARNING
    title = "unwrapping switches mixed precision off"
    library = "accelerate"
    wrong = """\
for epoch in range(epochs):
    train(...)
    torch.save(accelerator.unwrap_model(model, keep_fp32_wrapper=False).state_dict(), "model.pt")
"""
    right = """\
for epoch in range(epochs):
    train(...)
    torch.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
"""

    def check(self, world: World) -> Iterator[Finding]:
        precision = world.setting("mixed_precision")
        if isinstance(precision, ast.Constant) and precision.value == "no":
            return
        for call in world.verbs("unwrap_model"):
            flag = world.resolver.argument(call, 1, "keep_fp32_wrapper")
            if not is_constant(flag, False):
                continue
            loops = world.rounds(call)
            if any(self._trains(world, loop) for loop in loops):
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` switches mixed precision off for the rest of the training",
                    "leave keep_fp32_wrapper at True here",
                )

    def _trains(self, world: World, loop: ast.AST) -> bool:
        for node in walk(loop):
            if isinstance(node, ast.Call):
                if world.together.verb(node) == "backward":
                    return True
                target = world.resolver.callee(node)
                if isinstance(target, FUNCTIONS) and world.facts.loops.reaches_backward(target.body):
                    return True
        return False


class BatchNorm(Lint):
    """BatchNorm computes its statistics from the process's own share of the batch. With small shares they are noisier
    than on one process, and results differ. torch.nn.SyncBatchNorm computes them from the whole batch.
    """

    code = "NOTE-BN"
    severity = Severity.NOTE
    title = "BatchNorm sees one process's share"
    wrong = """\
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16))
model = accelerator.prepare(model)
"""
    right = """\
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16))
model = accelerator.prepare(nn.SyncBatchNorm.convert_sync_batchnorm(model))
"""

    def check(self, world: World) -> Iterator[Finding]:
        if world.mentions("convert_sync_batchnorm") or not any(True for _ in world.verbs("backward")):
            return
        for call in world.calls:
            module, _, name = world.qualified(call).rpartition(".")
            if module == "torch.nn" and name in torch_ops.BATCH_NORM:
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    "BatchNorm computes its statistics from each process's share of the batch",
                    "convert the model with torch.nn.SyncBatchNorm if small shares hurt",
                )
                return
