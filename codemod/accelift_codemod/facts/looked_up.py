"""Classes and functions that are looked up in a module by a name: a tree in which calls name them.

`getattr(data_loaders, config["type"])(...)` is a call of one of the classes and functions of a project file, whatever
the name says. In a copy of the tree it is one of each, of which one runs. So is a call of a function that is given the
module and returns what such a call makes: `config.init_obj("arch", models)`. What it is given besides the module is
handed on as its code does; what it adds (the arguments in a file of settings) is what that call gives, of which
nothing is known. Of a library's module it is the call of `getattr` itself.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from accelift_codemod.facts import own_globals
from accelift_codemod.facts.classes import Classes, is_class_method, is_static
from accelift_codemod.facts.copying import Copier, around
from accelift_codemod.facts.index import FUNCTIONS, MARK, Function, How, Index, parameters
from accelift_codemod.facts.tree import own_nodes, walk
from accelift_codemod.facts.values import Role

_MOST = 16  # that one call may be
_LEAST = 2  # arguments of `getattr`
_DEEPEST = 4  # functions that return what others do
_PLAIN = (ast.Tuple, ast.List, ast.Dict, ast.Constant, ast.ListComp, ast.JoinedStr)

_Members = Callable[[ast.expr], Sequence[str] | None]


@dataclass(frozen=True)
class LookedUp:
    """The tree to draw facts from."""

    tree: ast.Module
    originals: Mapping[ast.AST, ast.AST] = field(default_factory=dict)  # empty: the tree is the original
    unclear: Mapping[ast.AST, str] = field(default_factory=dict)  # calls of one of several that make different things


@dataclass(frozen=True)
class _Maker:
    """A function that returns what a call of something makes that it looks up in a module which it is given."""

    function: Function
    parameter: str  # that is given the module
    call: ast.Call  # of what is looked up


def find(index: Index, members: _Members, has_more: Callable[[ast.expr], bool] = lambda node: False) -> LookedUp:
    """The tree of a script with calls of what is looked up in modules.

    `members` are the names of the classes and functions of the project's module that an expression is; `has_more` says
    whether it has others, of which nothing is known.
    """
    finder = _Finder(index, members, has_more)
    if not finder.calls and not finder.read:
        return LookedUp(index.tree, unclear=finder.unclear)
    copier = _Copier(finder, around(index, (*finder.calls, *finder.read)))
    return LookedUp(copier.copy(index.tree), copier.originals, finder.unclear)


class _Finder:
    """Finds the calls of what is looked up, and what they may be of."""

    def __init__(self, index: Index, members: _Members, has_more: Callable[[ast.expr], bool]) -> None:
        self.index = index
        self.names = Classes(index, {}, {})
        self.members = members
        self.has_more = has_more
        self.calls: dict[ast.Call, tuple[_Maker | None, Sequence[str]]] = {}  # no names: of a library's module
        # Look-ups in modules that have one class or function only, and of what is written out among the own globals.
        self.read: dict[ast.AST, str] = {
            node: found
            for node, name in own_globals.lookups(self.names)
            if (found := own_globals.found(self.names, name))
        }
        self.unclear: dict[ast.AST, str] = {}
        makers: list[_Maker] = []
        for lookup in self._lookups():
            module = _module(lookup)
            known = self._candidates(module, lookup)
            if known:
                self._note(lookup, known)
            elif isinstance(module, ast.Name) and (maker := self._maker(lookup, module)) is not None:
                makers.append(maker)
        for maker in makers:
            self._note_sites(maker)

    def _lookups(self) -> Iterator[ast.Call]:
        """`getattr(module, name)`, of a name that is not written out."""
        for call in self.index.calls:
            if len(call.args) == _LEAST and not call.keywords and self.names.builtin(call.func) == "getattr":
                if not isinstance(call.args[1], ast.Constant):
                    yield call

    def _note(self, lookup: ast.Call, known: Sequence[str]) -> None:
        called = self._called(lookup)
        if called is not None:
            self.calls[called] = None, known
        elif len(known) == 1:
            self.read[lookup] = known[0]

    def _called(self, lookup: ast.Call) -> ast.Call | None:
        parent = self.index.parents[lookup]
        return parent if isinstance(parent, ast.Call) and parent.func is lookup else None

    # ---- functions that make what is looked up

    def _maker(self, lookup: ast.Call, module: ast.Name) -> _Maker | None:
        """The function that returns what a call of what is looked up makes, in a module that it is given."""
        function = self.index.function(lookup)
        bindings = self.names.bindings(module)
        if function is None or [b.how for b in bindings] != [How.PARAMETER] or function.decorator_list:
            return None
        if (
            self.index.function(bindings[0].node) is not function
            and self.index.parents[self.index.parents[bindings[0].node]] is not function
        ):
            return None
        returned = [n for n in own_nodes(*function.body) if isinstance(n, ast.Return)]
        value = returned[0].value if len(returned) == 1 else None
        if not isinstance(value, ast.Call):
            return None
        if value.func is not lookup and not self._holds(value.func, lookup):
            return None
        return _Maker(function, module.id, value)

    def _holds(self, func: ast.expr, lookup: ast.Call) -> bool:
        """Whether a variable certainly holds what is looked up."""
        bindings = self.names.bindings(func) if isinstance(func, ast.Name) else []
        return len(bindings) == 1 and bindings[0].how is How.ASSIGN and bindings[0].value is lookup

    def _note_sites(self, maker: _Maker) -> None:
        for call in self._sites(maker.function):
            given = self.given(call, maker)
            module = given.get(maker.parameter) if given is not None else None
            if module is None:
                continue
            if self.names.qualified(module) is not None and self.members(module) is None:
                self.calls[call] = maker, ()
            elif known := self._candidates(module, call):
                self.calls[call] = maker, known
            elif call in self.unclear:  # what it makes comes from the maker's own call, if that is one of one module
                self.unclear[maker.call] = "" if maker.call in self.unclear else self.unclear[call]

    def _sites(self, function: Function) -> list[ast.Call]:
        """The calls of a function, or of a method whose name nothing else in the script has."""
        if not isinstance(self.index.parents.get(function), ast.ClassDef):
            calls = (c for c in self.index.calls if isinstance(c.func, ast.Name))
            return [c for c in calls if [b.node for b in self.names.bindings(c.func)] == [function]]  # type: ignore[arg-type]
        same = [d for d in (*self.index.functions, *self.index.classes) if d.name == function.name]
        if same != [function] or function.name in self.index.attribute_bindings:
            return []
        found = (c for c in self.index.methods.get(function.name, ()) if isinstance(c.func, ast.Attribute))
        return [c for c in found if self.names.qualified(c.func) is None]

    def given(self, call: ast.Call, maker: _Maker) -> dict[str, ast.expr] | None:
        """What a call gives the parameters of a maker; None if `*` or `**` hides that."""
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            return None
        given = dict(zip(_places(maker.function, self.index), call.args, strict=False))
        return given | {str(k.arg): k.value for k in call.keywords}

    # ---- what may be looked up

    def _candidates(self, module: ast.expr, node: ast.Call) -> Sequence[str]:
        """The classes and functions that may be meant, if they all make the same kind of thing: those that have what
        it is asked for."""
        members = self.members(module)
        if not members:
            return ()
        asked = self._asked(node)
        fitting = {name: self._role(name) for name in members if asked <= self._attributes(name, asked)}
        if not 0 < len(fitting) <= _MOST:
            return ()
        roles = {*fitting.values()}
        several = len(fitting) > 1 or self.has_more(module)
        if len(roles) > 1 or (roles == {None} and several and not all(map(self._class, fitting))):
            self.unclear[self._called(node) or node] = _said(fitting)
            return ()
        return [*fitting]

    def _class(self, name: str) -> ast.ClassDef | None:
        declaration = self._declaration(name)
        return declaration if isinstance(declaration, ast.ClassDef) else None

    def _declaration(self, name: str) -> ast.AST | None:
        return next((b.node for b in self.index.module.bindings.get(name, ())), None)

    def _role(self, name: str) -> Role | None:
        """What a class or function makes, as far as its code says."""
        cls = self._class(name)
        return self.names.class_role(cls) if cls is not None else self._returned(self._declaration(name), 0)

    def _returned(self, function: ast.AST | None, depth: int) -> Role | None:
        """What a function returns, if that is certainly of one kind."""
        if not isinstance(function, FUNCTIONS) or depth > _DEEPEST:
            return None
        returned = [n for n in own_nodes(*function.body) if isinstance(n, ast.Return)]
        roles = {self._made(n.value, depth) for n in returned}
        return roles.pop() if len(roles) == 1 else None

    def _made(self, node: ast.expr | None, depth: int) -> Role | None:
        if isinstance(node, ast.Name):
            made = {b.value if b.how is How.ASSIGN and not b.path else None for b in self.names.bindings(node)}
            roles = {self._made(value, depth + 1) for value in made} if depth <= _DEEPEST else {None}
            return roles.pop() if len(roles) == 1 else None
        if not isinstance(node, ast.Call):
            return None
        bindings = self.names.bindings(node.func) if isinstance(node.func, ast.Name) else []
        if len(bindings) == 1 and bindings[0].how is How.CLASS:
            return self.names.class_role(bindings[0].node)
        if len(bindings) == 1 and bindings[0].how is How.FUNCTION:
            return self._returned(bindings[0].node, depth + 1)
        return self.names.library_role(self.names.qualified(node.func) or "")

    def _asked(self, node: ast.expr) -> set[str]:
        """The attributes that the variable of what is made is surely asked for, in the function that makes it."""
        made = self._called(node) if isinstance(node, ast.Call) else None
        statement = self.index.parents[made or node]
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(target, ast.Name) or not isinstance(statement, ast.Assign):
            return set()
        block, place = self.index.block(statement)
        found = set()
        for read in self.names.readers(target):
            parent = self.index.parents[read]
            if not isinstance(parent, ast.Attribute) or [b.node for b in self.names.bindings(read)] != [target]:
                continue
            other, at = self.index.block(self.index.statement(read))
            if other is block and at > place and not _is_arm(self.index, read):
                found.add(parent.attr)
        return found

    def _attributes(self, name: str, asked: set[str]) -> set[str]:
        """Which of some attributes the objects of a class may have, or what a function returns."""
        declaration = self._class(name)
        if declaration is None:
            return set() if _is_plain(self._declaration(name)) else asked
        family = self.names.ancestry(declaration)
        role = self.names.base_role(declaration)
        if role is not Role.DATASET and not self.names.is_plain(declaration):
            return asked  # whatever its bases have
        own = {s.name for cls in family for s in cls.body if isinstance(s, FUNCTIONS)}
        if {"__getattr__", "__getattribute__"} & own:
            return asked
        return {a for a in asked if a in own or a in self.index.attribute_bindings or _is_set(family, a)}


def _said(fitting: Mapping[str, Role | None]) -> str:
    """The classes and functions that may be meant, with what they make."""
    known = (
        f"{name.rpartition(MARK)[2]} ({role.value if role is not None else 'unknown'})"
        for name, role in fitting.items()
    )
    return ", ".join(known)


def _is_plain(function: ast.AST | None) -> bool:
    """Whether a function returns nothing but tuples, lists, dicts and constants, or nothing at all."""
    nodes = own_nodes(*function.body) if isinstance(function, FUNCTIONS) else ()
    returned = [n.value for n in nodes if isinstance(n, ast.Return)]
    return isinstance(function, FUNCTIONS) and all(isinstance(v, (*_PLAIN, type(None))) for v in returned)


def _module(lookup: ast.Call) -> ast.expr:
    """The module in which something is looked up."""
    return lookup.args[0]


def _is_set(family: list[ast.ClassDef], name: str) -> bool:
    """Whether a class binds a name in its body."""
    return any(isinstance(n, ast.Name) and n.id == name for cls in family for s in cls.body for n in walk(s))


def _is_arm(index: Index, node: ast.AST) -> bool:
    """Whether an expression is only evaluated if another one says so, or later: in a lambda."""
    for parent in index.ancestors(node):
        if isinstance(parent, ast.stmt):
            return not isinstance(parent, (ast.Assign, ast.Expr, ast.AnnAssign, ast.Return))
        if isinstance(parent, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.DictComp)):
            return True
    return False


def _places(function: Function, index: Index) -> list[str]:
    """The parameters that the arguments of a call are given to by their place."""
    names = [p.arg for p in (*function.args.posonlyargs, *function.args.args)]
    method = isinstance(index.parents.get(function), ast.ClassDef) and not is_static(function)
    return names[1:] if method or is_class_method(function) else names


class _Copier(Copier):
    """Copies a tree, with calls of what may be looked up."""

    def __init__(self, finder: _Finder, changing: set[ast.AST]) -> None:
        super().__init__({ast.Call: self._call, ast.Subscript: self._subscript}, changing)
        self.finder = finder
        self.index = finder.index

    def _subscript(self, node: ast.Subscript) -> ast.expr | None:
        return ast.Name(self.finder.read[node], ast.Load()) if node in self.finder.read else None

    def _call(self, node: ast.Call) -> ast.expr | None:
        if node in self.finder.read:
            return ast.Name(self.finder.read[node], ast.Load())
        if node not in self.finder.calls:
            return None
        maker, names = self.finder.calls[node]
        arms = [self._one(node, maker, name) for name in names or [""]]
        while len(arms) > 1:
            *arms, one, other = arms
            test = self._unknown(node, maker)
            arms.append(self.noted(ast.IfExp(test, one, other), node))
        return arms[0]

    def _one(self, node: ast.Call, maker: _Maker | None, name: str) -> ast.expr:
        """The call of one that may be meant; of a library's, of what is looked up."""
        if maker is None:
            named = self.noted(ast.Name(name, ast.Load()), node.func)
            arguments = [self._again(a) for a in node.args]
            return self.noted(ast.Call(named, arguments, [self._again(k) for k in node.keywords]), node)
        func: ast.expr = ast.Name(name, ast.Load())
        if not name:
            module = (self.finder.given(node, maker) or {})[maker.parameter]
            getter = self.noted(ast.Name("getattr", ast.Load()), node)
            func = ast.Call(getter, [self._again(module), self._unknown(node, maker)], [])
        made = ast.Call(self.noted(func, node), *self._arguments(node, maker))
        return self.noted(made, node)

    def _arguments(self, node: ast.Call, maker: _Maker) -> tuple[list[ast.expr], list[ast.keyword]]:
        """What a maker hands on of what a call gives it, and what it adds."""
        function = maker.function
        given = self.finder.given(node, maker) or {}
        rest = function.args.vararg.arg if function.args.vararg is not None else ""
        own = {p.arg for p in parameters(function.args)} - {rest}
        arguments: list[ast.expr] = []
        for argument in maker.call.args:
            inner = argument.value if isinstance(argument, ast.Starred) else argument
            if isinstance(argument, ast.Starred) and isinstance(inner, ast.Name) and self._is_given(inner, rest):
                arguments += [self._again(a) for a in node.args[len(_places(function, self.index)) :]]
            elif isinstance(inner, ast.Name) and inner is argument and self._handed(inner, given):
                arguments.append(self._again(given[inner.id]))
            else:
                unknown = self._unknown(node, maker)
                arguments.append(
                    self.noted(ast.Starred(unknown, ast.Load()), node) if inner is not argument else unknown
                )
        more = function.args.kwarg is not None and any(k.arg is None for k in maker.call.keywords)
        keywords = [self._again(k) for k in node.keywords if more and k.arg not in own]
        for keyword in maker.call.keywords:
            value = keyword.value
            if keyword.arg is not None and isinstance(value, ast.Name) and self._handed(value, given):
                keywords.append(self.noted(ast.keyword(keyword.arg, self._again(given[value.id])), node))
            else:
                keywords.append(self.noted(ast.keyword(keyword.arg, self._unknown(node, maker)), node))
        return arguments, keywords

    def _handed(self, name: ast.Name, given: Mapping[str, ast.expr]) -> bool:
        """Whether a variable of a maker is what a call gives the parameter of that name."""
        return name.id in given and self._is_given(name, name.id)

    def _is_given(self, name: ast.Name, parameter: str) -> bool:
        """Whether a variable of a maker is a parameter, and nothing else that it is set to."""
        return name.id == parameter and [b.how for b in self.finder.names.bindings(name)] == [How.PARAMETER]

    def _unknown(self, node: ast.Call, maker: _Maker | None) -> ast.expr:
        """Something that is not known: what is looked up by, or what the maker's own call gives, without what it only
        hands on."""
        if maker is None:
            assert isinstance(node.func, ast.Call)
            return self._again(node.func.args[1])
        places = len(_places(maker.function, self.index))
        own = {p.arg for p in parameters(maker.function.args)}
        keywords = [self._again(k) for k in node.keywords if k.arg in own]
        return self.noted(
            ast.Call(self._again(node.func), [self._again(a) for a in node.args[:places]], keywords), node
        )
