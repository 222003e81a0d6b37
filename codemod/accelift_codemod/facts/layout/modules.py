"""What calling a module or a function of the script returns, found by interpreting its code."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from accelift_codemod.facts import library, torch_ops
from accelift_codemod.facts.index import Function, How
from accelift_codemod.facts.layout import derived, entries, loss_options, losses, pretrained, views
from accelift_codemod.facts.layout.algebra import (
    FIXED,
    HANDED,
    Environment,
    Frame,
    Layout,
    Listed,
    Record,
    Shape,
    join,
    tensor,
)
from accelift_codemod.facts.layout.arithmetic import ALTERED, COMPARING, altered
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.layout.sequences import Sequences
from accelift_codemod.facts.layout.submodules import Submodules
from accelift_codemod.facts.signatures import default
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Role, Value

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts

_MAX_DEPTH = 12
# What computes the weights of a layer otherwise, and returns that layer.
_WEIGHTS = frozenset(
    f"torch.nn.utils.{home}{name}"
    for home in ("", "parametrizations.")
    for name in ("weight_norm", "spectral_norm", "orthogonal")
)


# A function, its arguments, and the variables around it that it reads.
_Call = tuple[Function, tuple[Shape, ...], tuple[tuple[str, Shape], ...]]


class Modules:
    """Layouts of calls into layers, modules and functions."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts
        self.resolver = layouts.resolver
        self.index = layouts.index
        self._known: dict[_Call, tuple[Shape, Environment]] = {}
        self._layers: dict[ast.ClassDef, bool] = {}
        self.left: dict[ast.ClassDef, Record] = {}
        self._depth = 0
        self.sequences = Sequences(layouts.resolver, layouts.dimensions)
        self.submodules = Submodules(self)
        self._within: list[ast.Call] = []  # the networks of layers whose layers are being looked at

    @property
    def running(self) -> bool:
        """Whether a function is interpreted that a call runs."""
        return self._depth > 0

    def forget(self) -> None:
        """Interpret every function anew when it is called again."""
        self._known.clear()

    def forward(
        self, value: Value, arguments: list[Shape], keywords: dict[str, Shape], call: ast.Call | None = None
    ) -> Shape:
        """What calling a module returns; `call` is the call, if the module is a layer of a network."""
        found = self._forward(value, arguments, keywords, call)
        given = (*arguments, *keywords.values())
        depends = value.role is Role.MODEL and any(part not in FIXED for part in given)
        return Layout.MIXED if depends and self.layouts.mixing.met(value) else found

    def _forward(
        self, value: Value, arguments: list[Shape], keywords: dict[str, Shape], call: ast.Call | None
    ) -> Shape:
        everything = [*arguments, *keywords.values()]
        if self.layouts.single and all(part in FIXED for part in everything):
            return Layout.CONST
        if value.role is Role.LOSS and not isinstance(value.declaration, ast.ClassDef):
            options = loss_options.set_later(self.resolver, value)
            told = views.told(self.index, everything)
            return losses.loss(loss_options.made(self.resolver, value), told, self.layouts.marked, options)
        if isinstance(value.declaration, ast.ClassDef):
            method = self.resolver.method(value.declaration, "forward")
            if method is None:
                return self.derived(value.declaration, everything, value.origin)
            names = [p.arg for p in (*method.args.posonlyargs, *method.args.args)][1:]
            by_name = dict(zip(names, arguments, strict=False)) | keywords
            return self.function(method, by_name, value.declaration)
        if Layout.MIXED in everything or Layout.SHIFTED in everything:
            return Layout.MIXED
        if Layout.UNSURE in everything:
            return Layout.UNSURE
        known = pretrained.returned([value], arguments, keywords)
        if known is not None:
            return known
        if any(a in ALTERED for a in arguments) and not keywords:
            return altered(arguments, lambda parts: self.forward(value, parts, {}, call))
        if len(arguments) == 2 and value.name == "torch.nn.CosineSimilarity" and set(arguments) in COMPARING:
            return Layout.MIXED
        if Layout.PACKED in arguments and value.name.rpartition(".")[2] in torch_ops.RECURRENT:
            return (Layout.PACKED, Layout.UNKNOWN)
        if self.sequences.is_layer(value):
            return self.sequences.output(value, everything, call)
        if everything == [Layout.STATES]:  # along the last dimension, as with samples in the first one
            found = self.forward(value, [Layout.ROWS], {})
            return Layout.STATES if found is Layout.ROWS else found if found is Layout.MIXED else Layout.UNKNOWN
        everything = list(map(tensor, everything))
        if not everything or not all(e is Layout.ROWS or e in FIXED for e in everything):
            return Layout.UNKNOWN
        if value.name.startswith("torchvision.models."):
            return Layout.ROWS
        if value.name == "torch.nn.Embedding" and all(e in FIXED for e in everything):
            return Layout.CONST  # of positions, or of the token that begins each sequence
        return self._layer(value.name, self.resolver.made(value).origin)

    def along_samples(self, values: Sequence[Value], call: ast.Call) -> bool:
        """Whether layers compare along the last dimension of what has no other one but that of the samples."""
        for value in values:
            keyword, assumed, across = torch_ops.DIMENSIONED_LAYERS.get(
                value.name.rpartition(".")[2], ("", None, False)
            )
            made = self.resolver.made(value).origin if across else None
            told = self.resolver.argument(made, 0, keyword) if isinstance(made, ast.Call) else None
            place = integer(told) if told is not None else assumed
            if across and place is not None and place < 0 and call.args:
                if self.layouts.dimensions.rank(call.args[0]) == -place:
                    return True
        return False

    def derived(self, cls: ast.ClassDef, arguments: list[Shape], made: ast.AST | None = None) -> Shape:
        """What the loss of torch makes that a class of the script is derived from."""
        base = derived.base_loss(self.resolver, cls, made)
        given = views.told(self.index, arguments)
        return losses.told(*base, given, self.layouts.marked) if base is not None else Layout.UNKNOWN

    def _layer(self, qualified: str, origin: ast.AST) -> Shape:
        """A layer of torch.nn called on sample-first tensors."""
        name = qualified.rpartition(".")[2]
        if not isinstance(origin, ast.Call):
            return Layout.UNKNOWN
        if name in torch_ops.ROW_WISE_LAYERS:
            return self._with_indices(name, origin)
        if name in torch_ops.DIMENSIONED_LAYERS:
            keyword, assumed, across = torch_ops.DIMENSIONED_LAYERS[name]
            given = self.resolver.argument(origin, 0, keyword)
            place = integer(given) if given is not None else assumed
            samples = Layout.MIXED if across else Layout.UNKNOWN
            return Layout.UNKNOWN if place is None else samples if place == 0 else Layout.ROWS
        return self._sequential(origin) if name == "Sequential" else Layout.UNKNOWN

    def _sequential(self, origin: ast.Call) -> Shape:
        """A network of layers, perhaps beside what its variable was before: `net = nn.Sequential(net, head)`."""
        if origin in self._within:
            return Layout.ROWS
        self._within.append(origin)
        layers = (*origin.args, *self._added(origin))
        known = Layout.ROWS if all(map(self._keeps_rows, layers)) else Layout.UNKNOWN
        found = Layout.MIXED if any(map(self._meets, layers)) else known
        self._within.pop()
        return found

    def _with_indices(self, name: str, origin: ast.Call) -> Shape:
        """What a layer returns for each sample: of pooling perhaps also where the greatest values were."""
        place = torch_ops.INDICES.get(name.rstrip("123d"))
        told = self.resolver.argument(origin, place, "return_indices") if place is not None else None
        if told is None:
            return Layout.ROWS
        if not isinstance(told, ast.Constant):
            return Layout.UNKNOWN
        return (Layout.ROWS, Layout.ROWS) if told.value else Layout.ROWS

    def _added(self, origin: ast.Call) -> list[ast.expr]:
        """The modules that are added to a Sequential after it is made."""
        calls = [c for name in ("add_module", "append", "insert", "extend") for c in self.index.methods.get(name, [])]
        return [
            call.args[-1]
            for call in calls
            if isinstance(call.func, ast.Attribute)
            and call.args
            and any(v.origin is origin for v in self.resolver.values(call.func.value))
        ]

    def _keeps_rows(self, node: ast.expr) -> bool:
        """Whether every module that an argument of Sequential holds keeps rows."""
        owner = self.index.enclosing_class(node)
        named = isinstance(node, ast.Name) and all(map(self.resolver.bound, self.resolver.bindings(node)))
        if isinstance(node, ast.Starred) or not (named or isinstance(node, ast.Call)):
            if owner is not None:
                return self._all_layers_keep_rows(owner)
            listed = self._listed(node.value) if isinstance(node, ast.Starred) else []
            return bool(listed) and all(isinstance(n, ast.Call) and self._keeps_rows(n) for n in listed)
        values = self.resolver.values(node)
        modules = [v for v in values if v.role is Role.MODEL]
        if not modules or len(modules) != len(values):
            return owner is not None and self._all_layers_keep_rows(owner)
        return all(self.forward(v, [Layout.ROWS], {}) is Layout.ROWS for v in modules)

    def _meets(self, node: ast.expr) -> bool:
        """Whether the samples meet in one of the modules that an argument of Sequential holds."""
        for part in (n for n in walk(node) if isinstance(n, (ast.Call, ast.Name))):
            modules = [v for v in self.resolver.values(part) if v.role is Role.MODEL]
            if any(self.forward(v, [Layout.ROWS], {}) in (Layout.MIXED, Layout.SHIFTED) for v in modules):
                return True
        return False

    def _listed(self, node: ast.expr) -> list[ast.expr]:
        """What is in a list that a function fills, entry by entry; nothing if that cannot be told."""
        function = self.index.function(node)
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) and function is not None else []
        found: list[ast.expr] = []
        for binding in bindings:
            if binding.how is not How.ASSIGN or binding.path or not isinstance(binding.value, ast.List):
                return []
            found += binding.value.elts
        for name in ("append", "extend", "insert", "__setitem__"):
            for call in self.index.methods.get(name, []):
                owner = call.func.value if isinstance(call.func, ast.Attribute) else None
                if isinstance(owner, ast.Name) and self.resolver.bindings(owner) == bindings != []:
                    more = call.args[-1:] if name == "append" else []
                    if name == "extend" and call.args and isinstance(call.args[0], ast.List):
                        more = call.args[0].elts
                    if not more:
                        return []
                    found += more
        grown = [b for b in bindings[:1] for b in b.scope.bindings[b.name] if b.how is How.AUGMENT]
        return [] if grown else found

    def _all_layers_keep_rows(self, cls: ast.ClassDef) -> bool:
        """Whether every layer constructed anywhere in a class keeps rows (for layers kept in lists)."""
        if cls not in self._layers:
            self._layers[cls] = False
            kept = True
            for call in self.index.calls:
                if not kept or self.index.enclosing_class(call) is not cls:
                    continue
                for value in self.resolver.values(call):
                    if value.role is Role.MODEL and value.origin is call:
                        name = value.name.rpartition(".")[2]
                        if name in torch_ops.CONTAINERS:
                            continue
                        kept = kept and self.forward(value, [Layout.ROWS], {}) is Layout.ROWS
            self._layers[cls] = kept
        return self._layers[cls]

    def own(
        self, name: str, call: ast.Call, arguments: list[Shape], keywords: dict[str, Shape], cls: ast.ClassDef
    ) -> Shape:
        """`self.name(...)` inside a module: a layer, or a method."""
        method = self.resolver.method(cls, name)
        if method is not None:
            given = self.resolver.bind(call, method)
            if given is None:
                return Layout.UNKNOWN
            read = dict(zip(call.args, arguments, strict=False))
            by_place = {name: read[argument] for name, argument in given.items() if argument in read}
            return self.function(method, by_place | keywords, cls)
        found: list[Shape] = []
        for owner in self.resolver.ancestry(cls):
            for binding in self.index.set_in(owner, name):
                if binding.how is not How.ASSIGN:
                    continue
                methods = self._methods(binding.value, cls)
                if methods:
                    found += (self.own(method, call, arguments, keywords, cls) for method in methods if method != name)
                    continue
                values = [v for part in self.parts(binding.value) for v in self.resolver.values(part)]
                if values and all(v.name in library.SUMMED_LOSSES for v in values):
                    found.append(losses.summed_loss(call, [*arguments, *keywords.values()]))
                    continue
                known = pretrained.returned(values, arguments, keywords)
                if known is not None:
                    found.append(known)
                    continue
                modules = [v for v in values if v.role in (Role.MODEL, Role.LOSS)]
                if not modules or len(modules) != len(values):
                    return Layout.UNKNOWN
                if arguments[:1] == [Layout.ROWS] and self.along_samples(modules, call):
                    found.append(Layout.MIXED)
                    continue
                found += (self.forward(v, arguments, keywords, call) for v in modules)
        if not found:
            return Layout.UNKNOWN
        for binding in self.index.set_in(None, name):  # `model.encoder.layer = make()`
            given_later = [v for v in self.resolver.values(binding.value) if v.role is Role.MODEL]
            found += (self.forward(v, arguments, keywords, call) for v in given_later)
        joined = found[0]
        for other in found[1:]:
            joined = join(joined, other)
        return joined

    def _methods(self, node: ast.expr | None, cls: ast.ClassDef, steps: int = 3) -> list[str]:
        """The methods of a module that an attribute of it is: `self.compare = self.cosine`, or what one returns."""
        found: list[str] = []
        for part in self.parts(node):
            own = part.func if isinstance(part, ast.Call) else part
            if not (isinstance(own, ast.Attribute) and isinstance(own.value, ast.Name) and own.value.id == "self"):
                return []
            method = self.resolver.method(cls, own.attr)
            if method is None or not steps:
                return []
            chosen = [own.attr]
            if isinstance(part, ast.Call):
                returns = self.resolver.returns(method)
                each = [self._methods(r.value, cls, steps - 1) for r in returns]
                chosen = [name for names in each for name in names] if all(each) else []
            if not chosen:
                return []
            found += chosen
        return found

    def parts(self, node: ast.expr | None) -> list[ast.expr]:
        """What an attribute of a module may be bound to: one of two layers, or none; of one with other weights, the
        layer itself."""
        if isinstance(node, ast.IfExp):
            return [*self.parts(node.body), *self.parts(node.orelse)]
        if isinstance(node, ast.Call) and node.args and self.resolver.qualified(node.func) in _WEIGHTS:
            return self.parts(node.args[0])
        none = node is None or is_constant(node, None)  # which nobody can call
        return [] if none else [node]  # type: ignore[list-item]

    def function(
        self,
        function: Function,
        arguments: dict[str, Shape],
        owner: ast.ClassDef | None,
        seen: Environment | None = None,
        altered: Environment | None = None,
    ) -> Shape:
        """Interpret a function of the script on the layouts of its arguments, and of what it sees around it. `altered`
        gets those that it has changed where they are."""
        names = [p.arg for p in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
        around = tuple((name, seen[name]) for name in sorted(seen)) if seen else ()
        more = tuple((n, arguments[n]) for n in sorted(arguments) if n not in names)
        key = (function, tuple(arguments.get(n, Layout.CONST) for n in names), (*around, *more))
        if key in self._known:
            self._keep(owner, arguments, self._known[key][1])
            return self._come_back(arguments, *self._known[key], altered)
        if self._depth >= _MAX_DEPTH:
            return Layout.UNKNOWN
        self._known[key] = (Layout.UNKNOWN, {})  # a recursive call is not followed
        env = {**(seen or {}), **self.parameters(function, arguments)}
        if owner is not None and names[:1] == ["self"] and not isinstance(env["self"], Record):
            env["self"] = Record.of({})  # what is set in this pass
        env |= {HANDED + name: env[name] for name in names}
        frame = Frame(owner, outer=frozenset(self.index.scopes[function].outer_names))
        self._depth += 1
        try:
            self.layouts.run(function.body, env, frame)
        finally:
            self._depth -= 1
        if not isinstance(function.body[-1], (ast.Return, ast.Raise)):
            frame.leave(env)
        result = frame.returned if frame.returned is not None else Layout.CONST
        self._known[key] = (result, frame.left or {})
        self._keep(owner, arguments, self._known[key][1])
        return self._come_back(arguments, *self._known[key], altered)

    def _keep(self, owner: ast.ClassDef | None, arguments: dict[str, Shape], left: Environment) -> None:
        """Note what a network that code outside of it has run has in its attributes then."""
        this = left.get(f"{HANDED}self")
        if owner is not None and "self" not in arguments and isinstance(this, Record) and this:
            self.left[owner] = this

    def kept(self, values: Sequence[Value]) -> Record | None:
        """What the last pass of a network has left in its attributes."""
        found = [self.left[v.declaration] for v in values if v.declaration in self.left]
        return found[0] if len(found) == 1 else None

    def _come_back(
        self, arguments: dict[str, Shape], returned: Shape, left: Environment, altered: Environment | None
    ) -> Shape:
        """What a function returns to a call; what it has changed of the dicts that it is given, these become."""
        copies: dict[int, Shape] = {}
        changed = []
        for name, value in left.items():
            given = arguments.get(name.removeprefix(HANDED))
            if value == given:
                copies[id(value)] = value if given is None else given
            elif isinstance(given, (Record, Listed)):
                changed.append((given, value))
            elif altered is not None:
                altered[name.removeprefix(HANDED)] = value
        for given, value in changed:
            self.layouts.changes.becomes(given, entries.copied(value, copies))
        return entries.copied(returned, copies)

    def parameters(self, function: Function, arguments: dict[str, Shape]) -> Environment:
        """The environment in which a function begins: the layouts of its arguments, or of the defaults."""
        env: Environment = {}
        rest = tensor(arguments["**"]) if "**" in arguments else None
        for parameter in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
            if parameter.arg in arguments:
                env[parameter.arg] = arguments[parameter.arg]
            elif rest is not None and rest not in FIXED:
                env[parameter.arg] = rest if rest is Layout.ROWS else Layout.UNKNOWN  # an entry of a batch
            else:
                value = default(function, parameter)
                env[parameter.arg] = self.layouts.read(value, {}) if value is not None else Layout.CONST
        if function.args.vararg is not None:
            env[function.args.vararg.arg] = arguments.get("*", Layout.UNKNOWN)
        if function.args.kwarg is not None:
            others = {n: value for n, value in arguments.items() if n not in env and n not in ("*", "**", "self")}
            env[function.args.kwarg.arg] = Record.of(others) if "**" not in arguments else Layout.UNKNOWN
        return env
