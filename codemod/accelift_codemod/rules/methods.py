"""Reaches through the wrapper that `prepare` may put around a model."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.blueprint.rebinding import WRAPPERS, is_bare, is_inner, taken_out
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, Value, position
from accelift_codemod.facts.conditions import TRUE
from accelift_codemod.facts.contents import inside
from accelift_codemod.facts.files import is_loaded
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.memo import kept
from accelift_codemod.networks.bypassing import trains
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity
from accelift_codemod.reach import states
from accelift_codemod.reach.callers import Callers
from accelift_codemod.rules import Explained, Rule

_RULE = "UNWRAP"
# What a wrapped model answers as the model itself would.
_TRANSPARENT = frozenset(
    "forward parameters train eval zero_grad requires_grad_ to cuda cpu apply training buffers half float "
    "double".split()
)
_RETURN_IT = frozenset("train eval requires_grad_ to cuda cpu apply half float double".split())  # the model itself
_COPIES = frozenset(
    """
    copy.deepcopy copy.copy torch.jit.script torch.jit.trace torch.onnx.export wandb.watch mlflow.pytorch.log_model
    mlflow.pytorch.save_model
    """.split()
)
# What keeps an object whole, and by which keyword it is given.
_SAVES = {
    **dict.fromkeys(("torch.save", "torch.serialization.save"), "obj"),
    **{f"{library}.{name}": "obj" for library in ("pickle", "dill", "cloudpickle") for name in ("dump", "dumps")},
    "joblib.dump": "value",
}
_DISPLAYS = (ast.Dict, ast.List, ast.Tuple)
_KEEPING = frozenset({*_SAVES, "copy.deepcopy", "copy.copy"})
# Types of which the wrapper is one if the model is, or that ask for the wrapper itself.
_ALIKE = WRAPPERS | {"torch.nn.Module"}
# Built-in functions that ask their first argument for what a wrapper does not have.
_ASKING = frozenset("len list iter enumerate getattr hasattr setattr isinstance vars type str repr print".split())
# What runs a model with other parameters, which it puts in place of those that it finds by their names.
_CALLS_WITH = ("torch.func.functional_call", "torch.nn.utils.stateless.functional_call")


class Methods(Rule):
    """Writes `accelerator.unwrap_model(model)` where a prepared model is asked for more than its forward pass.

    On several processes the prepared model is wrapped, and the wrapper hides the model's own attributes and methods
    and prefixes the names of its parameters. Attributes, state dicts, indexing, copies and methods called without
    gradients reach through. A method whose result reaches the backward pass has to go through the wrapper instead, or
    its gradients would not be averaged: the bundled runtime does that by itself, so such a call stays as it is.
    """

    code = _RULE
    name = "beyond the forward pass"
    always = True
    before = """\
model.load_state_dict(torch.load("best.pt"))
with torch.no_grad():
    z = model.encode(x)
"""
    after = """\
accelerator.unwrap_model(model).load_state_dict(torch.load("best.pt"))
with torch.no_grad():
    z = accelerator.unwrap_model(model).encode(x)
