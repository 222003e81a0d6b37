"""Callbacks: the functions that an object keeps in an attribute, and hands itself to.

`trainer.set_callback("on_batch_end", log)` keeps `log`, and `for f in self.callbacks[event]: f(self)` runs
it. Which functions an attribute can hold is told by what its class puts there, and by the calls of the methods that do.
"""

from __future__ import annotations

import ast

from accelift_codemod.facts.classes import Classes
from accelift_codemod.facts.index import FUNCTIONS, Function, How, Index, position
from accelift_codemod.facts.signatures import bind, default
from accelift_codemod.facts.tree import children, is_constant
from accelift_codemod.facts.uses import reads

_EMPTY = frozenset({"dict", "list", "set", "tuple"})
_PUTS = {"append": 0, "add": 0, "extend": 0, "insert": 1, "setdefault": 1}
_GIVES = frozenset({"get", "setdefault", "values", "pop"})
_FORGETS = frozenset({"clear", "remove", "keys"})


class Unclear(Exception):
    """It cannot be told what an attribute holds."""


class Callbacks:
    """The functions in the attributes of the objects of one class."""

    def __init__(self, index: Index, names: Classes, cls: ast.ClassDef, self_name: str) -> None:
        self.index = index
        self.names = names
        self.cls = cls
        self.self_name = self_name

    def called(self, call: ast.Call) -> list[Function] | None:
        """The functions of the script of which a call of what an attribute of the object holds runs one: none, if
        nothing is ever put there. None if it may be another."""
        attribute = self._held_in(call.func)
        if attribute is None or not self._is_set(attribute.attr):
            return None
        try:
            found = self._contents(attribute.attr)
        except Unclear:
            return None
        return sorted((f for f in found if isinstance(f, FUNCTIONS)), key=position)

    def _is_set(self, name: str) -> bool:
        """Whether the object has an attribute from its methods alone: it is nothing that the class has."""
        if self.index.scopes[self.cls].bindings.get(name):
            return False
        nodes = self.index.attributes.get(name, [])
        return any(self._is_own(node) and isinstance(node.ctx, ast.Store) for node in nodes)

    def _held_in(self, node: ast.expr | None) -> ast.Attribute | None:
        """The attribute of the object that an expression, or what its variable was given, comes out of."""
        if isinstance(node, ast.Name):
            bindings = self.names.bindings(node)
            plain = len(bindings) == 1 and bindings[0].how in (How.LOOP, How.ASSIGN) and not bindings[0].path
            node = bindings[0].value if plain else None
        while node is not None and not self._is_own(node):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GIVES:
                node = node.func.value
            else:
                node = node.value if isinstance(node, ast.Subscript) else None
        return node if isinstance(node, ast.Attribute) else None

    def _is_own(self, node: ast.AST) -> bool:
        """Whether an expression is an attribute of the object in one of its methods."""
        of_self = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        return of_self and node.value.id == self.self_name and self.index.enclosing_class(node) is self.cls  # type: ignore[attr-defined]

    def _contents(self, name: str) -> set[ast.AST]:
        found = set[ast.AST]()
        for node in self.index.attributes.get(name, []):
            if self._is_own(node):
                found |= self._put(node)
            elif self._is_foreign(node):
                raise Unclear
        return found

    def _is_foreign(self, node: ast.Attribute) -> bool:
        """Whether an attribute of that name may be one of the object, which others ask for."""
        cls, function = self.index.enclosing_class(node), self.index.function(node)
        first = (*function.args.posonlyargs, *function.args.args)[:1] if function is not None else ()
        own = isinstance(node.value, ast.Name) and bool(first) and node.value.id == first[0].arg
        return cls is None or cls is self.cls or not own

    def _put(self, node: ast.expr) -> set[ast.AST]:
        """What is put in at one place where the attribute, or an entry of it, is named."""
        parent = self.index.parents[node]
        if isinstance(parent, (ast.Assign, ast.AnnAssign)) and not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
            return self._values(parent.value)
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return self._put(parent)
        if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node:
            return set()
        if isinstance(parent, ast.Compare) or (isinstance(parent, ast.If) and parent.test is node):
            return set()
        if isinstance(parent, ast.Call) and (parent.func is node or self.names.builtin(parent.func) == "len"):
            return set()
        call = self.index.parents[parent]
        if not isinstance(parent, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not parent:
            raise Unclear
        return self._method(parent.attr, call)

    def _method(self, name: str, call: ast.Call) -> set[ast.AST]:
        """The same for a method of the container."""
        found = set[ast.AST]()
        if name in _PUTS:
            if len(call.args) <= _PUTS[name] or call.keywords:
                raise Unclear
            found = self._values(call.args[_PUTS[name]])
        elif name not in _GIVES | _FORGETS:
            raise Unclear
        else:
            for other in call.args[1:]:
                found |= self._values(other)
        used = isinstance(self.index.parents[call], ast.Expr)
        return found if used or name not in _GIVES else found | self._put(call)

    def _values(self, node: ast.expr | None) -> set[ast.AST]:
        """The functions that an expression is, or has in it."""
        if node is None or is_constant(node, None):
            return set()
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
            inside = node.values if isinstance(node, ast.Dict) else [*children(node)]
            return {f for e in inside if isinstance(e, ast.expr) for f in self._values(e)}
        if isinstance(node, ast.Call) and not node.keywords:
            empty = self.names.builtin(node.func) in _EMPTY and not node.args
            kinds = [self.names.builtin(a) for a in node.args]
            if empty or (self.names.qualified(node.func) == "collections.defaultdict" and set(kinds) <= _EMPTY):
                return set()
        bindings = self.names.bindings(node) if isinstance(node, ast.Name) else []
        if len(bindings) != 1:
            raise Unclear
        if bindings[0].how is How.FUNCTION and isinstance(bindings[0].node, FUNCTIONS):
            return {bindings[0].node}
        if bindings[0].how is not How.PARAMETER or not isinstance(bindings[0].node, ast.arg):
            raise Unclear
        return self._handed(bindings[0].node)

    def _handed(self, parameter: ast.arg) -> set[ast.AST]:
        """The functions that a method of the class is handed as a parameter."""
        method = self.index.parents[self.index.parents[parameter]]
        if not isinstance(method, FUNCTIONS) or self.index.parents[method] is not self.cls:
            raise Unclear
        made = method.name == "__init__"
        named = (
            reads(self.index, self.index.module, self.cls.name) if made else self.index.attributes.get(method.name, ())
        )
        found = set[ast.AST]()
        for read in named:
            call = self.index.parents[read]
            if not isinstance(call, ast.Call) or call.func is not read:
                if made:
                    continue  # what is no call of the class makes no object, or the class is not followed
                raise Unclear
            given = bind(call, method, True)
            if given is None:
                raise Unclear
            found |= self._values(given.get(parameter.arg, default(method, parameter)))
        return found
