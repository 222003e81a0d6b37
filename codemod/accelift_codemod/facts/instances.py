"""Attributes of `self` as variables: the trees that the other facts are drawn from.

A class whose objects nobody else sets attributes of has as many variables as it has attributes: `self.model` is one
variable that all its methods see. So these attributes are replaced by names (`self.model`, dot included) in a copy of
the tree, and everything that is known of names holds for them: what they are bound to, who reads them, where an object
in them is made and used. Of several objects of the class, the variable is that of each, as the variables of a function
are those of each of its calls. The names keep the attributes' places, and every node of the copy knows the node of the
original that it stands for.
"""

from __future__ import annotations

import ast
from collections.abc import Set
from dataclasses import dataclass, field
from functools import cached_property

from accelift_codemod.facts.classes import Classes, asked_of_class, stands_apart
from accelift_codemod.facts.copying import Copier, around
from accelift_codemod.facts.holders import HARMLESS
from accelift_codemod.facts.index import (
    FUNCTIONS,
    LOOPS,
    Binding,
    Function,
    How,
    Index,
    Scope,
    parameters,
)
from accelift_codemod.facts.inheritance import is_abstract, is_of_abc, trainers
from accelift_codemod.facts.keepers import keepers
from accelift_codemod.facts.signatures import bind, own_nodes
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.uses import is_called, often, reads
from accelift_codemod.facts.values import Role

_SPECIAL = frozenset({"__init__", "__repr__", "__str__", "__call__"})
_ASKING = frozenset({"__len__", "__getitem__", "__contains__", "__bool__", "__del__"})
# Decorators that run a method as it stands.
_PLAIN = frozenset({"torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.set_grad_enabled"})
_FUNCTIONS = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
# What a method does that is more than computing.
_ACTIVE = frozenset({"backward", "step", "zero_grad", "state_dict", "load_state_dict", "save"})
# Built-in functions that only look at an object.
_MEASURING = frozenset({"len", "int", "float", "str", "bool", "min", "max", "abs", "round", "isinstance"})
_LOOKING = frozenset({"super", "isinstance", "type", "id", "repr", "str", "print", "hasattr"})


@dataclass(frozen=True)
class Unknown:
    """Why the attributes of a class are not followed, and the line that says so."""

    line: int
    reason: str


@dataclass
class Instances:
    """The tree to draw facts from, and the classes whose attributes are variables in it."""

    tree: ast.Module
    followed: dict[ast.ClassDef, str] = field(default_factory=dict)  # with what their methods call the object
    unknown: dict[str, Unknown] = field(default_factory=dict)  # the other classes that train, by name
    originals: dict[ast.AST, ast.AST] = field(default_factory=dict)  # empty: the tree is the original
    several: set[ast.AST] = field(default_factory=set)  # followed classes that may have more than one object
    outside: dict[ast.AST, tuple[ast.ClassDef, str]] = field(
        default_factory=dict
    )  # `trainer.epoch = 3`: which variable


def find(index: Index, barred: Set[ast.AST] = frozenset(), modules: Set[str] = frozenset()) -> Instances:
    """The tree of a script with the attributes of the classes that train as variables, where they can be.

    `barred` are attributes that may not be set outside of their class, `modules` the classes that are modules.
    """
    tree = index.tree
    classes = trainers(index) | keepers(index)
    found = Instances(tree)
    fields: set[ast.Attribute] = set()
    names: dict[ast.ClassDef, str] = {}
    several: set[ast.ClassDef] = set()
    outside: dict[ast.Attribute, ast.ClassDef] = {}
    for cls in sorted(classes, key=lambda c: c.lineno):
        candidate = _Candidate(index, cls, barred, cls.name in modules)
        unknown = candidate.unknown()
        if unknown is not None:
            found.unknown[cls.name] = unknown
            continue
        names[cls] = candidate.self_name
        if candidate.several():
            several.add(cls)
        fields.update(candidate.reads())
        outside.update(dict.fromkeys(candidate.outside, cls))
    if not names:
        return found
    copier = Copier({ast.Attribute: lambda node: _variable(node) if node in fields else None}, around(index, fields))
    result = copier.copy(tree)
    copies = {original: copy for copy, original in copier.originals.items()}
    followed = {copies.get(cls, cls): name for cls, name in names.items()}
    many: set[ast.AST] = {copies.get(cls, cls) for cls in several}
    sets = {copies.get(n, n): (copies.get(c, c), f"{names[c]}.{n.attr}") for n, c in outside.items()}
    return Instances(result, followed, found.unknown, copier.originals, many, sets)  # type: ignore[arg-type]


