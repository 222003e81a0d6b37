"""Classes with bases in the program as one class: a tree in which a derived class has its inherited methods itself.

A class that trains and has bases in the program is one class to whoever makes its object. So in a copy
of the tree the methods and constants of its bases stand in its own body, and `super().fit()` calls `self.fit@Base()`,
as `Base.fit(self)` does.
Nodes of the copy know the nodes that they stand for. What a base has and the derived class replaces is left out.
A base of several such classes stands in each of them: twins, which all have to be converted in the same way.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from accelift_codemod.facts.classes import Classes, is_class_method, is_static
from accelift_codemod.facts.copying import Copier, Hook, around
from accelift_codemod.facts.holders import only_holds
from accelift_codemod.facts.index import FUNCTIONS, Function, How, Index
from accelift_codemod.facts.keepers import keepers
from accelift_codemod.facts.names import Names
from accelift_codemod.facts.tree import walk


@dataclass(frozen=True)
class Flat:
    """The tree to draw facts from."""

    tree: ast.Module
    originals: Mapping[ast.AST, ast.AST] = field(default_factory=dict)  # empty: the tree is the original
    modules: frozenset[str] = frozenset()  # the classes that are modules, and only hold networks
    twins: frozenset[ast.AST] = frozenset()  # the nodes of the tree that stand for what others stand for, too


def find(index: Index) -> Flat:
    """The tree of a script with the bases of classes that train, or keep what does, folded into them."""
    trains = trainers(index)
    derived = [cls for cls in index.classes if cls.bases] if trains else []
    names = Classes(index, {}, {})
    trains |= {cls for cls in keepers(index) if names.class_role(cls) is None} if derived else set()
    families = _related(names, [f for cls in derived if (f := _Family.of(index, names, cls)) is not None], trains)
    families += [f for cls in derived if cls in trains and (f := _Family.alone(index, names, cls)) is not None]
    if not families:
        return Flat(index.tree)
    copier = _Copier(index, families)
    modules = (f.chain[0].name for f in families if f.holds)
    tree = copier.copy(index.tree)
    twins = (new for new, old in copier.originals.items() if old in copier.twice)
    return Flat(tree, copier.originals, frozenset(modules), frozenset(twins))


def _related(names: Names, families: list[_Family], trains: Set[ast.ClassDef]) -> list[_Family]:
    """The families that train, and those that have a base of theirs; of none that others derive from, too."""
    derived: dict[ast.ClassDef, list[ast.ClassDef]] = {}
    for cls in names.index.classes:
        for base in cls.bases:
            if (parent := _class(names, base)) is not None:
                derived.setdefault(parent, []).append(cls)
    made: set[ast.ClassDef | None] = {_class(names, call.func) for call in names.index.calls}
    while True:
        known = {cls for family in families for cls in family.chain}
        bases = {base for base, heirs in derived.items() if not known.isdisjoint(heirs)}
        sound = [f for f in families if all(_is_shared(known, made | bases, derived.get(cls, [])) for cls in f.chain)]
        if len(sound) == len(families):
            break
        families = sound
    found = {cls for family in families if trains & {*family.chain} for cls in family.chain}
    while True:
        more = {cls for family in families if found & {*family.chain} for cls in family.chain}
        if more == found:
            return [family for family in families if found & {*family.chain}]
        found = more


def trainers(index: Index) -> set[ast.ClassDef]:
    """The classes whose methods run a backward pass, themselves or by functions of the program."""
    names = Names(index)
    called: dict[str, list[ast.Call]] = {}
    for call in index.calls:
        if isinstance(call.func, ast.Name):
            called.setdefault(call.func.id, []).append(call)
    found, seen = set[ast.ClassDef](), set[Function]()
    queue = list(index.methods.get("backward", []))
    while queue:
        call = queue.pop()
        cls, function = index.enclosing_class(call), index.function(call)
        if cls is not None:
            found.add(cls)
        elif function is not None and function not in seen:
            seen.add(function)
            sites = (c for c in called.get(function.name, ()) if isinstance(c.func, ast.Name))
            queue += [c for c in sites if any(b.node is function for b in names.bindings(c.func))]  # type: ignore[arg-type]
    return found


def _is_shared(known: set[ast.ClassDef], named: set[ast.ClassDef | None], derived: list[ast.ClassDef]) -> bool:
    """Whether all classes that derive from one are known, and objects are made of each by its name if they are several,
    or of those that derive from it."""
    return known.issuperset(derived) and (len(derived) < 2 or named.issuperset(derived))


@dataclass(frozen=True)
class _Family:
    """A class that objects are made of, and its bases in the program, nearest first."""

    chain: list[ast.ClassDef]
    outside: list[ast.expr]  # bases that the program does not define
    supers: dict[ast.Attribute, tuple[str, str]]  # for `super().fit`: how self is called, and the method's name here
    direct: dict[ast.Call, tuple[str, str]]  # the same for `Base.fit(self)`
    holds: bool  # whether it derives from a module only to hold networks

    @classmethod
    def of(cls, index: Index, names: Classes, leaf: ast.ClassDef) -> _Family | None:
        """The family of a class; None if it has no bases in the program, or they cannot be folded into it."""
        chain = _order(names, leaf)
        outside = [base for member in chain for base in member.bases if _class(names, base) not in chain]
        holds = only_holds(index, names, chain, outside)
        if not (holds or _is_line(names, chain) or all(_is_plain_base(index, names, base) for base in outside)):
            return None  # whose methods come between those of two bases
        direct = dict(_direct(index, names, chain))
        called = {call.func.value for call in direct if isinstance(call.func, ast.Attribute)}
        if len(chain) == 1 or not all(_plain(index, names, member, chain, called) for member in chain):
            return None
        supers = {}
        for place, member in enumerate(chain):
            for method in _methods(member):
                for call in (n for n in walk(method) if isinstance(n, ast.Call)):
                    if names.builtin(call.func) != "super":
                        continue
                    read = index.parents[call]
                    outer = index.parents[read]
                    if not (isinstance(read, ast.Attribute) and isinstance(outer, ast.Call) and outer.func is read):
                        return None
                    found = _inherited(chain, read.attr, place + 1)
                    first = (*method.args.posonlyargs, *method.args.args)[:1]
                    if found is not None and first and index.function(call) is method:
                        supers[read] = first[0].arg, _spelled(chain, read.attr, found)
                    elif found is not None:
                        return None
        return cls(chain, [] if holds else outside, supers, direct, holds)

    @classmethod
    def alone(cls, index: Index, names: Classes, leaf: ast.ClassDef) -> _Family | None:
        """A class that has no bases in the program, if that which it has is nothing but a place for attributes."""
        own = any(_class(names, base) is not None for base in leaf.bases)
        return None if own or not only_holds(index, names, [leaf], leaf.bases) else cls([leaf], [], {}, {}, True)

    def body(self) -> Iterator[tuple[ast.stmt, str]]:
        """The statements of the whole family, the constants of bases first, with the names of methods."""
        bound: set[str] = set()
        for member in reversed(self.chain[1:]):
            for statement in member.body:
                if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                    yield statement, ""
        for statement in self.chain[0].body:
            yield statement, statement.name if isinstance(statement, FUNCTIONS) else ""
        called = {name for _, name in (*self.supers.values(), *self.direct.values())}
        for member in self.chain[1:]:
            for method in _methods(member):
                name = _spelled(self.chain, method.name, member)
                if (name == method.name or name in called) and name not in bound:
                    bound.add(name)
                    yield method, name


def _methods(cls: ast.ClassDef) -> list[Function]:
    return [s for s in cls.body if isinstance(s, FUNCTIONS)]


def _class(names: Names, node: ast.expr) -> ast.ClassDef | None:
    """The class of the program that an expression certainly is."""
    found = names.bindings(node) if isinstance(node, ast.Name) else []
    cls = found[0].node if len(found) == 1 and found[0].how is How.CLASS else None
    return cls if isinstance(cls, ast.ClassDef) else None


def _order(names: Names, cls: ast.ClassDef, around: tuple[ast.ClassDef, ...] = ()) -> list[ast.ClassDef]:
    """A class and its bases in the program, in the order in which Python looks for a method in them.

    That is the class alone if there is no such order.
    """
    bases = [b for base in cls.bases if (b := _class(names, base)) is not None and b not in (*around, cls)]
    found, rest = [cls], [*(_order(names, base, (*around, cls)) for base in bases), bases]
    while rest := [order for order in rest if order]:
        following = {base for order in rest for base in order[1:]}
        nearest = next((order[0] for order in rest if order[0] not in following), None)
        if nearest is None:
            return [cls]
        found.append(nearest)
        rest = [[base for base in order if base is not nearest] for order in rest]
    return found


def _is_line(names: Names, chain: list[ast.ClassDef]) -> bool:
    """Whether no class of a chain has two bases in the program."""
    return all(sum(_class(names, base) in chain for base in member.bases) < 2 for member in chain)


def _is_plain_base(index: Index, names: Names, base: ast.expr) -> bool:
    """Whether a base that the program does not define has no methods that matter."""
    return names.builtin(base) == "object" or is_of_abc(index, names, base, "ABC")


def _inherited(chain: list[ast.ClassDef], name: str, start: int) -> ast.ClassDef | None:
    """The first class of a chain that has a method, from a place on."""
    return next((c for c in chain[start:] if any(m.name == name for m in _methods(c))), None)


def _spelled(chain: list[ast.ClassDef], name: str, owner: ast.ClassDef) -> str:
    """What a method of a chain is called in the one class: those that are replaced get the class's name."""
    return name if _inherited(chain, name, 0) is owner else f"{name}@{owner.name}"


