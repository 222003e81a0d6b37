"""Methods and attributes that an object looks up in itself by a name: a tree in which they are named.

`getattr(self, f"{phase}_epoch")()` is a call of one of the methods whose name ends so. In a copy of the tree it is one
of each, of which one runs: `self.train_epoch() if f"{phase}_epoch" == "train_epoch" else self.valid_epoch()`.

In classes that train, `getattr(self, "scale", None)` is `self.scale if hasattr(self, "scale") else None`.

Names that are put together only in classes of the script that are derived of no library's and that no other class is
derived of, and whose objects have no other attribute of such a name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from accelift_codemod.facts.classes import Classes, own_class
from accelift_codemod.facts.copying import Copier, around
from accelift_codemod.facts.index import FUNCTIONS, Index
from accelift_codemod.facts.inheritance import trainers
from accelift_codemod.facts.tree import walk

_MOST = 4  # methods that one call may be of
_ARGUMENTS = 2  # of `getattr`
_PLAIN = (ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.keyword, ast.expr_context)
_HOOKS = frozenset({"__getattr__", "__getattribute__", "__setattr__"})


@dataclass(frozen=True)
class NamedMethods:
    """The tree to draw facts from."""

    tree: ast.Module
    originals: Mapping[ast.AST, ast.AST] = field(default_factory=dict)  # empty: the tree is the original


def find(index: Index) -> NamedMethods:
    """The tree of a script with calls of the methods that objects look up in themselves."""
    names = Classes(index, {}, {})
    found = {call: methods for call in index.calls if (methods := _methods(index, names, call))}
    if any(names.builtin(call.func) == "setattr" for call in index.calls):
        found = {}
    plain = {call for call in index.calls if names.builtin(call.func) == "getattr" and _is_plain(index, call)}
    training = trainers(index) if plain else set()
    plain = {call for call in plain if own_class(index, call.args[0]) in training}
    if not found and not plain:
        return NamedMethods(index.tree)
    copier = _Copier(index, found, plain)
    return NamedMethods(copier.copy(index.tree), copier.originals)


def _methods(index: Index, names: Classes, call: ast.Call) -> Sequence[str]:
    """The methods that a call may be of; none if it is none of `getattr(self, name)`, or not all are known."""
    lookup = call.func
    if not isinstance(lookup, ast.Call) or len(lookup.args) != _ARGUMENTS or lookup.keywords:
        return ()
    if names.builtin(lookup.func) != "getattr" or (pattern := _pattern(lookup.args[1])) is None:
        return ()
    cls = own_class(index, lookup.args[0])
    if cls is None or not names.is_plain(cls) or any(cls in names.ancestry(c) for c in index.classes if c is not cls):
        return ()
    family = names.ancestry(cls)
    own = {n.name for c in family for n in c.body if isinstance(n, (*FUNCTIONS, ast.ClassDef))}
    bound = {n.id for c in family for s in c.body for n in walk(s) if isinstance(n, ast.Name)}
    if own & _HOOKS or any(pattern.fullmatch(name) for name in (*index.attribute_bindings, *bound)):
        return ()
    fitting = [name for name in own if pattern.fullmatch(name)]
    methods = [names.method(cls, name) for name in fitting]
    plain = all(m is not None and not m.decorator_list and isinstance(m, ast.FunctionDef) for m in methods)
    given = (n for part in (*call.args, *call.keywords) for n in walk(part))
    return sorted(fitting) if plain and len(fitting) <= _MOST and all(isinstance(n, _PLAIN) for n in given) else ()


def _is_plain(index: Index, call: ast.Call) -> bool:
    """Whether a call of `getattr` asks an object for an attribute by a name that is written out."""
    name = call.args[1] if len(call.args) >= _ARGUMENTS and not call.keywords else None
    written = isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.isidentifier()
    return written and not name.value.startswith("__") and own_class(index, call.args[0]) is not None  # type: ignore[union-attr]


def _is_there(index: Index, call: ast.Call) -> bool:
    """Whether the constructor surely binds the attribute that an object is asked for."""
    cls = own_class(index, call.args[0])
    bindings = index.attribute_bindings.get(call.args[1].value, ())  # type: ignore[attr-defined]
    own = (b.node for b in bindings if isinstance(b.node, ast.Attribute) and own_class(index, b.node.value) is cls)
    homes = (index.parents[index.statement(node)] for node in own)
    return any(isinstance(home, ast.FunctionDef) and home.name == "__init__" for home in homes)


def _pattern(node: ast.expr) -> re.Pattern[str] | None:
    """What a name looks like that is put together of a text and something else: `f"{phase}_epoch"`."""
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [node.left, node.right]
    texts = [p.value if isinstance(p, ast.Constant) and isinstance(p.value, str) else None for p in parts]
    if not any(texts) or not all(isinstance(n, (*_PLAIN, ast.FormattedValue)) for p in parts for n in walk(p)):
        return None
    return re.compile("".join(".*" if text is None else re.escape(text) for text in texts))


class _Copier(Copier):
    """Copies a tree, with calls of methods, and reads of attributes, by their names."""

    def __init__(self, index: Index, found: Mapping[ast.Call, Sequence[str]], plain: set[ast.Call]) -> None:
        super().__init__({ast.Call: self._call}, around(index, (*found, *plain)))
        self._index = index
        self._found = found
        self._plain = plain

    def _call(self, node: ast.Call) -> ast.expr | None:
        if node in self._plain:
            return self._read(node)
        if node not in self._found:
            return None
        *others, last = self._found[node]
        made: ast.expr = self._one(node, last)
        for name in reversed(others):
            test = ast.Compare(self._again(node.func.args[1]), [ast.Eq()], [self.noted(ast.Constant(name), node)])  # type: ignore[attr-defined]
            made = self.noted(ast.IfExp(self.noted(test, node), self._one(node, name), made), node)
        return made

    def _read(self, node: ast.Call) -> ast.expr:
        """The read of an attribute, if it is there, or what stands for it."""
        itself, name, *instead = node.args
        read = self.noted(ast.Attribute(self._again(itself), name.value, ast.Load()), node)  # type: ignore[attr-defined]
        if not instead or _is_there(self._index, node):
            return read
        asks = ast.Call(self.noted(ast.Name("hasattr", ast.Load()), node), [self._again(itself), self._again(name)], [])
        return ast.IfExp(self.noted(asks, node), read, self._again(instead[0]))

    def _one(self, node: ast.Call, name: str) -> ast.Call:
        """The call of a method."""
        func = self.noted(ast.Attribute(self._again(node.func.args[0]), name, ast.Load()), node.func)  # type: ignore[attr-defined]
        arguments, keywords = list(map(self._again, node.args)), list(map(self._again, node.keywords))
        return self.noted(ast.Call(func, arguments, keywords), node)
