"""The objects of a training script: optimizers, the models they train, loaders, schedulers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from accelift_codemod.facts import library, written
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.owners import Found, Owners
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import is_constant, root, walk
from accelift_codemod.facts.uses import reads
from accelift_codemod.facts.values import Key, Role, Value, Values, key, views
from accelift_codemod.facts.wholes import Wholes

_STATE = frozenset({"load_state_dict", "state_dict"})


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
    def has_workers(self) -> bool:
        """Whether it is told a number of workers, which may be another one than 0."""
        workers = self.arguments.get("num_workers")
        return workers is not None and not (isinstance(workers, ast.Constant) and workers.value == 0)

    @property
    def deals_single_samples(self) -> bool:
        """Whether a DataLoader of torch is told no size of its batches, which is 1 then."""
        stock = self.complete and self.value.name == "torch.utils.data.DataLoader"
        return stock and not self.arguments.keys() & {"batch_size", "batch_sampler"}


class Objects:
    """Finds the objects of a script by what they are made by and used for."""

    def __init__(self, resolver: Resolver, wholes: Wholes) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self.optimizers = self._optimizers()
        self.wholes = wholes.of(tuple(dict.fromkeys(m for one in self.optimizers for m in one.models)))
        self.optimizers = [replace(one, models=self._outer(one.models)) for one in self.optimizers]
        self.trained: dict[Key, Value] = {}
        for optimizer in self.optimizers:
            for model in optimizer.models:
                self.trained.setdefault(key(model), model)
        self._partly = {one for model in self.trained.values() for one in views(model)}
        self._loaders: dict[ast.AST, Loader] = {}
        self._handing: list[Function] = []  # whose `**kwargs` is being looked for

    # ---- optimizers and models

    def _optimizers(self) -> list[Optimizer]:
        found, owners = [], Owners(self.resolver)
        for call in self.index.calls:
            for value in self.resolver.values(call):
                if value.role is Role.OPTIMIZER and value.origin is call:
                    argument = self.resolver.argument(call, 0, "params")
                    argument = argument or (call.args[0] if call.args else self._spread(call))
                    if self._is_of_optimizer(call, argument) or self._only_has_state(call):
                        continue
                    of = owners.of(argument) if argument is not None else Found()
                    models = dict.fromkeys(map(self.resolver.itself, of.models))
                    found.append(Optimizer(value, call, tuple(models), tuple(of.loose), tuple(of.untold)))
        return found

    def _only_has_state(self, call: ast.Call) -> bool:
        """Whether an optimizer is in a variable, by which all that is done is to load its state, or to ask for it: it
        trains nothing."""
        bound = self.index.parents.get(call)
        target = bound.targets[0] if isinstance(bound, ast.Assign) and len(bound.targets) == 1 else None
        owner = self.index.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
        if owner is None or not isinstance(target, ast.Name):
            return False
        loads = reads(self.index, owner, target.id)
        own = [n for n in loads if any(b.node is target for b in self.resolver.bindings(n))]
        asked = (self.index.parents[n] for n in own)
        return bool(own) and all(isinstance(a, ast.Attribute) and a.attr in _STATE for a in asked)

    def _is_of_optimizer(self, call: ast.Call, argument: ast.expr | None) -> bool:
        """Whether an optimizer is a part of that whose class makes it of its own groups, and steps when that does:
        `self.base_optimizer = base_optimizer(self.param_groups)`."""
        cls = self.index.enclosing_class(call)
        if cls is None or self.resolver.class_role(cls) is not Role.OPTIMIZER:
            return False
        groups = isinstance(argument, ast.Attribute) and argument.attr == "param_groups"
        return (
            groups
            and isinstance(argument, ast.Attribute)
            and cls in {v.declaration for v in self.resolver.values(argument.value)}
        )

    def _outer(self, models: Values) -> Values:
        """Networks, and instead of those that are trained as parts of another one, that."""
        return tuple(dict.fromkeys(self.wholes.get(key(m), m) for m in models))

    def is_trained_part(self, value: Value) -> bool:
        """Whether a network is trained as a part of another one, which was handed it."""
        return key(value) in self.wholes

    def _spread(self, call: ast.Call) -> ast.expr | None:
        """The parameters among arguments that a dict holds: `kwargs = {"params": ..., "lr": 0.1}`, `SGD(**kwargs)`."""
        found = [written.spread(self.resolver, keyword.value, "params") for keyword in call.keywords if not keyword.arg]
        known = [value for value in found if value is not None]
        return known[0] if len(known) == 1 else None

    def is_model(self, value: Value) -> bool:
        """Whether a value is a network: an nn.Module, or an object whose parameters are trained."""
        return value.role is Role.MODEL or self.is_trained(value)

    def is_trained(self, value: Value) -> bool:
        """Whether an optimizer updates the value's parameters, or those of one of the objects that it stands for."""
        return key(value) in self._partly or any(one in self.trained for one in views(value))

    def instances(self, value: Value) -> Values:
        """The objects that a value stands for in the function that makes it, as its calls return them."""
        made = value.sites[0] if value.sites else value.origin
        function = self.index.function(made)
        held = (self.resolver.lambda_calls.get(n) for n in self.index.ancestors(made) if isinstance(n, ast.Lambda))
        calls = next(filter(None, held), None) or (self.resolver.sites(function) if function is not None else [])
        found: list[Value] = []
        for call in calls:
            one = replace(value, sites=(call, *value.sites))
            if _has(self.resolver.values(call), one):
                found += self.instances(one)
        return tuple(found) or (value,)

    @memoised
    def models(self, node: ast.AST | None) -> Values:
        """The networks an expression may denote."""
        return tuple(v for v in self.resolver.values(node) if self.is_model(v))

    def trained_models(self, node: ast.AST | None) -> Values:
        """The trained networks an expression may denote."""
        return tuple(v for v in self.resolver.values(node) if self.is_trained(v))

    def is_parameter(self, node: ast.expr) -> bool:
        """Whether an expression is a parameter of `for p in model.parameters()`, or its data, or of several in turn:
        `for p, q in zip(ema.parameters(), model.parameters())`."""
        while isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        loops = (b for b in self.resolver.bindings(node) if b.how is How.LOOP) if isinstance(node, ast.Name) else ()
        return any(_deals_parameters(v, b.path) for b in loops for v in self.resolver.values(b.value))

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

    def deals_whole(self, value: Value) -> bool:
        """Whether every process computes on each batch of a loader: it is one sample, or made by the data set."""
        loader = self.loader(value)
        one = self._is_one(loader.arguments.get("batch_size"), value.sites) or loader.deals_single_samples
        return one or self.deals_items(value)

    def composer(self, value: Value) -> ast.expr | None:
        """What a loader is given to say which samples are in a batch together, if that is of a class of the script."""
        given = self.loader(value).arguments.get("batch_sampler")
        own = given is not None and any(isinstance(v.declaration, ast.ClassDef) for v in self.resolver.values(given))
        return given if own else None

    def deals_items(self, value: Value) -> bool:
        """Whether a loader deals what its data set makes, which cannot be cut: `DataLoader(batches, batch_size=None)`.

        With a sampler, that may give lists of indices, which can.
        """
        given = self.loader(value).arguments
        size = given.get("batch_size")
        return is_constant(size, None) and "sampler" not in given

    def _is_one(self, size: ast.expr | None, sites: Sequence[ast.AST], steps: int = 4) -> bool:
        """Whether a number is surely 1, whichever way it is chosen, once these calls have led to it."""
        if isinstance(size, ast.IfExp):
            return self._is_one(size.body, sites, steps) and self._is_one(size.orelse, sites, steps)
        bindings = self.resolver.bindings(size) if isinstance(size, ast.Name) else []
        named = (b for b in bindings if b.how is How.PARAMETER or (isinstance(b.value, ast.Name) and not b.path))
        if len(bindings) > 1 or any(named):
            chosen = [e for b in bindings for e in (self._handed(b, sites) if b.how is How.PARAMETER else [b.value])]
            return steps > 0 and bool(chosen) and all(self._is_one(e, sites, steps - 1) for e in chosen)
        values = self.resolver.values(size)
        return bool(values) and all(v.role is Role.CONSTANT and v.keys == (1,) for v in values)

    def _handed(self, parameter: Binding, sites: Sequence[ast.AST]) -> list[ast.expr | None]:
        """What a parameter is given by those of some calls that are of its function, or else by each of its calls."""
        return self.resolver.handed(parameter, lambda call: call in sites)

    def _make_loader(self, value: Value) -> Loader:
        made = value.origin
        if not isinstance(made, ast.Call) or value.declaration is not None:
            return Loader(value, None, {}, False)
        call = self.resolver.whole(made)
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
        if self._is_none(arguments.get("collate_fn")):
            del arguments["collate_fn"]  # the same as none at all
        return Loader(value, made, arguments, complete)

    def _is_none(self, node: ast.expr | None, steps: int = 4) -> bool:
        """Whether an expression is surely None, whichever way it came: a parameter that no call gives, by default."""
        if isinstance(node, ast.Constant):
            return node.value is None
        if not isinstance(node, ast.Name) or not steps:
            return False
        given: list[ast.expr | None] = []
        for binding in self.resolver.bindings(node):
            owner = self.index.parents.get(self.index.parents[binding.node])
            if binding.how is How.PARAMETER and owner is not None and self._is_only_called(owner):
                given += self.resolver.handed(binding)
            else:
                given.append(binding.value if binding.how is How.ASSIGN and not binding.path else None)
        return bool(given) and all(self._is_none(one, steps - 1) for one in given)

    def _is_only_called(self, function: ast.AST) -> bool:
        """Whether a function, or the class whose constructor it is, is called wherever it is named, and handed to
        nobody who may call it otherwise."""
        named = self.index.parents[function] if getattr(function, "name", "") == "__init__" else function
        if not isinstance(named, ast.ClassDef) and isinstance(self.index.parents.get(named), ast.ClassDef):
            return False  # a method, which any object may be asked for
        if not isinstance(named, (*FUNCTIONS, ast.ClassDef)):
            return False
        reads = self.index.reads.get((self.index.scope(named), named.name), [])
        calls = (self.index.parents.get(read) for read in reads)
        return all(isinstance(call, ast.Call) and call.func is read for call, read in zip(calls, reads, strict=True))

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
        if len(bindings) == 1 and bindings[0].how is How.PARAMETER:
            merged = self._handed_mapping(bindings[0])
        elif not bindings or any(b.how is not How.ASSIGN or b.path or b.value is None for b in bindings):
            return None
        else:
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

    def _handed_mapping(self, parameter: Binding) -> dict[str, ast.expr | None] | None:
        """What a function gets as `**kwargs` from its calls, if nobody has it but to call it."""
        function = self.index.parents[self.index.parents[parameter.node]]
        if not isinstance(function, FUNCTIONS) or parameter.node is not function.args.kwarg:
            return None
        sites = self.resolver.sites(function)
        owner = self.index.scope(function).owner(function.name)
        reads = ((scope, n) for scope in self.index.scopes.values() for n in scope.loads.get(function.name, []))
        loads = {n for scope, n in reads if scope.owner(function.name) is owner}
        if not sites or function in self._handing or loads != {call.func for call in sites}:
            return None
        named = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
        self._handing.append(function)
        given = [
            {k.arg: k.value} if k.arg is not None else self.mapping(k.value) for call in sites for k in call.keywords
        ]
        self._handing.pop()
        merged: dict[str, ast.expr | None] = {}
        for entries in given:
            if entries is None:
                return None
            merged |= {name: e for name, e in entries.items() if name not in named}
        return merged if len(sites) == 1 else dict.fromkeys(merged)  # each call gives its own


def _is_own_call(node: ast.AST) -> bool:
    """Whether a node calls something of `self`."""
    owner = root(node.func) if isinstance(node, ast.Call) else None
    return owner is not None and owner.id == "self"


def _has(values: Values, one: Value) -> bool:
    """Whether one of the values is an object, or has it inside."""
    return any(v == one or any(_has(part, one) for part in v.inner) for v in values)


def _deals_parameters(value: Value, path: tuple[int | None, ...]) -> bool:
    """Whether what a loop over a value binds, or one of the things that it does, is a parameter."""
    if value.role in (Role.ZIP, Role.ENUMERATE) and path and path[0] is not None:
        place = path[0] if value.role is Role.ZIP else path[0] - 1
        parts = value.inner[place] if 0 <= place < len(value.inner) else ()
        return any(_deals_parameters(part, path[1:]) for part in parts)
    return value.role is Role.PARAMETERS
