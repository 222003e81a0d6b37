"""Object flow: which objects an expression may evaluate to.

The analysis is demand-driven: nothing is computed until a rule asks. Within one scope a load sees the
assignments that can reach it; through parameters it sees the arguments of every call site, through calls
the returned expressions. It is an over-approximation in which an unknown stays unknown (an empty tuple, or
the role OBJECT): rules act on what is known only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from accelift_codemod.facts import library, parts, signatures
from accelift_codemod.facts.calls import Calls
from accelift_codemod.facts.contents import Contents
from accelift_codemod.facts.index import (
    FUNCTIONS,
    LOOPS,
    Binding,
    Function,
    How,
    Index,
    parameters,
)
from accelift_codemod.facts.instances import is_property
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.names import Names
from accelift_codemod.facts.signatures import default, own_nodes
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role, Value, Values

_MAX_DEPTH = 120
_MAX_ROUNDS = 5
_NO_CYCLE = 1 << 30
# What keeps nothing of the data that its methods are given.
_PASSIVE = frozenset({Role.MODEL, Role.LOSS, Role.OPTIMIZER, Role.SCHEDULER, Role.SCALER, Role.DEVICE})
_CLASS_ROLES = {
    "torch.nn.Module": Role.MODEL,
    "torch.nn.modules.module.Module": Role.MODEL,
    "torch.nn.Sequential": Role.MODEL,
    "torch.utils.data.Dataset": Role.DATASET,
    "torch.utils.data.IterableDataset": Role.DATASET,
    "torch.utils.data.DataLoader": Role.LOADER,
    "torch.optim.Optimizer": Role.OPTIMIZER,
    "torch.optim.optimizer.Optimizer": Role.OPTIMIZER,
    "torch.optim.lr_scheduler._LRScheduler": Role.SCHEDULER,
    "torch.optim.lr_scheduler.LRScheduler": Role.SCHEDULER,
}


class Resolver(Names):
    """Answers what expressions of one module may evaluate to.

    `followed` are the classes whose attributes of self are variables, with what their methods call the object; `known`
    is what the project says that calls give.
    """

    def __init__(
        self,
        index: Index,
        followed: Mapping[ast.ClassDef, str] | None = None,
        known: Mapping[str, Role] | None = None,
    ) -> None:
        super().__init__(index)
        self.followed = followed or {}
        self.known = known or {}
        self.calls = Calls(self)
        self.contents = Contents(self)
        self._values: dict[ast.AST, Values] = {}
        self._active: dict[ast.AST, int] = {}
        self._assumed: dict[ast.AST, Values] = {}
        self._tentative: dict[ast.AST, tuple[Values, int]] = {}
        self._pending: list[ast.AST] = []
        self._low = _NO_CYCLE
        self._sites: dict[ast.AST, list[ast.Call]] | None = None
        self._method_names = {f.name for f in index.functions if isinstance(index.parents.get(f), ast.ClassDef)}
        self._returns: dict[Function, list[ast.Return]] | None = None
        self._properties = {f for f in index.functions if is_property(f)}

    # ---- calls

    argument = staticmethod(signatures.argument)

    def bind(self, call: ast.Call, function: Function, bound: bool | None = None) -> dict[str, ast.expr] | None:
        """Arguments by parameter name, for the parameters the call gives; None if `*` or `**` hides them.

        `bound` says that the first parameter is already filled; without it, that is so for methods of followed classes.
        """
        if bound is None:
            bound = self.is_method(function)
        return signatures.bind(call, function, bound)

    # ---- objects whose attributes are followed

    @memoised
    def instance(self, node: ast.AST) -> ast.ClassDef | None:
        """The followed class in one of whose methods (or a function nested in one) a node stands, or which it is."""
        function = node if isinstance(node, FUNCTIONS) else self.index.function(node)
        while function is not None:
            owner = self.index.parents.get(function)
            if isinstance(owner, ast.ClassDef):
                return owner if owner in self.followed and not _static(function) else None
            function = self.index.function(function)
        return None

    def constructor(self, cls: ast.ClassDef) -> Function | None:
        """The `__init__` of a class."""
        return next((s for s in cls.body if isinstance(s, FUNCTIONS) and s.name == "__init__"), None)

    def is_method(self, function: ast.AST) -> bool:
        """Whether a function is itself a method of a followed class."""
        return (
            isinstance(function, FUNCTIONS) and self.instance(function) is self.index.parents.get(function) is not None
        )

    def callee(self, call: ast.Call) -> ast.AST | None:
        """The function or class of the script that a call certainly runs; None if unknown or not one."""
        func = call.func
        if isinstance(func, ast.Name):
            bindings = self.bindings(func)
            if len(bindings) == 1 and bindings[0].how in (How.FUNCTION, How.CLASS):
                return bindings[0].node
            found = {v.declaration for v in self.values(func) if v.role in (Role.FUNCTION, Role.CLASS)}
            return found.pop() if len(found) == 1 else None
        if isinstance(func, ast.Attribute) and func.attr in self._method_names:
            methods = {self.method(v.declaration, func.attr) for v in self.values(func.value)}
            if len(methods) == 1:
                return methods.pop()
        return None

    def method(self, declaration: ast.AST | None, name: str) -> Function | None:
        """The method of a class of the script, through its bases."""
        for cls in self.ancestry(declaration):
            for statement in cls.body:
                if isinstance(statement, FUNCTIONS) and statement.name == name:
                    return statement
        return None

    def ancestry(self, declaration: ast.AST | None) -> list[ast.ClassDef]:
        """A class of the script and those of its bases that the script defines, nearest first."""
        found: list[ast.ClassDef] = []
        queue = [declaration]
        while queue:
            cls = queue.pop(0)
            if not isinstance(cls, ast.ClassDef) or cls in found:
                continue
            found.append(cls)
            for base in cls.bases:
                if isinstance(base, ast.Name):
                    queue += [b.node for b in self.bindings(base) if b.how is How.CLASS]
        return found

    def class_role(self, declaration: ast.AST | None) -> Role | None:
        """What instances of a class of the script are, by its bases."""
        for cls in self.ancestry(declaration):
            for base in cls.bases:
                qualified = self.qualified(base)
                if qualified is None:
                    continue
                found = _CLASS_ROLES.get(qualified) or self.library_role(qualified)
                if found is not None:
                    return found
        return None

    def library_role(self, qualified: str) -> Role | None:
        """What calling a library name gives, by what is known of libraries or said by the project."""
        return self.known.get(qualified) or library.role(qualified)

    def sites(self, function: ast.AST) -> list[ast.Call]:
        """The calls that run a function (or construct a class) of the script."""
        if self._sites is None:
            self._sites = self._find_sites()
        return self._sites.get(function, [])

    def _find_sites(self) -> dict[ast.AST, list[ast.Call]]:
        """Call sites: those by plain name first, since following values needs them."""
        sites: dict[ast.AST, list[ast.Call]] = {}
        self._sites = sites
        indirect = []
        for call in self.index.calls:
            bindings = self.bindings(call.func) if isinstance(call.func, ast.Name) else []
            if len(bindings) == 1 and bindings[0].how in (How.FUNCTION, How.CLASS):
                sites.setdefault(bindings[0].node, []).append(call)
                if isinstance(bindings[0].node, ast.ClassDef):  # runs its constructor
                    constructor = self.constructor(bindings[0].node)
                    if constructor is not None:
                        sites.setdefault(constructor, []).append(call)
            elif bindings or isinstance(call.func, ast.Attribute):
                indirect.append(call)
        found = [(target, call) for call in indirect if (target := self.callee(call)) is not None]
        for target, call in found:
            sites.setdefault(target, []).append(call)
        if found:
            self._values.clear()  # computed without these sites
        return sites

    def returns(self, function: Function) -> list[ast.Return]:
        """The return statements of a function, those of nested functions left out."""
        if self._returns is None:
            found: dict[Function, list[ast.Return]] = {}
            for f in self.index.functions:
                found[f] = [n for n in own_nodes(f) if isinstance(n, ast.Return) and n.value is not None]
            self._returns = found
        return self._returns.get(function, [])

    def kept(self, function: Function, data: bool = False) -> frozenset[str]:
        """The attributes of followed objects that a function may bind or change, in functions it calls, too.

        Only those that are given something computed from a batch, if `data`.
        """
        return frozenset(name for name, holds in self._kept(function) if holds or not data)

    @memoised
    def _kept(self, function: Function) -> frozenset[tuple[str, bool]]:
        found: set[tuple[str, bool]] = set()
        queue, seen = [function], {function}
        while queue and self.followed:
            for node in own_nodes(queue.pop()):
                if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
                    statement = self.index.statement(node)
                    found.update((name, self._holds_data(statement)) for name in _kept_in(node))
                elif isinstance(node, ast.Call):
                    if isinstance(node.func, ast.Attribute) and not self.roles(node.func.value) & _PASSIVE:
                        found.update((name, self._holds_data(node)) for name in _kept_in(node.func))
                    target = self.callee(node)
                    if isinstance(target, FUNCTIONS) and target not in seen:
                        seen.add(target)
                        queue.append(target)
        return frozenset(found)

    def _holds_data(self, node: ast.AST) -> bool:
        if isinstance(node, (*LOOPS, ast.With)):
            return True
        return any(isinstance(n, ast.expr) and self.roles(n) & parts.BATCH_LIKE for n in walk(node))

    # ---- values

    def values(self, node: ast.AST | None) -> Values:
        """What an expression may evaluate to; empty if nothing is known.

        Expressions that depend on each other (a variable updated in a loop) are solved together: the first of them that
        is asked for is computed again until its answer no longer changes, each time on the answer of the last time.
        """
        if node is None:
            return ()
        final = self._values.get(node)
        if final is not None:
            return final
        active = self._active.get(node)
        if active is not None:
            self._low = min(self._low, active)
            return self._assumed.get(node, ())
        tentative = self._tentative.get(node)
        if tentative is not None:
            self._low = min(self._low, tentative[1])
            return tentative[0]
        depth = len(self._active)
        if depth >= _MAX_DEPTH:
            return ()
        outer, start = self._low, len(self._pending)
        self._active[node] = depth
        found: Values = ()
        for _ in range(_MAX_ROUNDS):
            self._low = _NO_CYCLE
            found = parts.bounded(self._compute(node), node)
            if self._low != depth or found == self._assumed.get(node, ()):
                break
            self._assumed[node] = found
            for other in self._pending[start:]:
                self._tentative.pop(other, None)
            del self._pending[start:]
        del self._active[node]
        self._assumed.pop(node, None)
        if self._low >= depth:  # nothing below is still being computed: all of it is final
            for other in self._pending[start:]:
                known = self._tentative.pop(other, None)
                if known is not None:
                    self._values[other] = known[0]
            del self._pending[start:]
            self._values[node] = found
            self._low = outer
        else:
            self._tentative[node] = (found, self._low)
            self._pending.append(node)
            self._low = min(outer, self._low)
        return found

    def roles(self, node: ast.AST | None) -> frozenset[Role]:
        """The roles of `values`."""
        return frozenset(v.role for v in self.values(node))

    def only(self, node: ast.AST | None, role: Role) -> bool:
        """Whether an expression is certainly of one role."""
        return self.roles(node) == {role}

    def _compute(self, node: ast.AST) -> Iterable[Value]:
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Call):
            return self.calls.of(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Constant):
            return (Value(Role.CONSTANT, node, name=repr(node.value), keys=(node.value,)),)
        if isinstance(node, ast.Tuple):
            if any(isinstance(e, ast.Starred) for e in node.elts):
                return ()
            return (Value(Role.TUPLE, node, inner=tuple(self.values(e) for e in node.elts)),)
        if isinstance(node, (ast.List, ast.Set)):
            inner = parts.unique(
                v for e in node.elts for v in self.values(e.value if isinstance(e, ast.Starred) else e)
            )
            if isinstance(node, ast.List) and not any(isinstance(e, ast.Starred) for e in node.elts):
                return (Value(Role.TUPLE, node, inner=tuple(self.values(e) for e in node.elts)),)
            return (Value(Role.SEQUENCE, node, inner=(inner,)),)
        if isinstance(node, ast.Dict):
            keys = tuple[object, ...](k.value if isinstance(k, ast.Constant) else None for k in node.keys)
            return (Value(Role.DICT, node, inner=tuple(self.values(v) for v in node.values), keys=keys),)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            return (Value(Role.SEQUENCE, node, inner=(self.values(node.elt),)),)
        if isinstance(node, ast.DictComp):
            keys = self._keys(node)
            return (Value(Role.DICT, node, inner=(self.values(node.value),) * len(keys), keys=keys),)
        if isinstance(node, ast.Subscript):
            return parts.item(self.values(node.value), _key(node.slice))
        if isinstance(node, ast.IfExp):
            return (*self.values(node.body), *self.values(node.orelse))
        if isinstance(node, ast.BoolOp):
            return tuple(v for e in node.values for v in self.values(e))
        if isinstance(node, (ast.NamedExpr, ast.Starred, ast.Await)):
            return self.values(node.value)
        if isinstance(node, ast.BinOp):
            sides = (*self.values(node.left), *self.values(node.right))
            if isinstance(node.op, ast.Add) and any(v.role in (Role.SEQUENCE, Role.PARAMETERS) for v in sides):
                return (Value(Role.SEQUENCE, node, inner=(tuple(sides),)),)
            return parts.data(node, sides)
        if isinstance(node, ast.UnaryOp):
            return parts.data(node, self.values(node.operand))
        if isinstance(node, ast.Compare):
            return parts.data(node, (v for e in (node.left, *node.comparators) for v in self.values(e)))
        return ()

    def _keys(self, node: ast.DictComp) -> tuple[object, ...]:
        """The keys of `{k: ... for k in ["train", "val"]}` or `for k, v in sets.items()`; None: those not known."""
        first, *more = node.generators
        target = first.target.elts[0] if isinstance(first.target, ast.Tuple) else first.target
        if first.ifs or more or not (isinstance(target, ast.Name) and isinstance(node.key, ast.Name)):
            return (None,)
        over = first.iter
        method = over.func if isinstance(over, ast.Call) and not over.args else None
        if isinstance(method, ast.Attribute) and method.attr == ("items" if target is not first.target else "keys"):
            over = method.value
        elif target is not first.target:
            return (None,)
        owner = self.index.scope(over).owner(over.id) if isinstance(over, ast.Name) else None
        if owner is not None and isinstance(over, ast.Name) and self.changed(owner, over.id):
            return (None,)
        values = self.values(over) if target.id == node.key.id else ()
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

    def _name(self, node: ast.Name) -> Iterable[Value]:
        scope = self.index.scope(node)
        owner = scope.owner(node.id)
        if owner is None:
            return ()
        found: list[Value] = []
        for binding in self.reaching(node, owner):
            found += self.bound(binding)
        return found

    def bound(self, binding: Binding) -> Values:
        """What a binding gives its name."""
        how, node = binding.how, binding.node
        if how is How.IMPORT:
            return (Value(Role.LIBRARY, node, name=binding.qualified),)
        if how is How.FUNCTION:
            return (Value(Role.FUNCTION, node, name=binding.name, declaration=node),)
        if how is How.CLASS:
            return (Value(Role.CLASS, node, name=binding.name, declaration=node),)
        if how is How.PARAMETER:
            return self._parameter(node)
        if binding.value is None:
            return ()
        values = self.values(binding.value)
        if how is How.LOOP:
            values = parts.element(values)
        for step in binding.path:
            values = parts.item(values, step)
        return self.contents.of(binding, values)

    def _parameter(self, node: ast.AST) -> Values:
        arguments = self.index.parents[node]
        function = self.index.parents[arguments]
        if not isinstance(function, FUNCTIONS) or not isinstance(node, ast.arg):
            return ()
        if node is function.args.vararg:
            return ()
        owner = self.index.parents.get(function)
        method = isinstance(owner, ast.ClassDef) and not _static(function)
        names = [p.arg for p in parameters(function.args)]
        if node is function.args.kwarg:
            return self._keywords(function, names, method)
        if method and names and node.arg == names[0]:
            return (Value(Role.OBJECT, owner, name=owner.name, declaration=owner),)  # type: ignore[union-attr,arg-type]
        found: list[Value] = []
        sites = list(self.sites(function))
        for call in sites:
            given = self.bind(call, function, bound=method)
            if given is None:
                continue
            argument = given.get(node.arg, default(function, node))
            found += self.values(argument)
        return parts.unique(found)

    def _keywords(self, function: Function, names: list[str], method: bool) -> Values:
        """What `**kwargs` holds: in each call, the arguments that no other parameter takes."""
        found: list[Value] = []
        for call in list(self.sites(function)):
            given = self.bind(call, function, bound=method)
            if given is None:
                return ()
            rest = {name: value for name, value in given.items() if name not in names}
            found.append(Value(Role.DICT, call, inner=tuple(map(self.values, rest.values())), keys=tuple(rest)))
        return parts.unique(found)

    def _attribute(self, node: ast.Attribute) -> Iterable[Value]:
        qualified = self.qualified(node)
        if qualified is not None:
            return (Value(Role.LIBRARY, node, name=qualified),)
        receivers = self.values(node.value)
        found: list[Value] = []
        for value in receivers:
            if value.role in parts.BATCH_LIKE:
                found.append(value if node.attr == "data" else parts.as_data(node, value))
            elif value.role is Role.CLASS or value.declaration is not None:
                method = self.method(value.declaration, node.attr)
                if method is not None and method in self._properties:
                    found += (v for statement in self.returns(method) for v in self.values(statement.value))
                elif method is not None:
                    found.append(Value(Role.METHOD, method, node.attr, ((value,),), declaration=method))
                elif value.role is Role.MODEL and node.attr == "module":
                    found.append(value)
                else:
                    found += self._variable(value.declaration, node.attr)
        if found:
            return found
        for binding in self.index.attribute_bindings.get(node.attr, []):
            target = binding.node
            if isinstance(target, ast.Attribute) and self._same_object(target.value, node.value):
                found += self.bound(binding)
        if not found and any(v.role is Role.MODEL for v in receivers) and node.attr == "module":
            return tuple(v for v in receivers if v.role is Role.MODEL)
        return found

    def _variable(self, cls: ast.AST | None, attribute: str) -> list[Value]:
        """What an attribute of an object that is followed may be, read where it is not called self."""
        if not isinstance(cls, ast.ClassDef) or cls not in self.followed:
            return []
        bindings = self.index.scopes[cls].bindings.get(f"{self.followed[cls]}.{attribute}", [])
        return [v for b in bindings if b.how is not How.AUGMENT for v in self.bound(b)]

    def _same_object(self, left: ast.AST, right: ast.AST) -> bool:
        """Whether two expressions may denote one object: one variable, or one shared origin."""
        if isinstance(left, ast.Name) and isinstance(right, ast.Name) and left.id == right.id:
            a, b = (self.index.scope(n).owner(n.id) for n in (left, right))
            if a is b:
                return True
        origins = {v.origin for v in self.values(left)}
        return any(v.origin in origins for v in self.values(right))


def _kept_in(node: ast.expr) -> list[str]:
    """The attribute of self that an expression is, or is a part of."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return [node.id] if isinstance(node, ast.Name) and "." in node.id else []


def _static(function: Function) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)


def _key(node: ast.expr) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int) else None
    return None
