"""The objects of a training script: optimizers, the models they train, loaders, schedulers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from accelift_codemod.facts import library
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import children, walk
from accelift_codemod.facts.values import Role, Value, Values

_PARAMETERS = frozenset({"parameters", "named_parameters", "children", "modules", "state_dict"})
_GOES_THROUGH = frozenset({"children", "named_children", "modules", "named_modules"})
_TENSORS = ("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.autograd.Variable", "torch.tensor")
_COLLECTS = frozenset({"append", "extend", "insert", "add", "update"})
_MODEL_ROLES = frozenset({Role.MODEL, Role.LOSS, Role.OBJECT})

Key = tuple[ast.AST, str, tuple[ast.AST, ...]]


def key(value: Value) -> Key:
    """The identity of an object: values with one key are the same object."""
    return value.origin, value.name if value.role is Role.OBJECT else value.role.value, value.sites


def views(value: Value) -> Iterator[Key]:
    """The identities of an object, as it is called outside the functions that made it, inside, and further inside."""
    origin, name, sites = key(value)
    for i in range(len(sites) + 1):
        yield origin, name, sites[i:]


@dataclass(frozen=True)
class Optimizer:
    """An optimizer and what it updates."""

    value: Value
    call: ast.Call
    models: Values
    loose: tuple[ast.expr, ...]  # parameters that belong to no model
    unknown: tuple[ast.expr, ...] = ()  # those of something that cannot be told

    @property
    def is_lbfgs(self) -> bool:
        return self.value.name.endswith(".LBFGS")


@dataclass(frozen=True)
class Loader:
    """A DataLoader and the arguments it was made with."""

    value: Value
    call: ast.Call | None
    arguments: dict[str, ast.expr | None]  # None: given, but its expression is not known
    complete: bool  # no argument is hidden behind an unknown `*` or `**`

    @property
    def stock_batches(self) -> bool:
        """Whether batches are certainly collated by torch's default: sample-first tensors."""
        return self.complete and self.value.name.startswith("torch.utils.data.") and "collate_fn" not in self.arguments

    @property
    def deals_single_samples(self) -> bool:
        """Whether a DataLoader of torch is told no size of its batches, which is 1 then."""
        stock = self.complete and self.value.name == "torch.utils.data.DataLoader"
        return stock and not self.arguments.keys() & {"batch_size", "batch_sampler"}


