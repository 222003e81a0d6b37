"""What `prepare` is given that it cannot wrap, has wrapped already, or does not wrap a second time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import library
from accelift_codemod.facts.freezing import Switch, switches
from accelift_codemod.facts.index import position
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Evidence, Role, Value
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity

# What a model may be asked between being frozen and being prepared, without becoming trainable again.
_HARMLESS = frozenset("eval train to cuda cpu half float double bfloat16 parameters named_parameters".split())
_OF_GPUS = frozenset({"device_count", "is_available"})
_SAVES = frozenset({"torch.save", "torch.serialization.save"})
_LOADS = frozenset({"torch.load", "torch.serialization.load"})


class Frozen(Lint):
    """On several CPU processes `prepare` wraps a model in DistributedDataParallel, which raises an error if nothing in
    it is trained; on GPUs Accelerate 1 leaves such a model as it is. A frozen teacher or feature extractor needs no
    wrapper. (The bundled runtime does not wrap it.)
    """

    code = "PREP-FROZEN"
    severity = Severity.WARNING
    title = "a frozen model is prepared"
    library = "accelerate"
    wrong = """\
teacher.requires_grad_(False)
model, teacher, optimizer = accelerator.prepare(model, teacher, optimizer)
"""
    right = """\
teacher.requires_grad_(False)
teacher.to(accelerator.device)
model, optimizer = accelerator.prepare(model, optimizer)
"""

    def check(self, world: World) -> Iterator[Finding]:
        found = list(switches(world.resolver)) if world.wraps else []
        for argument, prepare in world.prepared_arguments:
            if any(k.arg == "evaluation_mode" for k in prepare.keywords) or not isinstance(argument, ast.Name):
                continue
            models = world.resolver.values(argument)
            if len(models) != 1 or models[0].role is not Role.MODEL or world.was_prepared(models[0], argument):
                continue
            mine = [s for s in found if world.resolver.values(s.root) == models]
            off = next((s for s in mine if not s.on and not s.path), None)
            if off is None or any(s.on for s in mine) or not self._stays(world, off, argument, prepare):
                continue
            yield Finding(
                self.code,
                self.severity,
                prepare.lineno,
                f"`{argument.id}` is frozen: on several CPU processes `{world.text(prepare.func)}` raises an error, "
                "since DistributedDataParallel has nothing to train (GPUs get it without a wrapper)",
                f"leave it out, and write {argument.id}.to(accelerator.device)",
                (Evidence(off.node.lineno, f"`{world.text(off.node)}` freezes it"),),
            )

    def _stays(self, world: World, off: Switch, argument: ast.Name, prepare: ast.Call) -> bool:
        """Whether a model certainly is frozen before `prepare`, and nothing may change that up to there."""
        index = world.index
        if not world.certainly_before(off.node, prepare):
            return False
        owner = index.scope(argument).owner(argument.id)
        if owner is None:
            return False
        for load in world.facts.loads(owner, argument.id):
            if not position(off.node) <= position(load) < position(prepare) or load in walk(off.node):
                continue
            parent = index.parents.get(load)
            if not (
                isinstance(parent, ast.Attribute) and parent.attr in _HARMLESS and isinstance(parent.ctx, ast.Load)
            ):
                return False
        return True


class LoadedEarly(Lint):
    """`load_state` loads into what `prepare` has been given up to then. Before it, there is nothing to load into: the
    model, the optimizer and the loaders that are prepared afterwards begin anew, without an error. (The bundled runtime
    says that the checkpoint does not fit.)
    """

    code = "STATE-EARLY"
    severity = Severity.ERROR
    title = "a state is loaded before prepare"
    library = "accelerate"
    wrong = """\
accelerator.load_state("checkpoint")
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
"""
    right = """\
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
accelerator.load_state("checkpoint")
"""

    def check(self, world: World) -> Iterator[Finding]:
        prepares = [*world.verbs("prepare", "prepare_model")]
        for call in world.verbs("load_state"):
            later = [p for p in prepares if not world.rounds(call) and self._follows(world, call, p)]
            if later and len(later) == len(prepares):
                first = min(later, key=position)
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` comes before `{world.text(first)}` (line {first.lineno}): nothing is loaded "
                    "into what is prepared there, and it begins anew",
                    "load the state after prepare",
                )

    def _follows(self, world: World, call: ast.Call, prepare: ast.Call) -> bool:
        """Whether `prepare` comes after a call where that runs: not in the other arm of a test."""
        index = world.index
        if index.function(call) is not index.function(prepare):
            return world.runs_after(call, prepare)
        mine = [*map(index.block, index.chain(call))]
        return any(
            block is other and place < at
            for block, place in mine
            for other, at in map(index.block, index.chain(prepare))
        )


class Twice(Lint):
    """`prepare` returns what is prepared already as it is: nothing is wrapped or shared out a second time."""

    code = "PREP-TWICE"
    severity = Severity.NOTE
    title = "what is prepared is prepared again"
    wrong = """\
model, optimizer = accelerator.prepare(model, optimizer)
model, loader = accelerator.prepare(model, loader)
"""
    right = """\
