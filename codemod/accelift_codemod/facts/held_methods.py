"""Methods that variables hold: a tree in which calls name them.

After `crit = Losses().ce` a call `crit(out, y)` runs a method of an object. In a copy of the tree the variable holds
the object, and the call is `crit.ce(out, y)`. Of an object that has a name of its own, as in `step = self.train_pair`,
it is `self.train_pair(x, y)`. Where a variable holds one of several methods, the call is one of each, of which one
runs. The same holds for what a method gives that only chooses (`Losses().build("ce")`), and what parameters are given.

Only of classes of the script that are derived of no library's, and only if all is known that a variable is set to, and
nothing is done with it but to call it and to hand it on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from accelift_codemod.facts.copying import Copier, around
from accelift_codemod.facts.index import FUNCTIONS, Binding, How, Index, Scope, parameters
from accelift_codemod.facts.method_reads import Leaf, MethodReads
from accelift_codemod.facts.signatures import bind, default, is_told
from accelift_codemod.facts.tree import is_constant, targets, walk
from accelift_codemod.facts.uses import is_called

_MOST = 4  # methods of which a variable may hold one
_PLAIN = (ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.keyword, ast.expr_context, ast.BinOp, ast.operator)

_Variable = tuple[Scope | ast.ClassDef, str]  # of a scope, or an attribute that the objects of a class have


@dataclass(frozen=True)
class HeldMethods:
    """The tree to draw facts from."""

    tree: ast.Module
    originals: Mapping[ast.AST, ast.AST] = field(default_factory=dict)  # empty: the tree is the original


def find(index: Index) -> HeldMethods:
    """The tree of a script with calls of the methods that variables hold."""
    reads = MethodReads(index)
    held = [group for group in _groups(index, reads) if group.is_plain()]
    if not held:
        return HeldMethods(index.tree)
    copier = _Copier(index, held)
    tree = copier.copy(index.tree)
    copier.settle()
    return HeldMethods(tree, copier.originals)


def _groups(index: Index, reads: MethodReads) -> Iterator[_Group]:
    """What holds methods, each with all that it hands them on to."""
    seen: set[ast.AST] = set()
    for source in reads.sources():
        if source not in seen:
            group = _Group(index, reads)
            known = group.holds(source)
            seen |= group.sources.keys()
            if known and group.calls:
                yield group


class _Unknown(Exception):
    """It cannot be told what a variable holds, or what becomes of it."""


class _Group:
    """Variables that hold the same: what each is set to, and the calls of what they hold."""

    def __init__(self, index: Index, reads: MethodReads) -> None:
        self.index, self.reads, self.names = index, reads, reads.names
        self.variables: dict[_Variable, None] = {}
        self.sources: dict[ast.expr, tuple[Leaf, ...]] = {}
        self.calls: dict[ast.Call, None] = {}
        self.handed = False  # whether it is handed on, by a call or to another variable

    def holds(self, source: ast.expr) -> bool:
        """Follow what is read or given at a place; whether all is known of what holds it."""
        try:
            self._used(source)
            for variable in self._growing():
                self._follow(variable)
        except _Unknown:
            return False
        return True

    def _growing(self) -> Iterator[_Variable]:
        done = 0
        while done < len(self.variables):
            yield [*self.variables][done]
            done += 1

    def _follow(self, variable: _Variable) -> None:
        owner, name = variable
        if isinstance(owner, ast.ClassDef):
            for node in self._attributes(owner, name):
                self._stored(node) if isinstance(node.ctx, ast.Store) else self._used(node)
            return
        if owner.is_class:
            raise _Unknown
        for binding in owner.bindings[name]:
            self._bound(binding)
        for read in self.index.reads.get((owner, name), ()):
            self._used(read)

    def _attributes(self, cls: ast.ClassDef, name: str) -> Iterator[ast.Attribute]:
        """Where the objects of a class have an attribute set and read; those of others may have one, too."""
        related = [c for c in self.index.classes if self.reads.related(c, cls)]
        if any(name in self.index.scopes[c].bindings for c in related):
            raise _Unknown
        for node in self.index.attributes.get(name, ()):
            of = self.reads.itself(node.value)
            if of in related:
                yield node
            elif of is None and self.names.qualified(node) is None and not self.reads.is_other(node.value, cls):
                raise _Unknown

    def _stored(self, node: ast.Attribute) -> None:
        statement = self.index.parents[node]
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            raise _Unknown
        self._given(statement.value)

    def _bound(self, binding: Binding) -> None:
        if binding.how is How.PARAMETER:
            self._parameter(binding.node)
        elif binding.how is How.ASSIGN and not binding.path and binding.value is not None:
            self._given(binding.value)
        else:
            raise _Unknown

    # ---- what it is given

    def _given(self, value: ast.expr) -> None:
        if is_constant(value, None):
            return  # which nobody can call
        if isinstance(value, ast.IfExp):
            self._given(value.body)
            self._given(value.orelse)
        elif (other := self._variable(value)) is not None:
            self.handed = True
            self.variables.setdefault(other)
        elif leaves := self.reads.leaves(value):
            self.sources[value] = leaves
        else:
            raise _Unknown

    def _variable(self, node: ast.expr) -> _Variable | None:
        """The variable that an expression is, or the attribute of the object that a method has."""
        if isinstance(node, ast.Name):
            owner = self.index.scope(node).owner(node.id)
            return (owner, node.id) if owner is not None else None
        cls = self.reads.itself(node.value) if isinstance(node, ast.Attribute) else None
        known = isinstance(node, ast.Attribute) and cls is not None and not self.reads.leaves(node)
        return (cls, node.attr) if known and cls is not None and isinstance(node, ast.Attribute) else None

    def _parameter(self, node: ast.AST) -> None:
        """What the calls of a function give a parameter; of a constructor, those of its class."""
        function = self.index.parents[self.index.parents[node]]
        if not isinstance(function, FUNCTIONS) or function.decorator_list or not isinstance(node, ast.arg):
            raise _Unknown
        if node in (function.args.vararg, function.args.kwarg):
            raise _Unknown
        home = self.index.parents.get(function)
        constructs = isinstance(home, ast.ClassDef) and function.name == "__init__"
        if isinstance(home, ast.ClassDef) and not constructs:
            raise _Unknown
        for call in self._sites(home if constructs else function):  # type: ignore[arg-type]
            given = bind(call, function, constructs) if is_told(call) else None
            value = given.get(node.arg, default(function, node)) if given is not None else None
            if value is None:
                raise _Unknown
            self._given(value)

    def _sites(self, declaration: ast.AST) -> list[ast.Call]:
        """The calls of a function or class, of which nothing else is done."""
        name = declaration.name  # type: ignore[attr-defined]
        owner = self.index.scope(declaration).owner(name)
        bound = owner.bindings[name] if owner is not None else []
        reads = self.index.reads.get((owner, name), ())
        if len(bound) != 1 or bound[0].node is not declaration or not all(is_called(self.index, r) for r in reads):
            raise _Unknown
        return [self.index.parents[read] for read in reads]  # type: ignore[misc]

    # ---- what becomes of it

    def _used(self, node: ast.expr) -> None:
        parent = self.index.parents[node]
        if isinstance(parent, ast.IfExp) and node is not parent.test:
            self._used(parent)
        elif isinstance(parent, ast.Call) and parent.func is node:
            self.calls.setdefault(parent)
        elif isinstance(parent, (ast.Call, ast.keyword)):
            call = parent if isinstance(parent, ast.Call) else self.index.parents[parent]
            self.handed = True
            self.variables.setdefault(self._taken(call, node))
        elif isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is node:
            for target in targets(parent):
                variable = self._variable(target)
                if variable is None:
                    raise _Unknown
                self.variables.setdefault(variable)
        else:
            raise _Unknown

    def _taken(self, call: ast.AST, node: ast.expr) -> _Variable:
        """The parameter of a function of the script that a call gives something to."""
        func = call.func if isinstance(call, ast.Call) else None
        bindings = self.names.bindings(func) if isinstance(func, ast.Name) else []
        home = bindings[0].node if len(bindings) == 1 else None
        function = self.names.constructor(home) if isinstance(home, ast.ClassDef) else home
        if not isinstance(function, FUNCTIONS) or not isinstance(call, ast.Call) or not is_told(call):
            raise _Unknown
        given = bind(call, function, function is not home) or {}
        name = next((name for name, value in given.items() if value is node), "")
        if not any(p.arg == name for p in parameters(function.args)):
            raise _Unknown
        return self.index.scopes[function], name

    # ---- how it is called

    @property
    def leaves(self) -> list[Leaf]:
        return [leaf for leaves in self.sources.values() for leaf in leaves]

    @property
    def methods(self) -> list[str]:
        """The methods that may be held."""
        return [*dict.fromkeys(leaf.method for leaf in self.leaves)]

    def is_plain(self) -> bool:
        """Whether the calls can be those of methods: by the name of their object, or as variables hold it."""
        if not 0 < len(self.methods) <= _MOST:
            return False
        if len(self.methods) > 1:
            alike = all(self.reads.has_bound(leaf.cls, name) for leaf in self.leaves for name in self.methods)
            if not alike or not all(map(_is_simple, self.calls)):
                return False
        if self.named is not None:
            return all(len(leaves) == 1 for leaves in self.sources.values())
        return not any(self.reads.itself(leaf.of) or self.reads.is_class(leaf.of) for leaf in self.leaves)

    @cached_property
    def named(self) -> str | None:
        """What the object of the methods is called wherever they are called; None if that is not so."""
        ids = {leaf.of.id if isinstance(leaf.of, ast.Name) else "" for leaf in self.leaves}
        name = ids.pop()
        if ids or not name or self.handed:
            return None
        owners = {self.index.scope(leaf.of).owner(name) for leaf in self.leaves}
        if any(isinstance(owner, ast.ClassDef) for owner, _ in self.variables):
            own = all(self.reads.itself(leaf.of) is not None for leaf in self.leaves)
            return name if own and all(isinstance(owner, ast.ClassDef) for owner, _ in self.variables) else None
        owner = owners.pop()
        bound = owner.bindings[name] if owner is not None else []
        if owners or len(bound) != 1 or self.index.enclosing_loops(bound[0].node):
            return None
        return name if all(self.index.scope(call).owner(name) is owner for call in self.calls) else None


def _is_simple(call: ast.Call) -> bool:
    """Whether a call gives nothing that is computed there."""
    return all(isinstance(n, _PLAIN) for part in (*call.args, *call.keywords) for n in walk(part))


class _Copier(Copier):
    """Copies a tree, with calls of methods."""

    def __init__(self, index: Index, held: Iterable[_Group]) -> None:
        self.calls = {call: group for group in held for call in group.calls}
        self.sources = {source: group for group in held for source in group.sources}
        inside = {n for group in held for leaf in group.leaves for n in walk(leaf.of)}
        hooks = dict.fromkeys((ast.Call, ast.Attribute), self._changed)
        super().__init__(hooks, around(index, (*self.calls, *(c.func for c in self.calls), *self.sources, *inside)))
        self._objects: dict[ast.AST, ast.expr] = {}

    def settle(self) -> None:
        """Have the objects that variables hold stand for themselves, not for what is read of them."""
        for new, of in self._objects.items():
            self.noted(new, of)

    def _changed(self, node: ast.expr) -> ast.expr | None:
        if node in self.sources:
            return self._source(node, self.sources[node])
        return self._call(node, self.calls[node]) if isinstance(node, ast.Call) and node in self.calls else None

    def _source(self, node: ast.expr, group: _Group) -> ast.expr:
        """What a variable is set to: the object, or which of the methods of one that has a name it is."""
        leaf = group.sources[node][0]
        if group.named is not None:
            return ast.Constant(group.methods.index(leaf.method))
        made = self.copy(leaf.of)
        self._objects[made] = leaf.of
        return made

    def _call(self, node: ast.Call, group: _Group) -> ast.expr:
        several = len(group.methods) > 1
        arms = [self._one(node, group, name, again=several) for name in group.methods]
        while len(arms) > 1:
            *arms, one, other = arms
            arms.append(self.noted(ast.IfExp(self._test(node, group, len(arms)), one, other), node))
        return arms[0]

    def _one(self, node: ast.Call, group: _Group, name: str, again: bool) -> ast.expr:
        """The call of a method."""
        copy = self._again if again else self.copy
        of: ast.expr = copy(node.func)
        if group.named is not None:
            of = self.noted(ast.Name(group.named, ast.Load()), node.func)
        func = self.noted(ast.Attribute(of, name, ast.Load()), node.func)
        return self.noted(ast.Call(func, list(map(copy, node.args)), list(map(copy, node.keywords))), node)

    def _test(self, node: ast.Call, group: _Group, number: int) -> ast.expr:
        """Whether a variable holds one of several methods; where it holds the object, something that is not known."""
        held = self._again(node.func)
        if group.named is None:
            return held
        return self.noted(ast.Compare(held, [ast.Eq()], [self.noted(ast.Constant(number), node)]), node)