class Objects:
    """Finds the objects of a script by what they are made by and used for."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self.optimizers = self._optimizers()
        self.trained: dict[Key, Value] = {}
        for optimizer in self.optimizers:
            for model in optimizer.models:
                self.trained.setdefault(key(model), model)
        self._partly = {one for model in self.trained.values() for one in views(model)}
        self._loaders: dict[ast.AST, Loader] = {}

    # ---- optimizers and models

    def _optimizers(self) -> list[Optimizer]:
        found = []
        for call in self.index.calls:
            for value in self.resolver.values(call):
                if value.role is Role.OPTIMIZER and value.origin is call:
                    argument = self.resolver.argument(call, 0, "params")
                    argument = argument or (call.args[0] if call.args else None)
                    models: list[Value] = []
                    loose: list[ast.expr] = []
                    self._untold: list[ast.expr] = []
                    if argument is not None:
                        self._roots(argument, models, loose, set())
                    of = tuple(dict.fromkeys(models))
                    found.append(Optimizer(value, call, of, tuple(loose), tuple(self._untold)))
        return found

    def _roots(self, node: ast.expr, models: list[Value], loose: list[ast.expr], seen: set[ast.AST]) -> None:
        """Collect the models whose parameters an expression holds."""
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr in _PARAMETERS:
                before = len(models)
                self._receiver(func.value, models)
                if len(models) == before:
                    self._untold.append(func.value)
                return
            direct = [v for v in self.resolver.values(node) if v.role is Role.MODEL]
            if direct:
                models += direct
                return
            arguments = [*node.args, *(k.value for k in node.keywords)]
            whole = [v for a in arguments for v in self.resolver.values(a) if v.role is Role.MODEL]
            if whole:
                models += whole
                return
            target = self.resolver.callee(node)
            if isinstance(target, FUNCTIONS):
                inside: list[Value] = []
                for statement in (*self.resolver.returns(target), *self.resolver.yields(target)):
                    if statement.value is not None:
                        self._roots(statement.value, inside, loose, seen)
                models += self._seen_from(node, target, inside)
                return
            if self.resolver.qualified(func) in _TENSORS:
                loose.append(node)
                return
            for argument in arguments:
                self._roots(argument, models, loose, seen)
        elif isinstance(node, ast.Name):
            self._name(node, models, loose, seen)
        elif isinstance(node, ast.Dict):
            for k, v in zip(node.keys, node.values, strict=True):
                if isinstance(k, ast.Constant) and k.value == "params":
                    self._roots(v, models, loose, seen)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            for generator in node.generators:
                self._roots(generator.iter, models, loose, seen)
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            values = [v for v in self.resolver.values(node) if v.role is Role.MODEL]
            if values:
                models += values
            else:
                self._receiver(node, models)
        elif isinstance(node, ast.IfExp):
            self._roots(node.body, models, loose, seen)
            self._roots(node.orelse, models, loose, seen)
        elif isinstance(node, ast.Lambda):
            return
        else:
            for child in children(node):
                if isinstance(child, ast.expr):
                    self._roots(child, models, loose, seen)

    def _seen_from(self, call: ast.Call, method: Function, inside: list[Value]) -> Iterator[Value]:
        """What a function finds, as its call sees it: parts of the network whose method it is are that network."""
        receivers = self.resolver.values(call.func.value) if isinstance(call.func, ast.Attribute) else ()
        networks = [v for v in receivers if v.role is Role.MODEL]
        cls = self.index.parents.get(method)
        parts = set[Key]()
        if networks and len(networks) == len(receivers) and isinstance(cls, ast.ClassDef):
            for binding in (b for found in self.index.attribute_bindings.values() for b in found):
                if self.index.enclosing_class(binding.node) is cls:
                    parts.update(map(key, self.resolver.bound(binding)))
        for value in inside:
            yield from networks if key(value) in parts else (value,)

    def _name(self, node: ast.Name, models: list[Value], loose: list[ast.expr], seen: set[ast.AST]) -> None:
        values = self.resolver.values(node)
        if any(v.role in (Role.MODEL, Role.LOSS) for v in values):
            models += (v for v in values if v.role in (Role.MODEL, Role.LOSS))
            return
        if any(v.role in (Role.BATCH, Role.DATA) for v in values):
            loose.append(node)
            return
        if any(v.role is Role.OBJECT and v.name.startswith("torch.") for v in values):
            loose.append(node)
            return
        for binding in self.resolver.bindings(node):
            for expression in self._bound_expressions(binding):
                self._roots(expression, models, loose, seen)
        owner = self.index.scope(node).owner(node.id)
        for binding in owner.bindings.get(node.id, ()) if owner is not None else ():
            if binding.how is How.AUGMENT and binding.value is not None:  # groups += [{"params": ...}]
                self._roots(binding.value, models, loose, seen)
        for name in _COLLECTS:
            for call in self.index.methods.get(name, []):
                receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
                if (
                    isinstance(receiver, ast.Name)
                    and receiver.id == node.id
                    and self.index.scope(receiver).owner(receiver.id) is owner
                ):
                    for argument in call.args:
                        self._roots(argument, models, loose, seen)

    def _bound_expressions(self, binding: Binding) -> Iterator[ast.expr]:
        if binding.value is not None:
            yield binding.value
        elif binding.how is How.PARAMETER:
            yield from filter(None, self.resolver.handed(binding))

    def _receiver(self, node: ast.expr, models: list[Value]) -> None:
        """The model that owns the module an expression denotes (`net.encoder.layers[0]` -> `net`)."""
        while True:
            node = self._gone_through(node) or node
            values = [v for v in self.resolver.values(node) if v.role in _MODEL_ROLES]
            if isinstance(node, ast.Attribute) and self._is_network(
                node.value
            ):  # `net.fc = Linear(...)` made it a part
                node = node.value
            elif values:
                models += values
                return
            elif isinstance(node, (ast.Attribute, ast.Subscript)):
                node = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                node = node.func.value
            else:
                return

    def _gone_through(self, node: ast.expr) -> ast.expr | None:
        """The network whose parts a loop goes through, of such a part: `m` in `for name, m in net.named_modules()`."""
        name = node.value if isinstance(node, ast.Subscript) else node
        bindings = self.resolver.bindings(name) if isinstance(name, ast.Name) else []
        over = bindings[0].value if len(bindings) == 1 and bindings[0].how is How.LOOP else None
        func = over.func if isinstance(over, ast.Call) else None
        return func.value if isinstance(func, ast.Attribute) and func.attr in _GOES_THROUGH else None

    def _is_network(self, node: ast.expr) -> bool:
        """Whether an expression is certainly a network."""
        return self.resolver.roles(node) == {Role.MODEL}

    def is_model(self, value: Value) -> bool:
        """Whether a value is a network: an nn.Module, or an object whose parameters are trained."""
        return value.role is Role.MODEL or self.is_trained(value)

    def is_trained(self, value: Value) -> bool:
        """Whether an optimizer updates the value's parameters, or those of one of the objects that it stands for."""
        return key(value) in self._partly or any(one in self.trained for one in views(value))

    def instances(self, value: Value) -> Values:
        """The objects that a value stands for in the function that makes it, as its calls return them."""
        function = self.index.function(value.sites[0] if value.sites else value.origin)
        found: list[Value] = []
        for call in self.resolver.sites(function) if function is not None else ():
            one = replace(value, sites=(call, *value.sites))
            if _has(self.resolver.values(call), one):
                found += self.instances(one)
        return tuple(found) or (value,)

    def models(self, node: ast.AST | None) -> Values:
        """The networks an expression may denote."""
        return tuple(v for v in self.resolver.values(node) if self.is_model(v))

    def trained_models(self, node: ast.AST | None) -> Values:
        """The trained networks an expression may denote."""
        return tuple(v for v in self.resolver.values(node) if self.is_trained(v))

    def is_parameter(self, node: ast.expr) -> bool:
        """Whether an expression is a parameter of `for p in model.parameters()`, or its data."""
        while isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        loops = (b for b in self.resolver.bindings(node) if b.how is How.LOOP) if isinstance(node, ast.Name) else ()
        return any(v.role is Role.PARAMETERS for b in loops for v in self.resolver.values(b.value))

    def is_part(self, node: ast.expr) -> bool:
        """Whether an expression is reached through a trained model: `model.layer.weight`, `model.layers[0]`."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
            if self.trained_models(node):
                return True
        return False

    def only_computes(self, func: ast.Attribute) -> bool:
        """Whether a method of a trained network runs nothing of the network: a loss written as a method, say."""
        methods = [self.resolver.method(v.declaration, func.attr) for v in self.trained_models(func.value)]
        return all(m is not None and not any(_is_own_call(n) for n in walk(m)) for m in methods)

    # ---- loaders

    def loader(self, value: Value) -> Loader:
        """What is known of a loader."""
        if value.origin not in self._loaders:
            self._loaders[value.origin] = self._make_loader(value)
        return self._loaders[value.origin]

    def _make_loader(self, value: Value) -> Loader:
        call = value.origin
        if not isinstance(call, ast.Call) or value.declaration is not None:
            return Loader(value, None, {}, False)
        arguments: dict[str, ast.expr | None] = {}
        complete = True
        for name, argument in zip(library.LOADER_SIGNATURE, call.args, strict=False):
            if isinstance(argument, ast.Starred):
                complete = False
                break
            arguments[name] = argument
        for keyword in call.keywords:
            if keyword.arg is not None:
                arguments[keyword.arg] = keyword.value
                continue
            entries = self.mapping(keyword.value)
            if entries is None:
                complete = False
            else:
                arguments.update(entries)
        return Loader(value, call, arguments, complete)

    def mapping(self, node: ast.expr) -> dict[str, ast.expr | None] | None:
        """The entries a dict expression may hold, by key; None if they cannot be known."""
        if isinstance(node, ast.Dict):
            entries: dict[str, ast.expr | None] = {}
            for k, v in zip(node.keys, node.values, strict=True):
                if k is None:
                    inner = self.mapping(v)
                    if inner is None:
                        return None
                    entries.update(inner)
                elif isinstance(k, ast.Constant) and isinstance(k.value, str):
                    entries[k.value] = v
                else:
                    return None
            return entries
        if isinstance(node, ast.IfExp):
            return self._merge((node.body, node.orelse))
        if isinstance(node, ast.Call) and self.resolver.builtin(node.func) == "dict":
            entries = dict(self._merge(node.args) or {}) if node.args else {}
            for keyword in node.keywords:
                if keyword.arg is None:
                    return None
                entries[keyword.arg] = keyword.value
            return entries
        if isinstance(node, ast.Name):
            return self._named_mapping(node)
        return None

    def _merge(self, nodes: Iterable[ast.expr]) -> dict[str, ast.expr | None] | None:
        merged: dict[str, ast.expr | None] = {}
        for node in nodes:
            entries = self.mapping(node)
            if entries is None:
                return None
            for name, expression in entries.items():
                merged[name] = None if name in merged else expression
        return merged

    def _named_mapping(self, node: ast.Name) -> dict[str, ast.expr | None] | None:
        bindings = self.resolver.bindings(node)
        if not bindings or any(b.how is not How.ASSIGN or b.path or b.value is None for b in bindings):
            return None
        merged = self._merge(b.value for b in bindings if b.value is not None)
        if merged is None:
            return None
        owner = self.index.scope(node).owner(node.id)
        for call in self.index.methods.get("update", []):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            if isinstance(receiver, ast.Name) and receiver.id == node.id:
                if self.index.scope(receiver).owner(receiver.id) is not owner:
                    continue
                more = self._merge(call.args)
                if more is None or any(k.arg is None for k in call.keywords):
                    return None
                merged.update(dict.fromkeys([*more, *(k.arg or "" for k in call.keywords)]))
        for statement in self.index.items:
            for target in statement.targets:
                if (
                    isinstance(target, ast.Subscript)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == node.id
                ):
                    if not isinstance(target.slice, ast.Constant):
                        return None
                    merged[str(target.slice.value)] = None
        return merged


def _is_own_call(node: ast.AST) -> bool:
    """Whether a node calls something of `self`."""
    func = node.func if isinstance(node, ast.Call) else None
    while isinstance(func, (ast.Attribute, ast.Subscript)):
        func = func.value
    return isinstance(func, ast.Name) and func.id == "self"


def _has(values: Values, one: Value) -> bool:
    """Whether one of the values is an object, or has it inside."""
    return any(v == one or any(_has(part, one) for part in v.inner) for v in values)