model, optimizer = accelerator.prepare(model, optimizer)
loader = accelerator.prepare(loader)
"""

    def check(self, world: World) -> Iterator[Finding]:
        for argument, prepare in world.prepared_arguments:
            values = world.resolver.values(argument)
            if world.index.enclosing_loops(prepare) or not values:
                continue
            first = world.resolver.prepared.get(values[0].origin)
            if first is None or not world.certainly_before(first, prepare):
                continue
            if all(world.was_prepared(v, argument) for v in values):
                yield Finding(
                    self.code,
                    self.severity,
                    prepare.lineno,
                    f"`{world.text(argument)}` is prepared already: `{world.text(prepare.func)}` returns it as it is",
                    "leave it out",
                    (Evidence(first.lineno, f"`{world.text(first)}`"),),
                )


class Replicated(Lint):
    """`DataParallel` drives all GPUs from one process. Accelerate has a process for each GPU, and wraps the model
    itself: with both, every process copies the model to the GPUs of the others, or fails where its own is not the
    first.
    """

    code = "DDP-REPLICAS"
    severity = Severity.ERROR
    title = "a prepared model is in DataParallel, too"
    wrong = """\
model = torch.nn.DataParallel(model)
model, optimizer = accelerator.prepare(model, optimizer)
"""
    right = """\
model, optimizer = accelerator.prepare(model, optimizer)
"""

    def check(self, world: World) -> Iterator[Finding]:
        wrapped = [c for c in world.calls if world.qualified(c) in library.DATA_PARALLEL and self._always(world, c)]
        given = {
            part: prepare
            for argument, prepare in (world.prepared_arguments if wrapped else ())
            for part in world.flow.sources(argument, lambda node: isinstance(node, ast.Call))
        }
        for call in wrapped:
            inner = world.resolver.argument(call, 0, "module")
            prepare = given.get(call)
            if prepare is None and not world.prepared(inner, Role.MODEL):
                continue
            when = f"`{world.text(prepare.func)}` (line {prepare.lineno}) wraps" if prepare else "`prepare` has wrapped"
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` uses all GPUs from each of the processes, and {when} the model for its own",
                "leave DataParallel out, and start as many processes as there are GPUs",
            )

    def _always(self, world: World, call: ast.Call) -> bool:
        """Whether a call runs, and no test around it but of the GPUs that are there may be about the processes."""
        tests = [p.test for p in world.index.ancestors(call) if isinstance(p, (ast.If, ast.IfExp))]
        parts = [p for t in tests for p in (t.values if isinstance(t, ast.BoolOp) else [t])]
        asked = all(any(isinstance(n, ast.Attribute) and n.attr in _OF_GPUS for n in walk(p)) for p in parts)
        return asked and world.facts.runs(call) and not world.ranks.counted(call)


class CopiedMark(Lint):
    """`prepare` marks a model, and does not wrap one that has the mark. Pickled as a whole on one process, the model
    keeps it: a run on several processes that loads and prepares it has no wrapper, and trains each process's model on
    its own data without an error. State dicts carry no mark. (The bundled runtime makes none.)
    """

    code = "PREP-FLAG-COPY"
    severity = Severity.WARNING
    title = "a pickled model is marked as prepared"
    library = "accelerate"
    wrong = """\
model = accelerator.prepare(torch.load("model.pt", weights_only=False))
...
torch.save(accelerator.unwrap_model(model), "model.pt")
"""
    right = """\
model.load_state_dict(torch.load("model.pt"))
model = accelerator.prepare(model)
...
torch.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
"""

    def check(self, world: World) -> Iterator[Finding]:
        loaded = [
            (argument, prepare)
            for argument, prepare in world.prepared_arguments
            if (values := world.resolver.values(argument)) and all(self._loaded(world, v) for v in values)
        ]
        for call in world.calls:
            if not loaded or (world.qualified(call) not in _SAVES and world.together.verb(call) != "save"):
                continue
            obj = world.resolver.argument(call, 0, "obj")
            values = world.resolver.values(obj)
            origins = {world.resolver.values(a)[0].origin for a, _ in loaded}
            if not values or any(world.original(v).origin not in origins for v in values):
                continue
            argument, prepare = loaded[0]
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` pickles the model with the mark that it is prepared: saved by one process, "
                f"loaded and prepared (line {prepare.lineno}) by several, it is not wrapped, and they drift apart",
                "save and load its state_dict()",
                (Evidence(argument.lineno, f"`{world.text(argument)}` is a model that was loaded as a whole"),),
            )

    def _loaded(self, world: World, value: Value) -> bool:
        return isinstance(value.origin, ast.Call) and world.qualified(value.origin) in _LOADS


class Keys(Lint):
    """On several processes the keys of a prepared model's state dict begin with `module.`, on one process they do not.
    What one kind of run has saved, the other cannot load into its prepared model. (The bundled runtime's prepared
    models have the keys of the plain ones.)
    """

    code = "CKPT-KEYS"
    severity = Severity.NOTE
    title = "a state dict is loaded into the wrapper"
    library = "accelerate"
    wrong = """\
model = accelerator.prepare(model)
model.load_state_dict(torch.load("model.pt"))
"""
    right = """\
model = accelerator.prepare(model)
accelerator.unwrap_model(model).load_state_dict(torch.load("model.pt"))
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.index.methods.get("load_state_dict", []) if world.wraps else ():
            assert isinstance(call.func, ast.Attribute)
            models = world.prepared(call.func.value, Role.MODEL)
            if models and all(map(world.wrapped, models)) and world.facts.runs(call):
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` asks for keys that begin with `module.` on several processes, and for "
                    "others on one",
                    f"load it into accelerator.unwrap_model({world.text(call.func.value)})",
                )