def _variable(field: ast.Attribute) -> ast.Name:
    """An attribute of self as a name."""
    assert isinstance(field.value, ast.Name)
    return ast.Name(f"{field.value.id}.{field.attr}", field.ctx)


class _Candidate:
    """One class, and whether all that happens to the attributes of its object is known."""

    def __init__(self, index: Index, cls: ast.ClassDef, barred: Set[ast.AST], module: bool) -> None:
        self.index = index
        self.cls = cls
        self.barred = barred
        self.module = module
        self.outside: dict[ast.Attribute, None] = {}  # where attributes are set that are no methods
        self.returning: list[Function] = []  # functions that are looked at, for they return an object
        self.names = Classes(index, {}, {})
        self.methods = [s for s in cls.body if isinstance(s, FUNCTIONS)]
        bound = [m for m in self.methods if not stands_apart(m)]
        self.self_name = next((p.arg for m in bound for p in (*m.args.posonlyargs, *m.args.args)[:1]), "self")
        self.bound = bound

    # ---- the class

    def unknown(self) -> Unknown | None:
        """Why the attributes cannot be followed; None if they can."""
        problem = self._shape() or self._methods() or self._of_self() or self._made()
        return problem or next((p for call in self.calls if (p := self._object(call)) is not None), None)

    def several(self) -> bool:
        """Whether more than one object may be made."""
        return len(self.calls) > 1 or any(often(self.index, call) for call in self.calls)

    def _no(self, node: ast.AST, reason: str) -> Unknown:
        return Unknown(node.lineno, reason)  # type: ignore[attr-defined]

    def _shape(self) -> Unknown | None:
        cls, name = self.cls, self.cls.name
        if not self.index.scope(cls).is_module:
            return self._no(cls, f"the class {name} is defined inside a function or class")
        for base in cls.bases:
            if self.names.builtin(base) != "object" and not is_of_abc(self.index, self.names, base, "ABC"):
                return self._no(cls, self._based(base))
        if cls.decorator_list or not all(is_abstract(self.index, self.names, k) for k in cls.keywords):
            return self._no(cls, f"{name} has a decorator or a metaclass")
        for statement in cls.body:
            if isinstance(statement, ast.ClassDef) or not isinstance(
                statement, (*FUNCTIONS, ast.Expr, ast.Assign, ast.AnnAssign, ast.Pass)
            ):
                return self._no(statement, f"the body of {name} has more than methods and constants")
        return None

    def _based(self, base: ast.expr) -> str:
        """Why a class with a base is not followed."""
        name = self.cls.name
        if self.names.class_role(self.cls) is Role.MODEL:
            return (
                f"{name} is a network that trains itself; DistributedDataParallel wraps a network from outside, and "
                "what its own methods call goes past that"
            )
        if self.names.qualified(base) in _FUNCTIONS:
            return f"{name} is a function of autograd, whose backward pass runs in that of the training"
        others = [c.name for c in self.index.classes if c is not self.cls and self._derives(c, base)]
        if others:
            return f"{name} has a base class, that of {others[0]}, too, whose methods may use its attributes"
        return f"{name} has a base class, whose methods may use its attributes, too"

    def _derives(self, cls: ast.ClassDef, base: ast.expr) -> bool:
        """Whether a class has a base of the program, too."""
        found = self.names.bindings(base) if isinstance(base, ast.Name) else []
        return any(b.node in self.names.ancestry(cls) and b.node is not cls for b in found)

    def _methods(self) -> Unknown | None:
        seen: set[str] = set()
        for method in self.methods:
            name = method.name
            if name in seen:
                return self._no(method, f"the method {name}() is defined twice")
            seen.add(name)
            if name.startswith("__") and name.endswith("__") and name not in _SPECIAL and not self._asks(name):
                return self._no(method, f"the method {name}() runs without being called by name")
            for decorator in method.decorator_list:
                if stands_apart(method) or self._plain(decorator) or self._looks(method):
                    continue
                return self._no(method, f"the method {name}() has a decorator that may run it in another way")
        for method in self.methods:
            inner = next((n for n in walk(method) if isinstance(n, ast.ClassDef)), None)
            if inner is not None:
                return self._no(inner, f"the class {inner.name} is defined in a method")
        for method in self.bound:
            first = (*method.args.posonlyargs, *method.args.args)[:1]
            if not first or first[0].arg != self.self_name:
                return self._no(method, f"the methods call their object {self.self_name} and otherwise")
            bindings = self.index.scopes[method].bindings[self.self_name]
            if len(bindings) != 1:
                return self._no(bindings[-1].node, f"{self.self_name} is bound again")
        return None

    def _asks(self, name: str) -> bool:
        """Whether a method that runs without being called by name only asks the object something, or leaves it."""
        return name in _ASKING and self._passive(name)

    def _plain(self, decorator: ast.expr) -> bool:
        func = decorator.func if isinstance(decorator, ast.Call) else decorator
        return self.names.qualified(func) in _PLAIN or is_of_abc(self.index, self.names, func, "abstractmethod")

    def _looks(self, method: Function) -> bool:
        """Whether a method is a property that only returns something: an attribute, or what a builtin finds of one."""
        if not is_property(method):
            return False
        *before, last = method.body
        calls = (n for n in walk(method) if isinstance(n, ast.Call))
        return (
            isinstance(last, ast.Return)
            and all(isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) for s in before)
            and all(self.names.builtin(call.func) in _MEASURING for call in calls)
        )

    # ---- the object inside its methods

    def _is_self(self, name: ast.Name) -> bool:
        owner = self.index.scope(name).owner(name.id)
        return owner is not None and owner.node in self.bound

    def _selves(self) -> list[ast.Name]:
        return [
            n
            for m in self.bound
            for n in walk(m)
            if isinstance(n, ast.Name) and n.id == self.self_name and self._is_self(n)
        ]

    def _of_self(self) -> Unknown | None:
        parents = self.index.parents
        methods = {m.name for m in self.methods}
        constants = set(self.index.scopes[self.cls].bindings)
        for node in walk(self.cls):
            if isinstance(node, ast.Attribute) and node.attr in ("__setattr__", "__delattr__", "__dict__"):
                return self._no(node, f"`{node.attr}` reaches attributes in another way")
        for name in self._selves():
            parent = parents[name]
            if isinstance(parent, ast.Attribute):
                if parent.attr.startswith("__") and parent.attr.endswith("__") and parent.attr != "__class__":
                    return self._no(name, f"`{name.id}.{parent.attr}` reaches attributes in another way")
                if isinstance(parent.ctx, ast.Del):
                    return self._no(name, f"`{name.id}.{parent.attr}` is deleted")
                if parent.attr in constants and not isinstance(parent.ctx, ast.Load):
                    what = f"the method {parent.attr}() is replaced" if parent.attr in methods else ""
                    return self._no(
                        name, what or f"`{parent.attr}` is an attribute of the class, and of its object, too"
                    )
                if parent.attr in methods and not is_called(self.index, parent) and not self._passive(parent.attr):
                    return self._no(name, f"the method {parent.attr}() is handed on as a value")
                continue
            if isinstance(parent, ast.Call) and name in parent.args and self.names.builtin(parent.func) in _LOOKING:
                continue
            if self._run(name):
                continue
            return self._no(name, "the object itself is handed on, and others may set its attributes")
        return None

    def _passive(self, name: str) -> bool:
        """Whether it does not matter when a method runs: it only computes (collates a batch, for instance)."""
        method = next(m for m in self.methods if m.name == name)
        if stands_apart(method) or is_property(method):
            return True
        parents = self.index.parents
        methods = {m.name for m in self.methods}
        for node in walk(method):
            if isinstance(node, ast.Attribute):
                if node.attr in _ACTIVE:
                    return False
                own = isinstance(node.value, ast.Name) and node.value.id == self.self_name
                if own and (node.attr in methods or not isinstance(node.ctx, ast.Load)):
                    return False
                outer = parents[node]
                if own and isinstance(outer, (*LOOPS, ast.comprehension)):
                    return False
        return True

    def reads(self) -> list[ast.Attribute]:
        """The attributes of the object that are variables, wherever its methods read or bind them."""
        parents = self.index.parents
        found = [a for n in self._selves() if isinstance(a := parents[n], ast.Attribute)]
        bound = {a.attr for a in (*found, *self.outside) if isinstance(a.ctx, ast.Store)}
        return [a for a in found if a.attr in bound]

    # ---- the object outside

    def _made(self) -> Unknown | None:
        """Whether the class is only there to make objects; which calls make them."""
        name = self.cls.name
        if len(self.index.module.bindings[name]) != 1:
            return self._no(self.cls, f"{name} is bound more than once")
        self.calls: list[ast.Call] = []
        for load in reads(self.index, self.index.module, name):
            parent = self.index.parents[load]
            if isinstance(parent, ast.Call) and parent.func is load:
                self.calls.append(parent)
            elif isinstance(parent, ast.ClassDef):
                return self._no(parent, f"{parent.name} is derived from {name}, and may set its attributes, too")
            elif not self._harmless(load) and not asked_of_class(self.index, self.cls, load):
                return self._no(load, f"the class {name} is handed on as a value")
        return None

    def _harmless(self, load: ast.Name) -> bool:
        """Whether the class is only named: in an annotation, or as the second argument of isinstance."""
        for parent in self.index.ancestors(load):
            if isinstance(parent, ast.arg):
                return True
            if isinstance(parent, FUNCTIONS):
                return parent.returns is not None and load in set(walk(parent.returns))
            if isinstance(parent, ast.Call):
                return self.names.builtin(parent.func) in ("isinstance", "super")
            if isinstance(parent, ast.AnnAssign):
                return load in set(walk(parent.annotation))
            if isinstance(parent, ast.stmt):
                return False
        return False

    def _object(self, call: ast.Call) -> Unknown | None:
        """Whether an object stays in one variable, and is only asked for attributes, by functions that get it, too."""
        name, parents = self.cls.name, self.index.parents
        given: ast.expr = call
        holder = parents[given]
        while (
            isinstance(holder, ast.IfExp)
            and given is not holder.test
            and _is_none(holder.orelse if given is holder.body else holder.body)
        ):
            given, holder = holder, parents[holder]
        if isinstance(holder, ast.Attribute):
            return self._asked(holder)
        if isinstance(holder, ast.Expr) or self._run(call):
            return None
        if isinstance(holder, ast.Return):
            return self._returned(call)
        if isinstance(holder, (ast.Call, ast.keyword)):
            return self._handed_on(call, f"the {name} made here", set())
        target = self._target(given, holder)
        if not isinstance(target, ast.Name):
            return self._no(call, f"the {name} made here is not kept in one variable")
        return self._variable(self.index.scope(target).owner(target.id), target.id, call, set())

    def _returned(self, call: ast.Call) -> Unknown | None:
        """The same of an object that a function returns: where that is called."""
        function = self.index.function(call)
        problem = self._no(call, f"the {self.cls.name} made here is not kept in one variable")
        if function is None or function.decorator_list or function in self.returning:
            return problem
        owner = self.index.scope(function)
        loads = reads(self.index, owner, function.name)
        if owner.is_class or len(owner.bindings[function.name]) != 1:
            return problem
        for part in (n.value for n in own_nodes(function) if isinstance(n, ast.Return)):
            if part is not None and not _is_none(part) and call not in walk(part):
                return self._no(part, f"{function.name}() may return something else than the {self.cls.name}")
        self.returning.append(function)
        for load in loads:
            site = self.index.parents[load]
            if not isinstance(site, ast.Call) or site.func is not load:
                return problem
            if (found := self._object(site)) is not None:
                return found
        self.returning.pop()
        return None

    def _target(self, given: ast.expr, holder: ast.AST) -> ast.expr | None:
        """What an object is assigned to: `a = Trainer()`, `a, b = Trainer(), Trainer()`."""
        statement = self.index.parents[holder] if isinstance(holder, ast.Tuple) else holder
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if isinstance(holder, ast.Tuple) and isinstance(target, ast.Tuple) and len(target.elts) == len(holder.elts):
            starred = any(isinstance(e, ast.Starred) for e in (*target.elts, *holder.elts))
            return None if starred else target.elts[holder.elts.index(given)]
        return target

    def _variable(self, owner: Scope | None, name: str, made: ast.AST, seen: set[ast.AST]) -> Unknown | None:
        """The same of a variable, or of a parameter."""
        if owner is None or not self._bound_once(owner, name):
            return self._no(made, f"`{name}` is bound more than once")
        parents = self.index.parents
        for load in reads(self.index, owner, name):
            parent = parents[load]
            classes = self._classes(load, owner)
            if self.cls not in classes:
                continue
            if len(classes) > 1:
                others = " or ".join(sorted(c.name for c in classes if c is not None and c is not self.cls))
                return self._no(load, f"`{name}` may be an object of {others}, too")
            if isinstance(parent, ast.Attribute):
                problem = self._asked(parent) if isinstance(parent.ctx, ast.Load) else self._set(parent, name)
            else:
                problem = None if self._run(load) else self._handed_on(load, f"`{name}`", seen)
            if problem is not None:
                return problem
        return None

    def _bound_once(self, owner: Scope, name: str) -> bool:
        """Whether a variable is bound once, or to nothing but new objects and None."""
        bindings = owner.bindings[name]
        return len(bindings) == 1 or all(b.how is How.ASSIGN and not b.path and self._new(b) for b in bindings)

    def _new(self, binding: Binding) -> bool:
        """Whether a variable gets a new object of a class of the script, or None."""
        return _is_none(binding.value) or self._class(binding) is not None

    def _class(self, binding: Binding) -> ast.ClassDef | None:
        """The class of the script of which a variable gets a new object."""
        func = binding.value.func if isinstance(binding.value, ast.Call) else None
        found = self.names.bindings(func) if isinstance(func, ast.Name) else []
        node = found[0].node if len(found) == 1 else None
        return node if isinstance(node, ast.ClassDef) else None

    def _classes(self, load: ast.Name, owner: Scope) -> set[ast.ClassDef | None]:
        """The classes of the objects that a variable may be where it is read."""
        if len(owner.bindings[load.id]) == 1:
            return {self.cls}
        return {c for b in self.names.reaching(load, owner) if (c := self._class(b)) is not None}

    def _run(self, node: ast.expr) -> bool:
        """Whether an object is called, as its class says."""
        call = self.index.parents[node]
        return isinstance(call, ast.Call) and call.func is node and any(m.name == "__call__" for m in self.bound)

    def _set(self, node: ast.Attribute, name: str) -> Unknown | None:
        """Whether an attribute that is set outside the class can be a variable all the same."""
        constants = self.index.scopes[self.cls].bindings
        if isinstance(node.ctx, ast.Del) or node.attr in constants or node in self.barred or node.attr.startswith("__"):
            return self._no(node, f"`{name}.{node.attr}` is set outside the class")
        self.outside.setdefault(node)
        return None

    def _handed_on(self, node: ast.expr, name: str, seen: set[ast.AST]) -> Unknown | None:
        """Whether a function of the script that gets the object does no more with it than ask for attributes."""
        problem = self._no(node, f"{name} is handed on, and others may set its attributes")
        call = self.index.parents[node]
        if isinstance(call, ast.keyword):
            call = self.index.parents[call]
        found = self.names.bindings(call.func) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else []
        function = found[0].node if len(found) == 1 else None
        given = bind(call, function) if isinstance(call, ast.Call) and isinstance(function, FUNCTIONS) else None
        taking = [parameter for parameter, argument in (given or {}).items() if argument is node]
        if not isinstance(function, FUNCTIONS) or function.decorator_list or not taking:
            return problem
        scope = self.index.scopes[function]
        parameter = next((p for p in parameters(function.args) if p.arg == taking[0]), None)
        if parameter is None or parameter in (function.args.vararg, function.args.kwarg):
            return problem
        return None if parameter in seen else self._variable(scope, taking[0], parameter, seen | {parameter})

    def _asked(self, node: ast.Attribute) -> Unknown | None:
        if node.attr.startswith("__"):
            return self._no(node, f"`{node.attr}` reaches attributes in another way")
        if not isinstance(node.ctx, ast.Load):
            return self._no(node, f"`{node.attr}` is set outside the class")
        methods = {m.name for m in self.methods if not is_property(m)}
        if node.attr in methods and not is_called(self.index, node):
            return self._no(node, f"the method {node.attr}() is handed on as a value or replaced")
        if self.module and node.attr not in self.known and node.attr not in self.index.attribute_bindings:
            return self._no(node, f"{self.cls.name} is a module, and `{node.attr}` that of all networks in it")
        return None

    @cached_property
    def known(self) -> Set[str]:
        """The attributes that the class and its methods name, and what a network does with all that it has."""
        parents = (self.index.parents[name] for name in self._selves())
        own = {p.attr for p in parents if isinstance(p, ast.Attribute)} | self.index.scopes[self.cls].bindings.keys()
        return own if own & HARMLESS else own | HARMLESS


def is_property(function: Function) -> bool:
    """Whether reading an attribute of this name runs the function."""
    return [d.id for d in function.decorator_list if isinstance(d, ast.Name)] == ["property"]


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