def _direct(index: Index, names: Names, chain: list[ast.ClassDef]) -> Iterator[tuple[ast.Call, tuple[str, str]]]:
    """The calls of a class's methods by its name, `Base.fit(self)`, in those derived from it."""
    for place, member in enumerate(chain):
        for method in _methods(member):
            first = (*method.args.posonlyargs, *method.args.args)[:1]
            for call in (n for n in walk(method) if isinstance(n, ast.Call) and n.args and first):
                func, given = call.func, call.args[0]
                base = _class(names, func.value) if isinstance(func, ast.Attribute) else None
                if base not in chain[place + 1 :] or not isinstance(func, ast.Attribute) or base is None:
                    continue
                found = _inherited(_order(names, base), func.attr, 0)
                if any(m.name == func.attr and (is_static(m) or is_class_method(m)) for m in _methods(found or base)):
                    continue
                own = isinstance(given, ast.Name) and given.id == first[0].arg and index.function(call) is method
                if own and found is not None and len(index.scopes[method].bindings[first[0].arg]) == 1:
                    yield call, (first[0].arg, _spelled(chain, func.attr, found))


def _plain(index: Index, names: Names, cls: ast.ClassDef, chain: list[ast.ClassDef], called: Set[ast.expr]) -> bool:
    """Whether a class of a chain is used for nothing but the chain. `called` are reads whose methods are called."""
    if not index.scope(cls).is_module or len(index.module.bindings[cls.name]) != 1:
        return False
    if cls is not chain[0] and (cls.decorator_list or not all(is_abstract(index, names, k) for k in cls.keywords)):
        return False
    for node in walk(cls):
        if isinstance(node, ast.Attribute) and node.attr.startswith("__") and not node.attr.endswith("__"):
            return False  # the name that Python gives it has the class's name in it
    loads = [n for s in index.scopes.values() for n in s.loads.get(cls.name, ()) if s.owner(cls.name) is index.module]
    for load in loads:
        parent = index.parents[load]
        if isinstance(parent, ast.ClassDef) and load in parent.bases:
            if cls is chain[0]:
                return False
        elif cls is not chain[0] and not (
            isinstance(parent, ast.arg)
            or load in called
            or _of_another(index, names, load, cls, chain)
            or (isinstance(parent, ast.Call) and names.builtin(parent.func) in ("isinstance", "super"))
        ):
            return False
    return True


