"""What expressions of each kind evaluate to; those of calls are in calls.py."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accelift_codemod.facts import library, parts
from accelift_codemod.facts.calls import Calls
from accelift_codemod.facts.classes import is_static
from accelift_codemod.facts.contents import KEPT
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How, parameters, position
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.signatures import default
from accelift_codemod.facts.tree import is_same_name
from accelift_codemod.facts.values import Role, Value, Values

if TYPE_CHECKING:
    from accelift_codemod.facts.resolve import Resolver

Comprehension = ast.DictComp | ast.ListComp | ast.GeneratorExp
_MOST_BITS = 8192  # of a number that is written in decimal
_WRITTEN = (ast.Tuple, ast.List)
_DEFINED = (How.IMPORT, How.FUNCTION, How.CLASS)


class Expressions:
    """Answers what the expressions of one module evaluate to, from what their parts do."""

    def __init__(self, resolver: Resolver, calls: Calls) -> None:
        self.resolver, self.calls = resolver, calls
        self.index = resolver.index
        self.grouped: dict[str, dict[object, list[tuple[int, Binding]]]] = {}
        self._kinds: dict[type[ast.AST], Callable[[Any], Iterable[Value]]] = {
            ast.Name: self._name,
            ast.Call: self._call,
            ast.Attribute: self._attribute,
            ast.Constant: self._constant,
            ast.Tuple: self._tuple,
            ast.List: self._list,
            ast.Set: self._set,
            ast.Dict: self._dict,
            ast.ListComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
            ast.SetComp: self._comprehension,
            ast.DictComp: self._dict_comprehension,
            ast.Subscript: self._subscript,
            ast.IfExp: self._either,
            ast.BoolOp: self._any,
            ast.NamedExpr: self._same,
            ast.Starred: self._same,
            ast.Await: self._same,
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.Compare: self._compared,
        }

    def of(self, node: ast.AST) -> Iterable[Value]:
        """The values of an expression."""
        kind = self._kinds.get(node.__class__)
        return kind(node) if kind is not None else ()

    # ---- constants and containers

    def _constant(self, node: ast.Constant) -> Values:
        value = node.value
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:  # Python may refuse to write it in decimal
            return (Value(Role.CONSTANT, node, name=hex(value), keys=(value,)),)
        return (Value(Role.CONSTANT, node, name=repr(value), keys=(value,)),)

    def _tuple(self, node: ast.Tuple) -> Values:
        if any(isinstance(e, ast.Starred) for e in node.elts):
            return ()
        return (Value(Role.TUPLE, node, inner=tuple(map(self.resolver.values, node.elts))),)

    def _list(self, node: ast.List) -> Values:
        if any(isinstance(e, ast.Starred) for e in node.elts):
            return self._set(node)
        return (Value(Role.TUPLE, node, inner=tuple(map(self.resolver.values, node.elts))),)

    def _set(self, node: ast.Set | ast.List) -> Values:
        inner = parts.unique(v for e in node.elts for v in self.resolver.values(e))
        return (Value(Role.SEQUENCE, node, inner=(inner,)),)

    def _dict(self, node: ast.Dict) -> Values:
        keys = tuple[object, ...](k.value if isinstance(k, ast.Constant) else None for k in node.keys)
        return (Value(Role.DICT, node, inner=tuple(map(self.resolver.values, node.values)), keys=keys),)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Values:
        if isinstance(node, ast.ListComp) and (same := self._same_entries(node, node.elt)):
            return same
        values = self.resolver.values(node.elt)
        if elements := self._unpacked(node):
            inner = tuple(parts.of_element(values, node, element, self.index) for element in elements)
            return (Value(Role.TUPLE, node, inner=inner),)
        return (Value(Role.SEQUENCE, node, inner=(values,)),)

    def _unpacked(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> list[ast.expr]:
        """What a comprehension goes through if that is written out, and each of what it gives gets a variable:
        `first, second = (DataLoader(part) for part in (a, b))`."""
        each, *more = node.generators
        bound = self.index.parents[node]
        target = bound.targets[0] if isinstance(bound, ast.Assign) and len(bound.targets) == 1 else None
        if isinstance(node, ast.SetComp) or more or each.ifs or not isinstance(target, _WRITTEN):
            return []
        elements = each.iter.elts if isinstance(each.iter, _WRITTEN) else []
        return [] if any(isinstance(e, ast.Starred) for e in (*target.elts, *elements)) else elements

    def _dict_comprehension(self, node: ast.DictComp) -> Values:
        if same := self._same_entries(node, node.value):
            return same
        return self._entries(node, node, node.key, node.value)

    def _call(self, call: ast.Call) -> Iterable[Value]:
        return self._dict_of_pairs(call) or self.calls.of(call)

    def _dict_of_pairs(self, call: ast.Call) -> Values:
        """What `dict` makes of pairs: `dict((k, make(k)) for k in names)`, `dict([("train", a), ("val", b)])`."""
        given = call.args[0] if len(call.args) == 1 and not call.keywords else None
        if isinstance(given, ast.Call):
            return self._dict_of_zip(call, given)
        if not isinstance(given, (ast.ListComp, ast.GeneratorExp, ast.List)):
            return ()
        made = given.elts if isinstance(given, ast.List) else [given.elt]
        pairs = [pair.elts for pair in made if isinstance(pair, ast.Tuple) and len(pair.elts) == 2]
        if not pairs or len(pairs) < len(made) or self.resolver.builtin(call.func) != "dict":
            return ()
        if isinstance(given, ast.List):
            keys = tuple[object, ...](k.value if isinstance(k, ast.Constant) else None for k, _ in pairs)
            return (Value(Role.DICT, call, inner=tuple(self.resolver.values(v) for _, v in pairs), keys=keys),)
        return self._entries(call, given, *pairs[0])

    def _dict_of_zip(self, call: ast.Call, given: ast.Call) -> Values:
        """What `dict` makes of names and as many things that are written out: `dict(zip(names, [a, b]))`."""
        called = self.resolver.builtin(call.func), self.resolver.builtin(given.func)
        if called != ("dict", "zip") or len(given.args) != 2 or given.keywords:
            return ()
        names, things = map(self._written_out, given.args)
        keys = self._constants(names) if names is not None else ()
        if things is None or len(keys) != len(things.inner) or None in keys or len(set(keys)) < len(keys):
            return ()
        return (Value(Role.DICT, call, inner=things.inner, keys=keys),)

    def _written_out(self, node: ast.expr) -> Value | None:
        """The one tuple or list that an expression is, as it is where it is made."""
        owner = self.index.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        if owner is not None and isinstance(node, ast.Name) and self.resolver.changed(owner, node.id):
            return None
        values = self.resolver.values(node)
        return values[0] if len(values) == 1 and values[0].role is Role.TUPLE else None

    def _entries(self, made: ast.expr, each: Comprehension, key: ast.expr, value: ast.expr) -> Values:
        """A dict of what a comprehension gives for each key."""
        keys, values, told = self._keys(each, key), self.resolver.values(value), self.resolver.values(key)
        inner = tuple(parts.of_entry(values, each, key, told, one, self.index) for one in keys)
        return (Value(Role.DICT, made, inner=inner, keys=keys),)

    def _same_entries(self, node: ast.ListComp | ast.DictComp, entry: ast.expr) -> Values:
        """The lists (or dicts) whose entries a comprehension has, each as it is or moved, if they are told apart:
        `[net.to(device) for net in nets]`."""
        each, *more = node.generators
        over, target = each.iter, each.target
        if isinstance(node, ast.DictComp):  # `for name, net in nets.items()`
            method = over.func if isinstance(over, ast.Call) and not (over.args or over.keywords) else None
            pair = target.elts if isinstance(target, ast.Tuple) and len(target.elts) == 2 else ()
            if not isinstance(method, ast.Attribute) or method.attr != "items":
                return ()
            if not pair or not is_same_name(node.key, pair[0]):
                return ()
            over, target = method.value, pair[1]
        same = is_same_name(_itself(entry), target)
        if more or each.ifs or each.is_async or not same or not self._has_all(over, node):
            return ()
        values = self.resolver.values(over)
        role = Role.DICT if isinstance(node, ast.DictComp) else Role.TUPLE
        if any(v.role is not role or any(one.role not in KEPT for i in v.inner for one in i) for v in values):
            return ()
        return tuple(replace(v, origin=node) for v in values)

    def _has_all(self, over: ast.expr, made: ast.expr) -> bool:
        """Whether what is known of a list or dict is in it where another is made of it: nothing is put into it later,
        unless that other one takes its place."""
        owner = self.index.scope(over).owner(over.id) if isinstance(over, ast.Name) else None
        if not isinstance(over, ast.Name) or owner is None:
            return False  # `reversed(nets)`
        if any(b.value is made and not b.path for b in owner.bindings[over.id]):
            return True
        fills = self.resolver.fills(owner, over.id)
        return not fills.otherwise and all(position(fill.node) < position(made) for fill in fills.entries)

    def _subscript(self, node: ast.Subscript) -> Values:
        values = self.resolver.values(node.value)
        cut = _cut(node.slice)
        if cut is not None and values and all(isinstance(v.origin, ast.Tuple) for v in values):
            return tuple(replace(v, inner=v.inner[slice(*cut)]) for v in values)
        return parts.item(values, _key(node.slice))

    def _keys(self, each: Comprehension, key: ast.expr) -> tuple[object, ...]:
        """The keys of `{k: ... for k in ["train", "val"]}` or `for k, v in sets.items()`; None: those not known."""
        first, *more = each.generators
        target = first.target.elts[0] if isinstance(first.target, ast.Tuple) else first.target
        if first.ifs or more or not (isinstance(target, ast.Name) and isinstance(key, ast.Name)):
            return (None,)
        over = first.iter
        method = over.func if isinstance(over, ast.Call) and not over.args else None
        if isinstance(method, ast.Attribute) and method.attr == ("items" if target is not first.target else "keys"):
            over = method.value
        elif target is not first.target:
            return (None,)
        owner = self.index.scope(over).owner(over.id) if isinstance(over, ast.Name) else None
        if owner is not None and isinstance(over, ast.Name) and self.resolver.changed(owner, over.id):
            return (None,)
        values = self.resolver.values(over) if target.id == key.id else ()
        if len(values) != 1 or values[0].role not in (Role.DICT, Role.TUPLE):
            return (None,)
        keys = values[0].keys if values[0].role is Role.DICT else self._constants(values[0])
        known = keys and None not in keys and len(set(keys)) == len(keys) and not (method and over is first.iter)
        return keys if known else (None,)

    def _constants(self, value: Value) -> tuple[object, ...]:
        """The elements of a tuple or list that are constants; None for others."""
        return tuple(
            inner[0].keys[0] if len(inner) == 1 and inner[0].role is Role.CONSTANT else None for inner in value.inner
        )

    # ---- operations

    def _either(self, node: ast.IfExp) -> Values:
        return (*self.resolver.values(node.body), *self.resolver.values(node.orelse))

    def _any(self, node: ast.BoolOp) -> Values:
        return tuple(v for e in node.values for v in self.resolver.values(e))

    def _same(self, node: ast.NamedExpr | ast.Starred | ast.Await) -> Values:
        return self.resolver.values(node.value)

    def _binary(self, node: ast.BinOp) -> Values:
        if isinstance(node.op, ast.Div) and (paths := parts.alike(node, self.resolver.values(node.left), "pathlib.")):
            return paths
        sides = (*self.resolver.values(node.left), *self.resolver.values(node.right))
        if isinstance(node.op, ast.Add) and any(v.role in (Role.SEQUENCE, Role.PARAMETERS) for v in sides):
            return (Value(Role.SEQUENCE, node, inner=(tuple(sides),)),)
        return parts.data(node, sides)

    def _unary(self, node: ast.UnaryOp) -> Values:
        return parts.data(node, self.resolver.values(node.operand))

    def _compared(self, node: ast.Compare) -> Values:
        return parts.data(node, (v for e in (node.left, *node.comparators) for v in self.resolver.values(e)))

    # ---- names

    def _name(self, node: ast.Name) -> Iterable[Value]:
        scope = self.index.scope(node)
        owner = scope.owner(node.id)
        if owner is None:
            return ()
        bindings = self.resolver.reaching(node, owner)
        if len(bindings) > parts.MAX_VALUES:
            return ()
        found: list[Value] = []
        for binding in bindings:
            found += self.bound(binding)
        if len(found) > 1 and self._is_asked(node):
            return [v for v in found if not v.is_none] or found
        return found

    def _is_asked(self, node: ast.Name) -> bool:
        """Whether something is asked of what a name stands for, or it is called: it cannot be None then."""
        parent = self.index.parents.get(node)
        if isinstance(parent, ast.Call):
            return parent.func is node
        return isinstance(parent, (ast.Attribute, ast.Subscript)) and parent.value is node

    def bound(self, binding: Binding) -> Values:
        """What a binding gives its name."""
        how = binding.how
        if how in _DEFINED:
            return self._defined(binding)
        if how is How.PARAMETER:
            return self._parameter(binding.node)
        if binding.value is None:
            return ()
        values = self.resolver.values(binding.value)
        if how is How.LOOP:
            values = parts.element(values) or self.calls.keys_of(binding.value)
        for step in binding.path:
            values = parts.item(values, step)
        return self.resolver.contents.of(binding, values)

    @memoised
    def _defined(self, binding: Binding) -> Values:
        """What an import or a definition binds."""
        node = binding.node
        if binding.how is How.IMPORT:
            return (Value(Role.LIBRARY, node, name=binding.qualified),)
        role = Role.FUNCTION if binding.how is How.FUNCTION else Role.CLASS
        return (Value(role, node, name=binding.name, declaration=node),)

    def _parameter(self, node: ast.AST) -> Values:
        arguments = self.index.parents[node]
        function = self.index.parents[arguments]
        if isinstance(function, ast.Lambda) and node in function.args.args:
            parameter = Binding(node.arg, How.PARAMETER, node, self.index.scopes[function])
            return parts.unique(v for given in self.resolver.handed(parameter) for v in self.resolver.values(given))
        if not isinstance(function, FUNCTIONS) or not isinstance(node, ast.arg):
            return ()
        if node is function.args.vararg:
            return self._rest(function)
        owner = self.index.parents.get(function)
        method = isinstance(owner, ast.ClassDef) and not is_static(function)
        names = [p.arg for p in parameters(function.args)]
        if node is function.args.kwarg:
            packs = (function.args.vararg, function.args.kwarg)
            return self._keywords(function, [p.arg for p in parameters(function.args) if p not in packs])
        if method and names and node.arg == names[0]:
            role = Role.MODEL if owner in self.resolver.self_trained else Role.OBJECT
            return (self.resolver.itself(Value(role, owner, name=owner.name, declaration=owner)),)  # type: ignore[union-attr,arg-type]
        found: list[Value] = []
        sites = list(self.resolver.sites(function))
        for call in sites:
            given = self.resolver.bind(call, function)
            if given is None:
                argument = self.resolver.said(call, function, node.arg)
            else:
                argument = given.get(node.arg, default(function, node))
            found += self.resolver.values(argument)
        return parts.unique(found)

    def _rest(self, function: Function) -> Values:
        """What `*args` holds: in each call, the arguments that no other parameter takes by its place."""
        found: list[Value] = []
        for call in list(self.resolver.sites(function)):
            places = len(function.args.posonlyargs) + len(function.args.args)
            rest = self.resolver.whole(call).args[places - self.resolver.is_bound(call, function) :]
            if any(isinstance(a, ast.Starred) for a in self.resolver.whole(call).args):
                return ()
            found.append(Value(Role.TUPLE, call, inner=tuple(map(self.resolver.values, rest))))
        return parts.unique(found)

    def _keywords(self, function: Function, names: list[str]) -> Values:
        """What `**kwargs` holds: in each call, the arguments that no other parameter takes."""
        found: list[Value] = []
        for call in list(self.resolver.sites(function)):
            given = self.resolver.bind(call, function)
            if given is None:
                return ()
            rest = {name: value for name, value in given.items() if name not in names}
            inner = tuple(map(self.resolver.values, rest.values()))
            found.append(Value(Role.DICT, call, inner=inner, keys=tuple(rest)))
        return parts.unique(found)

    # ---- attributes

    def _attribute(self, node: ast.Attribute) -> Iterable[Value]:
        qualified = self.resolver.qualified(node)
        if qualified is not None:
            return (Value(Role.LIBRARY, node, name=qualified),)
        receivers = self.resolver.values(node.value)
        found: list[Value] = []
        for value in receivers:
            if value.role in parts.BATCH_LIKE:
                found.append(value if node.attr == "data" else parts.as_data(node, value))
            elif self.calls.is_imported(value):
                found.append(Value(Role.LIBRARY, value.origin, f"{value.name}.{node.attr}"))
            elif value.role is Role.OBJECT and node.attr == "parent":
                found += parts.alike(node, (value,), "pathlib.")
            elif value.role is Role.LOADER and node.attr == "dataset" and value.declaration is None:
                found += self.resolver.values(self._data(value))
            elif value.role is Role.CLASS or value.declaration is not None:
                method = self.resolver.method(value.declaration, node.attr)
                if method is not None and method in self.resolver.properties:
                    found += (v for s in self.resolver.returns(method) for v in self.resolver.values(s.value))
                elif method is not None:
                    found.append(Value(Role.METHOD, method, node.attr, ((value,),), declaration=method))
                elif value.role is Role.MODEL and node.attr == "module":
                    found.append(value)
                else:
                    found += self._variable(value.declaration, node.attr)
        if found:
            return found
        found = [v for binding in self.set_alike(node) for v in self.bound(binding)]
        if not found and any(v.role is Role.MODEL for v in receivers) and node.attr == "module":
            return tuple(v for v in receivers if v.role is Role.MODEL)
        return found

    def _data(self, loader: Value) -> ast.expr | None:
        """The data set that a loader is made with."""
        made = loader.origin
        return self.resolver.argument(made, 0, "dataset") if isinstance(made, ast.Call) else None

    def _variable(self, cls: ast.AST | None, attribute: str) -> list[Value]:
        """What an attribute of an object that is followed may be, read where it is not called self."""
        if not isinstance(cls, ast.ClassDef) or cls not in self.resolver.followed:
            return []
        bindings = self.index.scopes[cls].bindings.get(f"{self.resolver.followed[cls]}.{attribute}", [])
        return [v for b in bindings if b.how is not How.AUGMENT for v in self.bound(b)]

    def set_alike(self, attribute: ast.Attribute) -> list[Binding]:
        """Where an attribute of what may be the same object is set: in one variable, or of one shared origin."""
        if attribute.attr not in self.index.attribute_bindings:
            return []
        groups = self._groups(attribute.attr)
        found = {place: binding for one in self._objects(attribute.value) for place, binding in groups.get(one, ())}
        return [found[place] for place in sorted(found)]

    def _groups(self, name: str) -> dict[object, list[tuple[int, Binding]]]:
        """Where attributes of a name are set, by whose they may be; each with its place among all."""
        known = self.grouped.get(name)
        if known is None:
            known = {}
            targets = [
                (b.node.value, b) for b in self.index.attribute_bindings[name] if isinstance(b.node, ast.Attribute)
            ]
            for place, (base, binding) in enumerate(targets):
                for one in self._objects(base):
                    known.setdefault(one, []).append((place, binding))
            if all(self.resolver.is_settled(base) for base, _ in targets):
                self.grouped[name] = known
        return known

    def _objects(self, node: ast.expr) -> set[object]:
        """What tells which objects an expression may be: the variable that it is, and where they come from."""
        found: set[object] = {v.origin for v in self.resolver.values(node)}
        return found | {(node.id, self.index.scope(node).owner(node.id))} if isinstance(node, ast.Name) else found


def _itself(node: ast.expr) -> ast.expr:
    """What methods are asked of that give back their object: `net` of `net.to(device).train()`."""
    while (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in library.RETURNS_SELF
    ):
        node = node.func.value
    return node


def _cut(node: ast.expr) -> tuple[int | None, int | None] | None:
    """Where a slice begins and ends, if that is written out."""
    if not isinstance(node, ast.Slice) or node.step is not None:
        return None
    lower, upper = (None if end is None else _key(end) for end in (node.lower, node.upper))
    if isinstance(lower, int | None) and isinstance(upper, int | None):
        known = (lower is not None or node.lower is None) and (upper is not None or node.upper is None)
        return (lower, upper) if known else None
    return None


def _key(node: ast.expr) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int) else None
    return None
