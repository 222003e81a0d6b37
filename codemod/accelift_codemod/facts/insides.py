"""What the methods of a class do with their object: whether all that happens to its attributes there is known."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from accelift_codemod.facts import library
from accelift_codemod.facts.classes import Classes, stands_apart
from accelift_codemod.facts.decorators import runs_as_it_stands
from accelift_codemod.facts.index import FUNCTIONS, LOOPS, Function, Index
from accelift_codemod.facts.inheritance import is_abstract, is_of_abc
from accelift_codemod.facts.self_trained import is_kept, problem, training_method
from accelift_codemod.facts.tree import own_nodes, walk
from accelift_codemod.facts.uses import is_called
from accelift_codemod.facts.values import Role

_SPECIAL = frozenset({"__init__", "__repr__", "__str__", "__call__"})
# Names that Python, or a library that is handed the object, looks for by itself.
_KNOWN = frozenset(
    {name for of in (object, type, complex, str, list, dict, set, memoryview, property, Exception) for name in dir(of)}
    | {f"__{way}{name}__" for way in ("", "a") for name in ("enter", "exit", "iter", "next")}
    | {
        f"__{name}__"
        for name in "await call del missing setitem fspath copy deepcopy getattr getnewargs getnewargs_ex getstate "
        "setstate post_init set_name array array_ufunc torch_function".split()
    }
)
_ASKING = frozenset({"__len__", "__getitem__", "__contains__", "__bool__", "__del__"})
# Decorators that run a method as it stands.
_PLAIN = frozenset({"torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.set_grad_enabled"})
_FUNCTIONS = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
# What a method does that is more than computing.
_ACTIVE = frozenset({"backward", "step", "zero_grad", "state_dict", "load_state_dict", "save"})
_STEPPING = frozenset({"step", "zero_grad"})
# Built-in functions that only look at an object.
_MEASURING = frozenset({"len", "int", "float", "str", "bool", "min", "max", "abs", "round", "isinstance"})
# What makes something of what it is given, or of what the machine has, and does no more.
_MAKING = frozenset(
    f"torch.{name}"
    for name in (
        "device cuda.is_available cuda.device_count backends.mps.is_available backends.mps.is_built "
        "accelerator.is_available accelerator.current_accelerator tensor as_tensor zeros ones full arange"
    ).split()
)
_MOVES = frozenset({"to", "cuda"})
# Statements of a method that only tells something.
_TELLING = (ast.Expr, ast.Return, ast.If, ast.Raise, ast.Assert, ast.Assign, ast.AnnAssign, ast.Pass)
_REACHING = frozenset({"__setattr__", "__delattr__", "__dict__"})  # attributes, whatever they are called
_LOOKING = frozenset({"super", "isinstance", "type", "id", "repr", "str", "print", "hasattr"})


@dataclass(frozen=True)
class Unknown:
    """Why the attributes of a class are not followed, and the line that says so."""

    line: int
    reason: str


class Insides:
    """A class, seen from its own methods."""

    def __init__(self, index: Index, cls: ast.ClassDef) -> None:
        self.index = index
        self.cls = cls
        self.names = Classes(index, {}, {})
        self.methods = [s for s in cls.body if isinstance(s, FUNCTIONS)]
        bound = [m for m in self.methods if not stands_apart(m)]
        self.self_name = next((p.arg for m in bound for p in (*m.args.posonlyargs, *m.args.args)[:1]), "self")
        self.bound = bound
        self.trains_itself = training_method(index, self.names, cls)  # of a network
        self.returning_self: list[Function] = []  # methods of such a network
        # Methods of others of which every call is the object itself: `return self`.
        self.giving = {m.name for m in bound if self.trains_itself is None and self._gives_itself(m)}

    def inside(self) -> Unknown | None:
        """Why the attributes cannot be followed, by the class itself; None if they can."""
        return self._shape() or self._methods() or self._of_network() or self._of_self()

    # ---- the class

    def no(self, node: ast.AST, reason: str) -> Unknown:
        return Unknown(node.lineno, reason)  # type: ignore[attr-defined]

    def _shape(self) -> Unknown | None:
        cls, name = self.cls, self.cls.name
        if not self.index.scope(cls).is_module:
            return self.no(cls, f"the class {name} is defined inside a function or class")
        for base in cls.bases if self.trains_itself is None else ():
            if self.names.builtin(base) != "object" and not is_of_abc(self.index, self.names, base, "ABC"):
                return self.no(cls, self._based(base))
        if cls.decorator_list or not all(is_abstract(self.index, self.names, k) for k in cls.keywords):
            return self.no(cls, f"{name} has a decorator or a metaclass")
        for statement in cls.body:
            if isinstance(statement, ast.ClassDef) or not isinstance(
                statement, (*FUNCTIONS, ast.Expr, ast.Assign, ast.AnnAssign, ast.Pass)
            ):
                return self.no(statement, f"the body of {name} has more than methods and constants")
        return None

    def _based(self, base: ast.expr) -> str:
        """Why a class with a base is not followed."""
        name = self.cls.name
        if self.names.class_role(self.cls) is Role.MODEL:
            steps = any(isinstance(n, ast.Attribute) and n.attr in _STEPPING for n in walk(self.cls))
            what = "that trains itself" if steps else "one of whose methods runs a backward pass"
            return (
                f"{name} is a network {what}; DistributedDataParallel wraps a network from outside, and what its own "
                "methods call goes past that"
            )
        if self.names.qualified(base) in _FUNCTIONS:
            return f"{name} is a function of autograd, whose backward pass runs in that of the training"
        others = [c.name for c in self.index.classes if c is not self.cls and self._derives(c, base)]
        if others:
            return f"{name} has a base class, that of {others[0]}, too, whose methods may use its attributes"
        return f"{name} has a base class, whose methods may use its attributes, too"

    def _of_network(self) -> Unknown | None:
        method = self.trains_itself
        found = problem(self.index, self.names, self.cls, method) if method is not None else None
        return self.no(*found) if found is not None else None

    def _derives(self, cls: ast.ClassDef, base: ast.expr) -> bool:
        """Whether a class has a base of the program, too."""
        found = self.names.bindings(base) if isinstance(base, ast.Name) else []
        return any(b.node in self.names.ancestry(cls) and b.node is not cls for b in found)

    def _methods(self) -> Unknown | None:
        seen: set[str] = set()
        for method in self.methods:
            name = method.name
            if name in seen:
                return self.no(method, f"the method {name}() is defined twice")
            seen.add(name)
            if self._runs_unnamed(name):
                return self.no(method, f"the method {name}() runs without being called by name")
            for decorator in method.decorator_list:
                if stands_apart(method) or self._plain(decorator) or self._looks(method):
                    continue
                return self.no(method, f"the method {name}() has a decorator that may run it in another way")
        for method in self.methods:
            inner = next((n for n in walk(method) if isinstance(n, ast.ClassDef)), None)
            if inner is not None:
                return self.no(inner, f"the class {inner.name} is defined in a method")
        for method in self.bound:
            first = (*method.args.posonlyargs, *method.args.args)[:1]
            if not first or first[0].arg != self.self_name:
                return self.no(method, f"the methods call their object {self.self_name} and otherwise")
            bindings = self.index.scopes[method].bindings[self.self_name]
            if len(bindings) != 1:
                return self.no(bindings[-1].node, f"{self.self_name} is bound again")
        return None

    def _runs_unnamed(self, name: str) -> bool:
        """Whether a method may run without being called by name, and do more than asking."""
        if not (name.startswith("__") and name.endswith("__")) or name in _SPECIAL or self._asks(name):
            return False
        calls = (self.index.parents.get(read) for read in self.index.attributes.get(name, ()))
        return name in _KNOWN or not any(isinstance(call, ast.Call) for call in calls)

    def _asks(self, name: str) -> bool:
        """Whether a method that runs without being called by name only asks the object something, or leaves it."""
        return name in _ASKING and self._passive(name)

    def _plain(self, decorator: ast.expr) -> bool:
        func = decorator.func if isinstance(decorator, ast.Call) else decorator
        if runs_as_it_stands(self.names, decorator):
            return True
        return self.names.qualified(func) in _PLAIN or is_of_abc(self.index, self.names, func, "abstractmethod")

    def _looks(self, method: Function) -> bool:
        """Whether a method is a property that only returns something: an attribute, or what a builtin finds of one;
        perhaps one thing or another."""
        if not is_property(self.names, method):
            return False
        if self.trains_itself is not None:  # its attributes are those of any network: it may compute what it likes
            return not any(isinstance(n, ast.Attribute) and n.attr in _ACTIVE for n in walk(method))
        inside = list(walk(method))
        stores = (
            n for n in inside if isinstance(n, (ast.Attribute, ast.Subscript)) and not isinstance(n.ctx, ast.Load)
        )
        return (
            all(isinstance(n, _TELLING) for n in inside if isinstance(n, ast.stmt) and n is not method)
            and not any(True for _ in stores)
            and not any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)) for n in inside)
            and all(self._measures(call) for call in inside if isinstance(call, ast.Call))
        )

    def _measures(self, call: ast.Call) -> bool:
        """Whether a call only looks (a builtin, a path, `next(self.model.parameters())`), makes a loss of torch, or
        what one is given, or is an error."""
        if isinstance(self.index.parents[call], ast.Raise) and isinstance(call.func, ast.Name):
            return True
        qualified, builtin = self.names.qualified(call.func) or "", self.names.builtin(call.func)
        first = builtin == "next" and len(call.args) == 1 and _asks_for_parameters(call.args[0])
        if first or _asks_for_parameters(call):
            return True
        moved = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr in _MOVES else None
        if isinstance(moved, ast.Call):  # what has just been made there
            return library.role(self.names.qualified(moved.func) or "") is Role.LOSS or self._measures(moved)
        makes = qualified in _MAKING or library.role(qualified) is Role.LOSS
        return builtin in _MEASURING or makes or qualified.startswith("os.path.")

    # ---- the object inside its methods

    def _is_self(self, name: ast.Name) -> bool:
        owner = self.index.scope(name).owner(name.id)
        return owner is not None and owner.node in self.bound

    def _of_another(self, node: ast.Attribute) -> bool:
        """Whether `__dict__` is that of something else: `args.__dict__`. Other variables of the object are looked at
        where they get it."""
        root: ast.expr = node.value
        while isinstance(root, ast.Attribute):
            root = root.value
        if node.attr != "__dict__" or not isinstance(root, ast.Name) or not isinstance(node.ctx, ast.Load):
            return False
        if root.id == self.self_name and self._is_self(root):
            return root is not node.value
        return not _names_a_class(self.names, root)

    def selves(self) -> list[ast.Name]:
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
            if isinstance(node, ast.Attribute) and node.attr in _REACHING:
                if self._of_another(node) or (isinstance(node.value, ast.Name) and self._takes_settings(node.value)):
                    continue
                return self.no(node, f"`{node.attr}` reaches attributes in another way")
        for name in self.selves():
            parent = parents[name]
            if self._takes_settings(name):
                continue
            if isinstance(parent, ast.Attribute):
                special = parent.attr.startswith("__") and parent.attr.endswith("__") and parent.attr != "__class__"
                if special and (parent.attr in _KNOWN or parent.attr not in methods):
                    return self.no(name, f"`{name.id}.{parent.attr}` reaches attributes in another way")
                if parent.attr in constants and not isinstance(parent.ctx, ast.Load):
                    what = f"the method {parent.attr}() is replaced" if parent.attr in methods else ""
                    return self.no(
                        name, what or f"`{parent.attr}` is an attribute of the class, and of its object, too"
                    )
                if parent.attr in methods and not is_called(self.index, parent) and not self._passive(parent.attr):
                    return self.no(name, f"the method {parent.attr}() is handed on as a value")
                if parent.attr in self.giving and not isinstance(parents[parents[parent]], (ast.Expr, ast.Attribute)):
                    return self.no(name, f"what {parent.attr}() returns is the object itself, and is kept")
                continue
            if isinstance(parent, ast.Call) and name in parent.args and self.names.builtin(parent.func) in _LOOKING:
                continue
            if self.is_run(name):
                continue
            if self.is_saved(name):
                continue
            back = self.calls_back(name)
            if isinstance(back, Unknown):
                return (
                    back if back.reason else self.no(name, "the object itself is handed on, in a way that is not known")
                )
            if back:
                continue
            giving = self.index.function(parent) if isinstance(parent, ast.Return) else None
            if self.trains_itself is not None and giving is not None:
                self.returning_self.append(giving)
                continue
            if giving is not None and giving.name in self.giving:
                continue
            return self.no(name, "the object itself is handed on, and others may set its attributes")
        return None

    def _takes_settings(self, name: ast.Name) -> bool:
        """Whether a constructor gives the object attributes by their names before it has any others, so that those
        which it then binds are what it says: `self.__dict__.update(settings)`."""
        statement, method = self.index.statement(name), self.index.function(name)
        if method is None or method.name != "__init__" or method not in self.bound or self.trains_itself is not None:
            return False
        if name.id != self.self_name or self.index.scopes[self.cls].bindings.keys() - {m.name for m in self.methods}:
            return False  # what the class says of a constant would not hold
        around = {statement, *self.index.ancestors(statement)}
        top = next((s for s in method.body if s in around), None)
        if top is not statement and not (isinstance(top, ast.For) and top.body == [statement] and not top.orelse):
            return False
        call = statement.value if isinstance(statement, ast.Expr) else None
        if top is None or not isinstance(call, ast.Call):
            return False
        if any(map(self._has_attributes, method.body[: method.body.index(top)])):
            return False
        if top is not statement:  # `for name, value in settings.items(): setattr(self, name, value)`
            return self.names.builtin(call.func) == "setattr" and call.args[:1] == [name]
        held = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "update" else None
        own = isinstance(held, ast.Attribute) and held.attr == "__dict__" and held.value is name
        return own or (isinstance(held, ast.Call) and self.names.builtin(held.func) == "vars" and held.args == [name])

    def _has_attributes(self, statement: ast.stmt) -> bool:
        """Whether a statement of a method does something with the object."""
        return any(isinstance(n, ast.Name) and n.id == self.self_name for n in walk(statement))

    def _gives_itself(self, method: Function) -> bool:
        """Whether a method returns the object, if it returns something."""
        special = method.name.startswith("__") and method.name.endswith("__")
        nodes = list(own_nodes(*method.body))
        given = {ast.unparse(n.value) for n in nodes if isinstance(n, ast.Return) and n.value is not None}
        yields = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in nodes)
        return given - {"None"} == {self.self_name} and not (special or yields or method.decorator_list)

    def _passive(self, name: str) -> bool:
        """Whether it does not matter when a method runs: it only computes (collates a batch, for instance)."""
        method = next(m for m in self.methods if m.name == name)
        if stands_apart(method) or is_property(self.names, method):
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

    def is_run(self, node: ast.expr) -> bool:
        """Whether an object is called, as its class says."""
        call = self.index.parents[node]
        called = self.trains_itself is not None or any(m.name == "__call__" for m in self.bound)
        return isinstance(call, ast.Call) and call.func is node and called

    def calls_back(self, name: ast.Name) -> Unknown | bool:
        """Whether the object is handed to a function that it keeps, or why that may do more than ask it."""
        return False

    def is_saved(self, node: ast.expr) -> bool:
        """Whether a network is saved whole."""
        call = self.index.parents[node]
        saved = isinstance(call, ast.Call) and call.args[:1] == [node]
        return saved and self.trains_itself is not None and self.names.qualified(call.func) == "torch.save"  # type: ignore[attr-defined]

    def own(self) -> list[ast.Attribute]:
        """The attributes of the object where its methods name them; of a network, those that are no part of it."""
        parents = self.index.parents
        found = [a for n in self.selves() if isinstance(a := parents[n], ast.Attribute)]
        if self.trains_itself is None:
            return found
        made: dict[str, list[ast.expr | None]] = {}
        for attribute in found:
            if not isinstance(attribute.ctx, ast.Load):
                made.setdefault(attribute.attr, []).append(getattr(parents[attribute], "value", None))
        kept = {name for name, values in made.items() if is_kept(self.names, values)}
        return [a for a in found if a.attr in kept]


def _asks_for_parameters(node: ast.expr) -> bool:
    """Whether an expression is a network's `parameters()`."""
    func = node.func if isinstance(node, ast.Call) and not node.args else None
    return isinstance(func, ast.Attribute) and func.attr == "parameters"


def _names_a_class(names: Classes, name: ast.Name) -> bool:
    return any(isinstance(b.node, ast.ClassDef) for b in names.bindings(name))


def is_property(names: Classes, function: Function) -> bool:
    """Whether reading an attribute of this name runs the function, each time or the first."""
    decorators = function.decorator_list
    return len(decorators) == 1 and (
        names.builtin(decorators[0]) == "property" or names.qualified(decorators[0]) == "functools.cached_property"
    )
