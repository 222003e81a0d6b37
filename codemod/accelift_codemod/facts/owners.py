"""Whose parameters an expression holds: the networks whose an optimizer updates."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from accelift_codemod.facts.index import FUNCTIONS, Function, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import children
from accelift_codemod.facts.values import Key, Role, Value, Values, key

_PARAMETERS = frozenset({"parameters", "named_parameters", "children", "modules", "state_dict"})
GOES_THROUGH = frozenset({"children", "named_children", "modules", "named_modules"})
_TENSORS = ("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.autograd.Variable", "torch.tensor")
_COLLECTS = ("append", "extend", "insert", "add", "update")  # in this order: so are models prepared
_LOOKS = frozenset({"keys"})  # what of a dict does not hand out its entries
_ASKING = frozenset({"len", "print", "str", "sorted", "list"})
_ENTRIES = frozenset({"items", "values", "get"})
_MODEL_ROLES = frozenset({Role.MODEL, Role.LOSS, Role.OBJECT})


@dataclass
class Found:
    """What an expression holds the parameters of."""

    models: list[Value] = field(default_factory=list)
    loose: list[ast.expr] = field(default_factory=list)  # parameters that belong to no model
    untold: list[ast.expr] = field(default_factory=list)  # those of something that cannot be told
    seen: set[ast.AST] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.models) + len(self.loose) + len(self.untold)


class Owners:
    """Tells whose parameters expressions hold."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.index = resolver.index

    def of(self, node: ast.expr) -> Found:
        """Whose parameters an expression holds; inside a method of a network, as the calls of that see it."""
        found = Found()
        self._roots(node, found)
        method = self.index.function(node)
        if method is not None:
            found.models = self._outside(method, self._callers(method, set()), found.models)
        found.models = list(dict.fromkeys(found.models))
        return found

    def _roots(self, node: ast.expr, found: Found) -> None:
        """Collect the models whose parameters an expression holds."""
        if node in found.seen:
            return
        found.seen.add(node)
        if isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr in _PARAMETERS:
                before = len(found)
                self._receiver(func.value, found)
                if len(found) == before:
                    found.untold.append(func.value)
                return
            direct = [v for v in self.resolver.values(node) if v.role is Role.MODEL]
            if direct:
                found.models += direct
                return
            arguments = [*node.args, *(k.value for k in node.keywords)]
            whole = [v for a in arguments for v in self.resolver.values(a) if v.role is Role.MODEL]
            if whole:
                found.models += whole
                return
            target = self.resolver.callee(node)
            if isinstance(target, FUNCTIONS):
                inside = replace(found, models=[])
                for statement in (*self.resolver.returns(target), *self.resolver.yields(target)):
                    if statement.value is not None:
                        self._roots(statement.value, inside)
                receivers = self.resolver.values(func.value) if isinstance(func, ast.Attribute) else ()
                found.models += self._outside(target, receivers, inside.models)
                return
            if isinstance(func, ast.Attribute) and func.attr in _ENTRIES:  # of a dict of parameters by name
                self._roots(func.value, found)
                return
            if self.resolver.qualified(func) in _TENSORS:
                found.loose.append(node)
                return
            for argument in arguments:
                self._roots(argument, found)
        elif isinstance(node, ast.Name):
            self._name(node, found)
        elif isinstance(node, ast.Dict):
            for k, v in zip(node.keys, node.values, strict=True):
                if isinstance(k, ast.Constant) and k.value == "params":
                    self._roots(v, found)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
            self._comprehension(node, found)
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            values = [v for v in self.resolver.values(node) if v.role is Role.MODEL]
            if values:
                found.models += values
            elif self._is_loose(node):
                found.loose.append(node)
            else:
                before = len(found)
                self._receiver(node, found)
                if len(found) == before and isinstance(node, ast.Subscript):
                    self._roots(node.value, found)  # `by_name[name]`
                    self._collected(node, found)
        elif isinstance(node, ast.IfExp):
            self._roots(node.body, found)
            self._roots(node.orelse, found)
        elif isinstance(node, ast.Lambda):
            return
        else:
            for child in children(node):
                if isinstance(child, ast.expr):
                    self._roots(child, found)

    def _outside(self, method: Function, receivers: Values, inside: list[Value]) -> list[Value]:
        """What a method finds, as its calls see it: a network whose method it is, for that itself and for its parts."""
        cls = self.index.parents.get(method)
        networks = [v for v in receivers if v.role is Role.MODEL]
        if not networks or len(networks) != len(receivers) or not isinstance(cls, ast.ClassDef):
            return inside
        parts: set[Key] = {(cls, cls.name, ())}
        for binding in (b for found in self.index.attribute_bindings.values() for b in found):
            if self.index.enclosing_class(binding.node) is cls:
                parts.update(map(key, self.resolver.bound(binding)))
        return [v for value in inside for v in (networks if key(value) in parts else (value,))]

    def _callers(self, method: Function, seen: set[Function]) -> Values:
        """The networks whose method all calls of that name run; none if one cannot be told, or it constructs them."""
        cls = self.index.parents.get(method)
        if not isinstance(cls, ast.ClassDef) or method.name == "__init__" or method in seen:
            return ()
        seen.add(method)
        found: list[Value] = []
        for call in self.index.methods.get(method.name, []):
            target = self.resolver.callee(call)
            if target is method and isinstance(call.func, ast.Attribute):
                home = self.index.function(call)
                for value in self.resolver.values(call.func.value):
                    own = value.origin is cls and home is not None
                    networks = self._callers(home, seen) if own and home is not None else (value,)
                    if not networks:
                        return ()
                    found += networks
            elif not isinstance(target, FUNCTIONS):
                return ()
        return tuple(v for v in dict.fromkeys(found) if v.role is not Role.CONSTANT)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp, found: Found) -> None:
        """Those of its elements, or what it goes through: names that go with them are none."""
        before = len(found)
        element = node.value if isinstance(node, ast.DictComp) else node.elt
        if isinstance(element, ast.Subscript):
            self._roots(element, found)
        if len(found) == before:
            for generator in node.generators:
                self._roots(generator.iter, found)

    def _name(self, node: ast.Name, found: Found) -> None:
        values = self.resolver.values(node)
        if any(v.role in (Role.MODEL, Role.LOSS) for v in values):
            found.models += (v for v in values if v.role in (Role.MODEL, Role.LOSS))
            return
        if any(v.role in (Role.BATCH, Role.DATA) for v in values):
            found.loose.append(node)
            return
        if any(v.role is Role.OBJECT and v.name.startswith("torch.") for v in values):
            found.loose.append(node)
            return
        for binding in self.resolver.bindings(node):
            for expression in self.resolver.taken_from(binding):
                self._roots(expression, found)
        owner = self.index.scope(node).owner(node.id)
        for binding in owner.bindings.get(node.id, ()) if owner is not None else ():
            if binding.how is How.AUGMENT and binding.value is not None:  # groups += [{"params": ...}]
                self._roots(binding.value, found)
        for name in _COLLECTS:
            for call in self.index.methods.get(name, []):
                receivers = _choices(call.func.value) if isinstance(call.func, ast.Attribute) else []
                if any(
                    isinstance(receiver, ast.Name)
                    and receiver.id == node.id
                    and self.index.scope(receiver).owner(receiver.id) is owner
                    for receiver in receivers
                ):
                    for argument in call.args:
                        self._roots(argument, found)

    def _collected(self, node: ast.Subscript, found: Found) -> None:
        """What an entry of a dict is made of and filled with: `groups = {"decay": []}`, `groups["decay"].append(p)`."""
        name = node.value
        owner = self.index.scope(name).owner(name.id) if isinstance(name, ast.Name) else None
        bindings = self.resolver.bindings(name) if isinstance(name, ast.Name) else []
        written = [b.value for b in bindings if isinstance(b.value, ast.Dict)]
        if owner is None or not isinstance(name, ast.Name) or not written or len(written) < len(bindings):
            return
        entries = [pair for made in written for pair in zip(made.keys, made.values, strict=True)]
        fills = self.resolver.fills(owner, name.id)
        entries += ((fill.key, fill.value) for fill in fills.entries)
        for k, v in entries:
            if k is None or self._may_be_key(node.slice, k):
                self._roots(v, found)
        for method in _COLLECTS:
            for call in self.index.methods.get(method, []):
                if isinstance(call.func, ast.Attribute) and self._may_be_entry(call.func.value, node):
                    for argument in call.args:
                        self._roots(argument, found)
        reads = (n for scope in self.index.scopes.values() for n in scope.loads.get(name.id, ()))
        if fills.otherwise or any(self._slips(n) for n in reads if self.index.scope(n).owner(name.id) is owner):
            found.untold.append(node)

    def _slips(self, read: ast.Name) -> bool:
        """Whether a dict, or an entry of it, may go by another name: what is put there is not seen."""
        parent = self.index.parents[read]
        if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is read:
            return False  # its keys
        outer = self.index.parents[parent]
        if isinstance(parent, ast.Attribute):
            return not (isinstance(outer, ast.Call) and outer.func is parent and parent.attr in _LOOKS)
        if not isinstance(parent, ast.Subscript) or parent.value is not read:
            return self.resolver.builtin(parent.func) not in _ASKING if isinstance(parent, ast.Call) else True
        if isinstance(outer, (ast.Call, ast.keyword)):
            call = outer if isinstance(outer, ast.Call) else self.index.parents[outer]
            return isinstance(call, ast.Call) and isinstance(self.resolver.callee(call), FUNCTIONS)
        return isinstance(outer, (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Return, ast.Yield)) and (
            outer.value is parent
        )

    def _may_be_entry(self, other: ast.expr, node: ast.Subscript) -> bool:
        """Whether an expression may be the same entry of the same dict: `groups[name]`, `groups.get("decay")`."""
        asked = isinstance(other, ast.Call) and isinstance(other.func, ast.Attribute) and bool(other.args)
        held = other.func.value if asked else other.value if isinstance(other, ast.Subscript) else None  # type: ignore[attr-defined]
        if not isinstance(node.value, ast.Name) or not isinstance(held, ast.Name):
            return False
        variables = {(n.id, self.index.scope(n).owner(n.id)) for n in (node.value, held)}
        other_key = other.args[0] if asked else other.slice  # type: ignore[attr-defined]
        return len(variables) == 1 and self._may_be_key(node.slice, other_key)

    def _may_be_key(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether two keys may be the same."""
        keys = [k.value for k in (one, other) if isinstance(k, ast.Constant)]
        return len(keys) < 2 or keys[0] == keys[1]

    def _receiver(self, node: ast.expr, found: Found) -> None:
        """The model that owns the module an expression denotes (`net.encoder.layers[0]` -> `net`)."""
        while True:
            node = self._gone_through(node) or node
            values = [v for v in self.resolver.values(node) if v.role in _MODEL_ROLES]
            if isinstance(node, ast.Attribute) and self._is_network(
                node.value
            ):  # `net.fc = Linear(...)` made it a part
                node = node.value
            elif values:
                found.models += values
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
        return func.value if isinstance(func, ast.Attribute) and func.attr in GOES_THROUGH else None

    def _is_loose(self, node: ast.expr) -> bool:
        """Whether an expression may be a tensor of the script, which no network has among its parameters."""
        values = [*self.resolver.values(node), *self._kept(node)]
        names = (v.name.split(".") for v in values if v.role is Role.OBJECT)
        return any(len(parts) == 2 and parts[0] == "torch" and parts[1].islower() for parts in names)

    def _kept(self, node: ast.expr) -> Iterator[Value]:
        """What the class of a network keeps in an attribute that is read outside of it."""
        if isinstance(node, ast.Attribute):
            owners = self.resolver.values(node.value)
            family = {cls for v in owners if v.declaration is not None for cls in self.resolver.ancestry(v.declaration)}
            for binding in self.index.attribute_bindings.get(node.attr, ()):
                if self.index.enclosing_class(binding.node) in family:
                    yield from self.resolver.bound(binding)

    def _is_network(self, node: ast.expr) -> bool:
        """Whether an expression is certainly a network."""
        return self.resolver.roles(node) == {Role.MODEL}


def _choices(node: ast.expr) -> list[ast.expr]:
    """What an expression may be, by a test in it: `a` and `b` of `a if test else b`."""
    if isinstance(node, ast.IfExp):
        return [*_choices(node.body), *_choices(node.orelse)]
    return [part for one in node.values for part in _choices(one)] if isinstance(node, ast.BoolOp) else [node]
