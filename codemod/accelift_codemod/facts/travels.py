"""Where the objects of a class go: whether others do no more with them than ask for attributes.

An object may be kept in a variable, handed to functions, and to methods of other objects whose attributes are followed,
and be kept there in an attribute, which is a variable as any other by then.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from accelift_codemod.facts.callbacks import Callbacks
from accelift_codemod.facts.classes import asked_of_class, reads_constant, stands_apart
from accelift_codemod.facts.holders import HARMLESS
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How, Index, Scope, parameters
from accelift_codemod.facts.insides import Insides, Unknown, is_property
from accelift_codemod.facts.library import RETURNS_SELF
from accelift_codemod.facts.repeated import trained_again
from accelift_codemod.facts.signatures import bind
from accelift_codemod.facts.tree import is_constant, is_same_name, own_nodes, walk
from accelift_codemod.facts.uses import is_called, often, reads

_LOST = Unknown(0, "")  # it is handed on in a way that cannot be followed


@dataclass
class Known:
    """What is known of a tree when it is asked whether the objects of a class can be followed."""

    barred: Set[ast.AST] = frozenset()  # attributes that may not be set outside of their class
    modules: Set[str] = frozenset()  # the classes that are modules
    followed: Mapping[ast.ClassDef, str] = field(default_factory=dict)  # with what their methods call the object
    asked: Mapping[ast.Attribute, ast.ClassDef] = field(default_factory=dict)  # attributes of their objects, elsewhere


class Candidate(Insides):
    """One class, and whether all that happens to the attributes of its object is known."""

    def __init__(self, index: Index, cls: ast.ClassDef, known: Known) -> None:
        super().__init__(index, cls)
        self.known = known
        self.module = cls.name in known.modules
        self.outside: dict[ast.Attribute, None] = {}  # where attributes are set that are no methods
        self.asked: dict[ast.Attribute, None] = {}  # where attributes are read that are no methods' own
        self.asked_of: dict[ast.Call, list[ast.Attribute]] = {}  # the same for each of the objects
        self._asked_now: list[ast.Attribute] = []
        self.called: dict[ast.Call, list[Function]] = {}  # where the object hands itself to functions that it keeps
        self.wanted: set[ast.ClassDef] = set()  # whose objects keep an object of this one, and must be followed before
        self.returning: list[Function] = []  # functions that are looked at, for they return an object

    def unknown(self) -> Unknown | None:
        """Why the attributes cannot be followed; None if they can."""
        problem = self.inside() or self._made()
        for call in self.calls if problem is None else ():
            self.asked_of[call] = asked = list[ast.Attribute]()
            self._asked_now = asked
            if (problem := self._object(call)) is not None:
                return problem
        return problem or trained_again(self)

    def calls_back(self, name: ast.Name) -> Unknown | bool:
        """Whether the object hands itself to functions that it keeps in an attribute, which only ask it."""
        call = self.index.parents[name]
        if not isinstance(call, ast.Call) or name not in call.args:
            return False
        functions = Callbacks(self.index, self.names, self.cls, self.self_name).called(call)
        if functions is None or any(function.decorator_list for function in functions):
            return False
        self.called[call] = functions
        found = (self._taken(name, call, function, False, set()) for function in functions)
        return next((problem for problem in found if problem is not None), True)

    def several(self) -> bool:
        """Whether more than one object may be made."""
        return len(self.calls) > 1 or any(often(self.index, call) for call in self.calls)

    def reads(self) -> list[ast.Attribute]:
        """The attributes of the object that are variables, wherever its methods read or bind them."""
        found = self.own()
        bound = {a.attr for a in (*found, *self.outside) if isinstance(a.ctx, ast.Store)}
        return [a for a in found if a.attr in bound]

    def _made(self) -> Unknown | None:
        """Whether the class is only there to make objects; which calls make them."""
        name = self.cls.name
        if len(self.index.module.bindings[name]) != 1:
            return self.no(self.cls, f"{name} is bound more than once")
        self.calls: list[ast.Call] = []
        for load in reads(self.index, self.index.module, name):
            parent = self.index.parents[load]
            if isinstance(parent, ast.Call) and parent.func is load:
                self.calls.append(parent)
            elif isinstance(parent, ast.ClassDef):
                return self.no(parent, f"{parent.name} is derived from {name}, and may set its attributes, too")
            elif not self._harmless(load) and not self._asks_class(load):
                return self.no(load, f"the class {name} is handed on as a value")
        return None

    def _asks_class(self, load: ast.Name) -> bool:
        """Whether the class is only named for what has nothing to do with its objects."""
        return asked_of_class(self.index, self.cls, load) or reads_constant(self.index, self.cls, load)

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
        given: ast.expr = self._itself(call)
        holder = parents[given]
        while (
            isinstance(holder, ast.IfExp)
            and given is not holder.test
            and is_constant(holder.orelse if given is holder.body else holder.body, None)
        ):
            given, holder = holder, parents[holder]
        if isinstance(holder, ast.Attribute):
            return self._asked(holder)
        if isinstance(holder, ast.Expr) or self.is_run(call):
            return None
        if isinstance(holder, ast.Return):
            return self._returned(call)
        if isinstance(holder, (ast.Call, ast.keyword)):
            return self._handed_on(call, f"the {name} made here", set())
        target = self._target(given, holder)
        return self._kept(target, call, f"the {name} made here is not kept in one variable", set())

    def _itself(self, node: ast.expr) -> ast.expr:
        """The last of calls of methods that return their object: `Net().to(device)`, `Trainer().fit()`."""
        parents = self.index.parents
        giving = self.giving if self.trains_itself is None else RETURNS_SELF
        while giving:
            asked = parents[node]
            call = parents[asked]
            if not isinstance(asked, ast.Attribute) or asked.value is not node or asked.attr not in giving:
                break
            if not isinstance(call, ast.Call) or call.func is not asked:
                break
            self.asked.setdefault(asked)
            node = call
        return node

    def _kept(self, target: ast.expr | None, made: ast.expr, problem: str, seen: set[ast.AST]) -> Unknown | None:
        """The same of an object that is assigned to a variable, or to an attribute that is one by now."""
        if isinstance(target, ast.Attribute) and (keeper := self._keeper(target)) is not None:
            self.wanted.add(keeper)
        if not isinstance(target, ast.Name):
            return self.no(made, problem)
        if target in seen:
            return None
        return self._variable(self.index.scope(target).owner(target.id), target.id, made, seen | {target})

    def _keeper(self, target: ast.Attribute) -> ast.ClassDef | None:
        """The class in one of whose methods an attribute of the object is named."""
        cls = self.index.enclosing_class(target)
        first = Insides(self.index, cls).self_name if cls is not None and cls is not self.cls else ""
        return cls if isinstance(target.value, ast.Name) and target.value.id == first else None

    def _returned(self, given: ast.expr) -> Unknown | None:
        """The same of an object that a function returns: where that is called."""
        function = self.index.function(given)
        problem = self.no(given, f"the {self.cls.name} made here is not kept in one variable")
        if function is None or function.decorator_list or function in self.returning:
            return problem
        owner = self.index.scope(function)
        loads = reads(self.index, owner, function.name)
        if owner.is_class or len(owner.bindings[function.name]) != 1:
            return problem
        for part in (n.value for n in own_nodes(*function.body) if isinstance(n, ast.Return)):
            if (
                part is not None
                and not is_constant(part, None)
                and given not in walk(part)
                and not is_same_name(part, given)
            ):
                return self.no(part, f"{function.name}() may return something else than the {self.cls.name}")
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
            return self.no(made, f"`{name}` is bound more than once")
        parents = self.index.parents
        for load in self._reads(owner, name):
            parent = parents[load]
            classes = self._classes(load, owner.bindings[name], owner)
            if self.cls not in classes:
                continue
            if len(classes) > 1:
                others = " or ".join(sorted(c.name for c in classes if c is not None and c is not self.cls))
                return self.no(load, f"`{name}` may be an object of {others}, too")
            same = self._itself(load)
            if same is not load and isinstance(holder := parents[same], ast.Attribute):
                problem = self._asked(holder)
            elif same is not load:
                dropped = isinstance(holder, ast.Expr) or self._again_bound(same, name)
                problem = None if dropped else self.no(load, f"`{name}` is kept by another name")
            elif isinstance(parent, ast.Attribute):
                problem = self._asked(parent) if isinstance(parent.ctx, ast.Load) else self._set(parent, name)
            elif isinstance(parent, ast.Assign) and parent.value is load and len(parent.targets) == 1:
                problem = self._kept(parent.targets[0], load, f"`{name}` is kept where it cannot be followed", seen)
            elif self.is_run(load) or self.is_saved(load) or _is_tested(load, parent):
                problem = None
            elif isinstance(parent, ast.Return):
                problem = self._returned(load)
            else:
                problem = self._handed_on(load, f"`{name}`", seen)
            if problem is not None:
                return problem
        return None

    def _reads(self, owner: Scope, name: str) -> list[ast.Name | ast.Attribute]:
        """Where a variable is read; where that is an attribute, also by others who ask its object for it."""
        attribute = name.partition(".")[2]
        asked = (a for a, cls in self.known.asked.items() if cls is owner.node and a.attr == attribute)
        return [*reads(self.index, owner, name), *(asked if attribute else ())]

    def _bound_once(self, owner: Scope, name: str) -> bool:
        """Whether a variable is bound once, or to nothing but new objects and None."""
        bindings = self._given(owner.bindings[name])
        return len(bindings) == 1 or all(b.how is How.ASSIGN and not b.path and self._new(b) for b in bindings)

    def _given(self, bindings: list[Binding]) -> list[Binding]:
        """The bindings of a variable that may give it another object."""
        return [b for b in _filled(bindings) if b.value is None or not self._again_bound(b.value, b.name)]

    def _again_bound(self, value: ast.expr, name: str) -> bool:
        """Whether a variable gets the network that it has: `net = net.to(device)`."""
        holder, first = self.index.parents.get(value), value
        while isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute):
            first = first.func.value
        target = holder.targets[0] if isinstance(holder, ast.Assign) and len(holder.targets) == 1 else None
        named = isinstance(first, ast.Name) and isinstance(target, ast.Name) and first.id == target.id == name
        return named and isinstance(first, ast.expr) and self._itself(first) is value

    def _new(self, binding: Binding) -> bool:
        """Whether a variable gets a new object of a class of the script, or None."""
        return is_constant(binding.value, None) or self._class(binding) is not None

    def _class(self, binding: Binding) -> ast.ClassDef | None:
        """The class of the script of which a variable gets a new object."""
        func = binding.value.func if isinstance(binding.value, ast.Call) else None
        found = self.names.bindings(func) if isinstance(func, ast.Name) else []
        node = found[0].node if len(found) == 1 else None
        return node if isinstance(node, ast.ClassDef) else None

    def _classes(
        self, load: ast.Name | ast.Attribute, bindings: list[Binding], owner: Scope
    ) -> set[ast.ClassDef | None]:
        """The classes of the objects that a variable may be where it is read."""
        if len(self._given(bindings)) == 1:
            return {self.cls}
        reaching = self.names.reaching(load, owner) if isinstance(load, ast.Name) else bindings
        return {c for b in reaching if (c := self._class(b)) is not None}

    def _set(self, node: ast.Attribute, name: str) -> Unknown | None:
        """Whether an attribute that is set outside the class can be a variable all the same."""
        constants = self.index.scopes[self.cls].bindings
        barred = node.attr in constants or node in self.known.barred or node.attr.startswith("__")
        if barred or isinstance(node.ctx, ast.Del):
            return self.no(node, f"`{name}.{node.attr}` is set outside the class")
        self.outside.setdefault(node)
        return None

    def _handed_on(self, node: ast.expr, name: str, seen: set[ast.AST]) -> Unknown | None:
        """Whether a function of the script that gets the object does no more with it than ask for attributes."""
        problem = self.no(node, f"{name} is handed on, and others may set its attributes")
        call = self.index.parents[node]
        if isinstance(call, ast.keyword):
            call = self.index.parents[call]
        function, bound = self._taker(call) if isinstance(call, ast.Call) else (None, False)
        if function is None or function.decorator_list or not isinstance(call, ast.Call):
            return problem
        found = self._taken(node, call, function, bound, seen)
        return problem if found is _LOST else found

    def _taken(
        self, node: ast.expr, call: ast.Call, function: Function, bound: bool, seen: set[ast.AST]
    ) -> Unknown | None:
        """Whether a function that gets the object in a call does no more with it."""
        given = bind(call, function, bound)
        taking = [parameter for parameter, argument in (given or {}).items() if argument is node]
        if not taking:
            return _LOST
        scope = self.index.scopes[function]
        parameter = next((p for p in parameters(function.args) if p.arg == taking[0]), None)
        if parameter is None or parameter in (function.args.vararg, function.args.kwarg):
            return _LOST
        return None if parameter in seen else self._variable(scope, taking[0], parameter, seen | {parameter})

    def _taker(self, call: ast.Call) -> tuple[Function | None, bool]:
        """The function of the script that a call certainly runs, and whether that is a method of an object."""
        func = call.func
        if isinstance(func, ast.Attribute):
            owner = self.known.asked.get(func) or self._own_class(func)
            if owner is None and isinstance(func.value, ast.Name):
                made = (self._class(binding) for binding in self.names.bindings(func.value))
                self.wanted |= {cls for cls in made if cls is not None and cls not in self.known.followed}
            return (self._method(owner, func.attr), True) if owner is not None else (None, False)
        found = self.names.bindings(func) if isinstance(func, ast.Name) else []
        node = found[0].node if len(found) == 1 else None
        if not isinstance(node, ast.ClassDef):
            return (node if isinstance(node, FUNCTIONS) else None), False
        if node not in self.known.followed:
            self.wanted.add(node)
            return None, False
        return self._method(node, "__init__"), True

    def _own_class(self, func: ast.Attribute) -> ast.ClassDef | None:
        """The class, if it is followed, in one of whose methods a method of the same object is called."""
        cls = self.index.enclosing_class(func)
        own = self.known.followed.get(cls) if cls is not None else None
        return cls if isinstance(func.value, ast.Name) and func.value.id == own else None

    def _method(self, cls: ast.ClassDef, name: str) -> Function | None:
        """The method of a class that is followed, if it is given the object that it is called of."""
        found = (s for s in cls.body if isinstance(s, FUNCTIONS) and s.name == name and not stands_apart(s))
        return next(found, None)

    def _asked(self, node: ast.Attribute) -> Unknown | None:
        self.asked.setdefault(node)
        self._asked_now.append(node)
        if node.attr.startswith("__"):
            return self.no(node, f"`{node.attr}` reaches attributes in another way")
        if not isinstance(node.ctx, ast.Load):
            return self.no(node, f"`{node.attr}` is set outside the class")
        methods = {m.name for m in self.methods if not is_property(self.names, m)}
        if node.attr in methods and not is_called(self.index, node):
            return self.no(node, f"the method {node.attr}() is handed on as a value or replaced")
        if self.module and node.attr not in self._named and node.attr not in self.index.attribute_bindings:
            return self.no(node, f"{self.cls.name} is a module, and `{node.attr}` that of all networks in it")
        return None

    @cached_property
    def _named(self) -> Set[str]:
        """The attributes that the class and its methods name, and what a network does with all that it has."""
        parents = (self.index.parents[name] for name in self.selves())
        own = {p.attr for p in parents if isinstance(p, ast.Attribute)} | self.index.scopes[self.cls].bindings.keys()
        return own if own & HARMLESS else own | HARMLESS


def _filled(bindings: list[Binding]) -> list[Binding]:
    """The bindings of a variable but for those to None, before there is an object or when it is gone."""
    return [b for b in bindings if b.how is not How.ASSIGN or b.path or not is_constant(b.value, None)] or bindings


def _is_tested(node: ast.AST, parent: ast.AST) -> bool:
    """Whether it is only asked whether there is an object: `if policy is None`, `if policy`."""
    if isinstance(parent, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops)
    if isinstance(parent, ast.UnaryOp):
        return isinstance(parent.op, ast.Not)
    return isinstance(parent, (ast.If, ast.IfExp, ast.Assert)) and parent.test is node
