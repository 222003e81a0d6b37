"""Which functions a script may run, methods told by their names: `trainer.evaluate()` runs every `evaluate`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from accelift_codemod.facts.index import FUNCTIONS, Function, Index
from accelift_codemod.facts.scopes import MARK
from accelift_codemod.facts.tree import own_nodes

# What may run a function by a name that is only known when the script runs.
_BY_NAME = frozenset(
    "getattr eval exec globals locals vars attrgetter methodcaller __subclasses__ Fire".split()  # the last of fire
)
_BUILTINS = frozenset({"getattr", "eval", "exec", "globals", "locals", "vars"})


def trains(index: Index, calls: Iterable[ast.Call]) -> bool:
    """Whether a script may run one of some calls."""
    reached = Reached(index)
    return not reached.known or any(reached.runs(call) for call in calls)


class Reached:
    """The functions that are reached from the code of a module, by names alone.

    `known` tells whether they all are: nothing is run by a name that only shows when the script runs. With `apart`,
    globals of one name in several files are told apart where they are not asked for as an attribute or by text.
    """

    def __init__(self, index: Index, apart: bool = False) -> None:
        self.index = index
        self._apart = apart
        self.known = True
        self.functions: set[ast.AST] = set()
        self._named: dict[str, list[ast.AST]] = {}
        for function in index.functions:
            self._named.setdefault(_called(getattr(function, "name", "")), []).append(function)
        self._classes: dict[str, list[ast.ClassDef]] = {}
        for cls in index.classes:
            self._classes.setdefault(_called(cls.name), []).append(cls)
        self._queue: list[ast.AST] = [*index.tree.body]
        self._said: set[str] = set()
        read: dict[type[ast.AST], Callable[[Any], None]] = {
            ast.Lambda: self._lambda,
            ast.ClassDef: self._define,
            ast.FunctionDef: self._function,
            ast.AsyncFunctionDef: self._function,
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Constant: self._constant,
        }
        while self._queue and self.known:
            for node in own_nodes(self._queue.pop()):
                if node.__class__ in read:
                    read[node.__class__](node)

    def runs(self, node: ast.AST) -> bool:
        """Whether all functions around a node are reached."""
        around = (outer for outer in self.index.ancestors(node) if isinstance(outer, FUNCTIONS))
        return all(function in self.functions for function in around)

    def _lambda(self, node: ast.Lambda) -> None:
        self._queue.append(node.body)

    def _define(self, node: ast.ClassDef) -> None:
        self._queue += [*node.bases, *(k.value for k in node.keywords), *node.decorator_list, *node.body]
        if node.keywords or node.decorator_list or any(self._registers(base) for base in node.bases):
            self._all_of(node)  # it may be in a table of classes

    def _function(self, node: Function) -> None:
        defaults = (d for d in node.args.kw_defaults if d is not None)
        self._queue += [*node.decorator_list, *node.args.defaults, *defaults]
        if node.decorator_list:
            self._reach(node)  # whoever decorates it may run it

    def _name(self, node: ast.Name) -> None:
        self._say(node.id, self._apart)
        self.known = self.known and not self._by_name(node, node.id)
        for cls in self._classes.get(_called(node.id), ()):
            if not self._apart or cls.name == node.id:
                self._class(cls, node)

    def _attribute(self, node: ast.Attribute) -> None:
        self._say(node.attr)
        self.known = self.known and not (node.attr not in _BUILTINS and self._by_name(node, node.attr))
        for cls in self._classes.get(node.attr, ()):
            self._class(cls, node)

    def _constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._say(node.value)

    def _say(self, name: str, apart: bool = False) -> None:
        said = name if apart else _called(name)
        if said in self._said:
            return
        self._said.add(said)
        for function in self._named.get(_called(name), ()):
            if not apart or getattr(function, "name", "") == name:
                self._reach(function)

    def _by_name(self, node: ast.AST, name: str) -> bool:
        """Whether something is asked for by a name that is not written out: `getattr(trainer, args.mode)`."""
        if name not in _BY_NAME:
            return False
        call = self.index.parents.get(node)
        asked = call.args[1] if isinstance(call, ast.Call) and len(call.args) > 1 and call.func is node else None
        return not (name == "getattr" and isinstance(asked, ast.Constant))

    def _reach(self, function: ast.AST) -> None:
        if function not in self.functions and isinstance(function, FUNCTIONS):
            self.functions.add(function)
            self._queue += function.body

    def _class(self, cls: ast.ClassDef, read: ast.AST) -> None:
        """A class that is made an object of, or derived from; if it is anything else, all of its methods may run."""
        parent = self.index.parents.get(read)
        made = isinstance(parent, ast.Call) and parent.func is read and self._is_kept(parent)
        foreign = any(not isinstance(b, ast.Name) or _called(b.id) not in self._classes for b in self._bases(cls))
        if foreign or not (made or isinstance(parent, ast.ClassDef)):
            self._all_of(cls)
        for method in cls.body:
            if isinstance(method, FUNCTIONS) and method.name.startswith("__"):
                self._reach(method)

    def _is_kept(self, made: ast.Call) -> bool:
        """Whether an object is only put into a variable or an attribute, or asked for something, where it is made."""
        around = self.index.parents.get(made)
        plain = isinstance(around, ast.Assign) and all(isinstance(t, (ast.Name, ast.Attribute)) for t in around.targets)
        return plain or isinstance(around, (ast.Attribute, ast.Expr))

    def _registers(self, base: ast.expr) -> bool:
        """Whether a base of a class notes what is derived from it."""
        classes = self._classes.get(_called(base.id), []) if isinstance(base, ast.Name) else []
        own = [s for cls in classes for s in cls.body if isinstance(s, FUNCTIONS)]
        return any(method.name == "__init_subclass__" for method in own)

    def _all_of(self, cls: ast.ClassDef) -> None:
        for method in cls.body:
            self._reach(method)

    def _bases(self, cls: ast.ClassDef) -> list[ast.expr]:
        return [base for base in cls.bases if not (isinstance(base, ast.Name) and base.id == "object")]


def _called(name: str) -> str:
    """A global's name as its file has it."""
    return name.rpartition(MARK)[2]