"""
    findings = (
        Explained(
            "DDP-METHOD",
            Severity.ERROR,
            "a method beyond forward reaches the backward pass",
            "A method other than forward computes what reaches the backward pass. On the model inside the wrapper its "
            "gradients would not be averaged and the processes would drift apart; Accelerate has no way to send it "
            "through the wrapper.",
        ),
        Explained(
            "DDP-CPU",
            Severity.ERROR,
            "a prepared model is moved to the CPU and run there",
            "A prepared model is moved to the CPU in place, or before it trains again, and is run there. On several "
            "GPUs it is inside a wrapper, which sends what it is given to its own GPU, where the weights are no more. "
            "A model that is moved after training, and has a name then, is taken out of its wrapper.",
        ),
        Explained(
            "CKPT-WRAPPED",
            Severity.ERROR,
            "a list or dict of models is saved whole",
            "A list or dict that holds prepared models is saved or copied as it is. On several processes these models "
            "are inside wrappers, which would be saved, too. Keep the state_dict of each model instead.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        planned = list(self._uses(draft))
        inside = {p.node for p in planned if isinstance(p, Edit) and p.operation is Operation.SURROUND and p.node}
        callers = Callers(draft, inside)
        handed: dict[ast.expr, None] = {}
        for one in planned:
            node = one.node if isinstance(one, Edit) and one.operation is Operation.SURROUND else None
            if isinstance(node, ast.Name) and is_bare(draft.facts.resolver, node):
                continue
            arguments = callers.arguments(node) if node is not None else None
            if arguments is None:
                yield from () if node is not None and self._may_stay(draft, node) else (one,)
            else:
                handed.update(dict.fromkeys(arguments))
        for argument in handed:
            yield self._unwrap(draft, argument, "what it is handed to asks the model for what the wrapper hides")

    def _may_stay(self, draft: Draft, node: ast.AST) -> bool:
        """Whether a model is only asked for its state, in a function that others call as it is: the wrapper of the
        bundled runtime gives that of the model."""
        parent = draft.facts.index.parents.get(node)
        asked = isinstance(parent, ast.Attribute) and parent.attr in ("state_dict", "load_state_dict")
        return asked and draft.runtime and states.stays(draft, node)

    def _uses(self, draft: Draft) -> Iterator[Edit | Finding]:
        parents = draft.facts.index.parents
        returned = (c for c in draft.calls if isinstance(draft.facts.resolver.callee(c), FUNCTIONS))
        for name in (*draft.facts.reads(), *returned):
            if (not isinstance(name, ast.Call) and not isinstance(name.ctx, ast.Load)) or not draft.facts.runs(name):
                continue
            if draft.blueprint.is_itself(name) or draft.blueprint.keeps_itself(name):
                continue
            models = draft.blueprint.prepared_models(name)
            if not models:
                yield from self._container(draft, name, parents.get(name))
                continue
            others = [v for v in draft.facts.resolver.values(name) if v not in models]
            if any(v.role is Role.MODEL for v in others):  # one that was kept, and put back: none if there was none
                others = [v for v in others if not v.is_none]
            if not all(self._may_be_unwrapped(draft, v) or self._is_over(draft, name, v, models) for v in others):
                continue
            if any(draft.blueprint.meets_prepared(name, m) for m in models):
                yield from self._use(draft, name, parents.get(name), models)

    def _may_be_unwrapped(self, draft: Draft, value: Value) -> bool:
        """Whether a value is a model, of which `unwrap_model` gives those back that are in no wrapper; or never there,
        as it is made by what does not run. The bundled runtime gives back None, too."""
        if value.is_none:
            return draft.runtime
        return value.role is Role.MODEL or is_loaded(value) or not draft.facts.runs(value.origin)

    def _is_over(self, draft: Draft, name: ast.expr, value: Value, models: tuple[Value, ...]) -> bool:
        """Whether a variable has a text or a number only before it is given the prepared model, surely before it is
        read: `for model in names`."""
        resolver = draft.facts.resolver
        if value.role is not Role.CONSTANT or not isinstance(name, ast.Name):
            return False
        bound = [b.node for b in resolver.bindings(name) if value in resolver.bound(b)]
        owner, chain = draft.facts.index.scope(name).owner(name.id), draft.facts.index.chain(name)
        for model in models:
            item, group = draft.blueprint.item(model), draft.blueprint.group(model)
            anchor = group.anchor if group is not None else None
            own = item is not None and item.scope is owner and item.name == name.id
            if own and isinstance(anchor, ast.stmt) and draft.function(anchor) is draft.function(name):
                if resolver.runs_before(anchor, chain) and all(position(b) < position(anchor) for b in bound):
                    return True
        return False

    def _use(
        self, draft: Draft, name: ast.expr, parent: ast.AST | None, models: tuple[Value, ...]
    ) -> Iterator[Edit | Finding]:
        node: ast.expr = name
        asked = (parent, draft.facts.index.parents.get(parent)) if parent is not None else ()
        choice = next((p for p in asked if isinstance(p, ast.IfExp) and taken_out(draft.facts.resolver, p)), None)
        if choice is not None:  # `net.module if hasattr(net, "module") else net`
            if parent is not choice:
                yield self._become(draft, choice, name)
            return
        while isinstance(parent, ast.IfExp) and node is not parent.test:  # `net.module if cuda else net`
            node, parent = parent, draft.facts.index.parents.get(parent)
        moved: ast.Call | None = None
        while isinstance(parent, ast.Attribute) and parent.value is node and parent.attr in _RETURN_IT:
            call = draft.facts.index.parents.get(parent)  # `model.cpu().state_dict()`
            if not isinstance(call, ast.Call) or call.func is not parent:
                return
            moved = call if self._to_the_cpu(draft, call, parent.attr) else moved
            node, parent = call, draft.facts.index.parents.get(call)
        if moved is not None and not isinstance(parent, ast.Attribute):
            if not isinstance(parent, ast.Expr) and not self._trains_after(draft, moved):
                yield self._unwrap(draft, name, "the wrapper sends what it is given to its own GPU")
                return
            yield from self._on_the_cpu(draft, name, moved, models)
        if isinstance(parent, ast.Attribute) and parent.value is node:
            if parent.attr in _TRANSPARENT:
                return
            if parent.attr == "no_sync" and draft.facts.processes.managed:
                call = draft.facts.index.parents.get(parent)
                if isinstance(call, ast.Call) and call.func is parent:
                    reason = "on one process there is no wrapper to ask"
                    code = "{accelerator}.no_sync"
                    yield draft.edit(_RULE, call, Operation.CALL_ON, reason, code, need=Need.STRONG)
                    return
            if is_inner(draft.facts.resolver, parent):
                yield self._become(draft, parent, name)
                return
            outer = draft.facts.index.parents.get(parent)
            if isinstance(outer, ast.Call) and outer.func is parent and trains(draft, outer, parent.attr, models):
                if not draft.runtime:
                    yield draft.finding(
                        "DDP-METHOD",
                        Severity.ERROR,
                        outer,
                        f"`{draft.facts.segment(parent)}(...)` reaches the backward pass without going through the "
                        "wrapper",
                        "call it from forward, or convert with --target runtime",
                    )
                return
            yield self._unwrap(draft, name, f"the wrapper does not have `{parent.attr}`")
        elif isinstance(parent, ast.Subscript) and parent.value is node:
            yield self._unwrap(draft, name, "the wrapper cannot be indexed")
        elif self._runs_alone(draft, node, parent):
            yield self._unwrap(draft, name, "the wrapper is not run by one process alone")
        elif isinstance(parent, ast.Call) and node in parent.args:
            qualified = draft.facts.resolver.qualified(parent.func) or ""
            builtin = draft.facts.resolver.builtin(parent.func)
            if (
                qualified in _COPIES
                or (builtin in _ASKING and self._asks(draft, parent, node))
                or self._draws(draft, parent)
            ):
                yield self._unwrap(draft, name, "this needs the model itself")
            elif qualified in _SAVES:
                yield self._unwrap(draft, name, "the checkpoint is to hold the model itself")
            elif qualified in _CALLS_WITH and parent.args[0] is node:
                yield self._called_with(draft, name, parent)
        elif self._is_part(draft, node, parent):
            yield self._unwrap(draft, name, "the checkpoint is to hold the model itself")

    def _runs_alone(self, draft: Draft, node: ast.expr, parent: ast.AST | None) -> bool:
        """Whether a function that nothing is known of, and that may run the model, gets it on the main process only."""
        call = draft.facts.index.parents.get(parent) if isinstance(parent, ast.keyword) else parent
        if not isinstance(call, ast.Call) or call.func is node or not draft.guarded(call):
            return False
        known = draft.facts.resolver.callee(call) is not None or draft.facts.resolver.builtin(call.func) is not None
        return not known and (draft.facts.resolver.qualified(call.func) or "") not in _SAVES

    def _to_the_cpu(self, draft: Draft, call: ast.Call, name: str) -> bool:
        """Whether a call moves a model to the CPU, in a script that trains elsewhere."""
        target = draft.facts.resolver.argument(call, 0, "device") if name == "to" else None
        devices = draft.facts.devices
        return name == "cpu" or (target is not None and devices.is_device(target) and devices.may_be_elsewhere(target))

    def _trains_after(self, draft: Draft, move: ast.Call) -> bool:
        """Whether a model that has been moved may train again."""
        loops = [loop.node for loop in draft.blueprint.train_loops]
        timeline = draft.blueprint.timeline
        places = (place for loop in loops for place in timeline.places(loop, draft.function(move)))
        return any(draft.follows(loop, [move]) for loop in loops) or any(timeline.repeats(move, p) for p in places)

    def _on_the_cpu(self, draft: Draft, name: ast.expr, move: ast.Call, models: tuple[Value, ...]) -> Iterator[Finding]:
        """Tell of a model that leaves its GPU in its wrapper, which would send it batches there, and is run."""
        if draft.reach.cpu != TRUE and self._runs_next(draft, move, models):
            yield draft.finding(
                "DDP-CPU",
                Severity.ERROR,
                move,
                f"`{draft.facts.segment(name)}` is run on the CPU after this, and on several GPUs its wrapper sends "
                "what it is given to its own GPU",
                "keep the model inside for it: model = accelerator.unwrap_model(model).cpu()",
            )

    def _runs_next(self, draft: Draft, move: ast.Call, models: tuple[Value, ...]) -> bool:
        """Whether what comes after a move of a model, before the next one, runs it or hands it on."""
        home = draft.function(move)
        for later in draft.facts.reads():
            if position(later) <= position(move) or draft.function(later) is not home:
                continue
            if not isinstance(later.ctx, ast.Load) or not any(v in models for v in draft.facts.resolver.values(later)):
                continue
            parent = draft.facts.index.parents.get(later)
            if isinstance(parent, ast.Attribute) and parent.attr in ("to", "cuda", "cpu"):
                return False
            if isinstance(parent, ast.Call) and draft.facts.resolver.qualified(parent.func) not in _KEEPING:
                return True
        return False

    def _container(self, draft: Draft, name: ast.expr, parent: ast.AST | None) -> Iterator[Finding]:
        """Tell of a list or dict of prepared models that is saved or copied as it is."""
        called = draft.facts.resolver.qualified(parent.func) if isinstance(parent, ast.Call) else ""
        shown = isinstance(parent, _DISPLAYS) and self._is_saved(draft, self._whole(draft, parent))
        if not (called in _KEEPING or shown):
            return
        for container in draft.facts.resolver.values(name):
            held = [v for v in inside((container,)) if v.role is Role.MODEL and draft.blueprint.is_prepared(v)]
            if not any(draft.blueprint.meets_prepared(name, v) for v in held):
                continue
            if all(draft.blueprint.may_follow_prepare(container.origin, v) for v in held):
                continue  # it is made of them after that, and they are unwrapped there
            yield draft.finding(
                "CKPT-WRAPPED",
                Severity.ERROR,
                name,
                f"`{draft.facts.segment(name)}` holds prepared models, which are wrapped on several processes, and is "
                "kept whole",
                "keep the state_dict of each model instead, asked of accelerator.unwrap_model(model)",
            )

    def _unwrap(self, draft: Draft, name: ast.expr, reason: str) -> Edit:
        return draft.edit(
            _RULE,
            name,
            Operation.SURROUND,
            reason,
            "{accelerator}.unwrap_model({})",
            need=Need.STRONG,
            subject=name,
        )

    def _become(self, draft: Draft, node: ast.expr, name: ast.expr) -> Edit:
        text = f"{{accelerator}}.unwrap_model({draft.facts.segment(name)})"
        reason = "the wrapper is there on several processes only"
        return draft.edit(_RULE, node, Operation.BECOME, reason, text, need=Need.STRONG)

    def _called_with(self, draft: Draft, name: ast.expr, call: ast.Call) -> Edit | Finding:
        """A call of a model with other parameters: the runtime averages their gradients without the wrapper, too."""
        if draft.runtime or draft.gradients_off(call):
            return self._unwrap(draft, name, "the wrapper's parameters have other names")
        return draft.finding(
            "DDP-METHOD",
            Severity.ERROR,
            call,
            f"`{draft.facts.segment(call)}` reaches the backward pass without going through the wrapper",
            "convert with --target runtime",
        )

    def _is_part(self, draft: Draft, node: ast.AST, parent: ast.AST | None) -> bool:
        """Whether a model is what a keyword says is saved, or put into what is saved."""
        if isinstance(parent, ast.keyword):
            return self._is_saved(draft, node)
        if isinstance(parent, _DISPLAYS):
            return self._is_saved(draft, self._whole(draft, parent))
        return isinstance(parent, ast.Assign) and parent.value is node and self._fills_saved(draft, parent)

    def _fills_saved(self, draft: Draft, statement: ast.Assign) -> bool:
        """Whether an assignment puts something into a dictionary that is saved."""
        containers = (t.value for t in statement.targets if isinstance(t, ast.Subscript))
        values = [v for c in containers for v in draft.facts.resolver.values(c)]
        return bool(values) and all(self._is_saved(draft, v.origin) for v in values)

    def _is_saved(self, draft: Draft, node: ast.AST) -> bool:
        """Whether a dictionary, a list or a tuple is what a checkpoint is made of, perhaps through a variable."""
        return node in _saved(draft, draft.facts.tree)

    def _whole(self, draft: Draft, node: ast.AST) -> ast.AST:
        """The outermost of the lists, tuples and dicts that are written inside each other."""
        while isinstance(parent := draft.facts.index.parents.get(node), _DISPLAYS):
            node = parent
        return node

    def _asks(self, draft: Draft, call: ast.Call, name: ast.expr) -> bool:
        """Whether a built-in function asks a model for something of its own: not whether it is wrapped, or a network,
        which the wrapper is, too."""
        about = call.args[1] if len(call.args) > 1 else None
        kinds = about.elts if isinstance(about, ast.Tuple) else []
        network = any(draft.facts.resolver.qualified(kind) == "torch.nn.Module" for kind in kinds)
        wrapper = isinstance(about, ast.Constant) and about.value == "module"
        wrapper = wrapper or (draft.facts.resolver.qualified(about) if about is not None else "") in _ALIKE
        first = call.args[0] is name or draft.facts.resolver.builtin(call.func) == "print"
        return first and not wrapper and not network

    def _draws(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a tracker draws the graph of the model, on one process."""
        func = call.func
        return (
            isinstance(func, ast.Attribute)
            and func.attr == "add_graph"
            and Role.WRITER in draft.facts.resolver.roles(func.value)
        )


@kept
def _saved(draft: Draft, _: ast.Module) -> frozenset[ast.AST | None]:
    """What a script saves, and where that comes from."""
    resolver = draft.facts.resolver
    saves = ((call, _SAVES.get(resolver.qualified(call.func) or "")) for call in draft.calls)
    given = [resolver.argument(call, 0, keyword) for call, keyword in saves if keyword]
    return frozenset((*given, *(v.origin for argument in given for v in resolver.values(argument))))