def _of_another(index: Index, names: Names, load: ast.Name, cls: ast.ClassDef, chain: list[ast.ClassDef]) -> bool:
    """Whether a class is named in another one that derives from it, whose family it is to say what that is for."""
    queue, seen = [index.enclosing_class(load)], set[ast.ClassDef]()
    while queue:
        around = queue.pop()
        if around is None or around in chain or around in seen:
            continue
        seen.add(around)
        bases = [_class(names, base) for base in around.bases]
        if cls in bases:
            return True
        queue += bases
    return False


def is_abstract(index: Index, names: Names, keyword: ast.keyword) -> bool:
    """`metaclass=ABCMeta`."""
    return keyword.arg == "metaclass" and is_of_abc(index, names, keyword.value, "ABCMeta")


def is_of_abc(index: Index, names: Names, node: ast.expr, name: str) -> bool:
    """Whether an expression is something of the library `abc`, which changes nothing for the objects there are."""
    starred = names.builtin(node) == name and "abc" in index.star_imports
    return starred or names.qualified(node) == f"abc.{name}"


class _Copier(Copier):
    """Copies a tree, with the families in it folded."""

    def __init__(self, index: Index, families: list[_Family]) -> None:
        self.leaves = {family.chain[0]: family for family in families}
        members = Counter(cls for family in families for cls in family.chain[1:])
        self.bases = set(members)
        self.twice = {n for cls, number in members.items() if number > 1 for s in cls.body for n in walk(s)}
        self.supers: Mapping[ast.Attribute, tuple[str, str]] = {}  # of the family that is copied
        self.direct: Mapping[ast.Call, tuple[str, str]] = {}
        calls = [node for family in families for node in (*family.supers, *family.direct)]
        outside = [n for family in families for base in family.outside for n in walk(base)]
        changing = around(index, (*self.leaves, *self.bases, *calls, *outside, *self.twice))
        hooks: dict[type[ast.AST], Hook] = {
            ast.ClassDef: self._class,
            ast.Attribute: self._attribute,
            ast.Call: self._call,
        }
        super().__init__(hooks, changing)

    def _class(self, node: ast.ClassDef) -> ast.ClassDef | None:
        family = self.leaves.get(node)
        if family is None and node not in self.bases:
            return None
        new = self.plain(node)
        if family is None:
            new.body = [self.noted(ast.Pass(), node.body[0])]
        else:
            self.supers, self.direct = family.supers, family.direct
            new.bases = [self.copy(base) for base in family.outside]
            new.body = [self._member(statement, name) for statement, name in family.body()]
        return new

    def _member(self, statement: ast.stmt, name: str) -> ast.stmt:
        if not isinstance(statement, FUNCTIONS) or statement.name == name:
            return self.copy(statement)
        new = self.plain(statement)
        new.name = name
        return new

    def _attribute(self, node: ast.Attribute) -> ast.Attribute | None:
        """`self.fit@Base` in the place of `super().fit`."""
        if node not in self.supers:
            return None
        own, name = self.supers[node]
        return ast.Attribute(self.noted(ast.Name(own, ast.Load()), node.value), name, ast.Load())

    def _call(self, node: ast.Call) -> ast.Call | None:
        """`self.fit@Base(x)` in the place of `Base.fit(self, x)`."""
        if node not in self.direct:
            return None
        own, name = self.direct[node]
        func = ast.Attribute(self.noted(ast.Name(own, ast.Load()), node.args[0]), name, ast.Load())
        arguments = [self.copy(argument) for argument in node.args[1:]]
        return ast.Call(self.noted(func, node.func), arguments, [self.copy(keyword) for keyword in node.keywords])
