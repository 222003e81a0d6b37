"""Dataclasses that hold what trains: a tree in which they have the constructor that Python makes of their fields.

`State(net, optimizer)` of a dataclass keeps what it is given as `state.net` and `state.optimizer`. In a copy of the
tree `__init__` says so, as in any other class, and all that is known of constructors holds for it. Only dataclasses
without methods are given one: nothing in them can need the accelerator. A device that is a default stays where it is:
the class has it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from accelift_codemod.facts.copying import Copier, around
from accelift_codemod.facts.index import Index
from accelift_codemod.facts.keepers import stepped
from accelift_codemod.facts.names import Names
from accelift_codemod.facts.tree import is_constant, is_remark, walk

_LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})


@dataclass(frozen=True)
class Filled:
    """The tree to draw facts from."""

    tree: ast.Module
    originals: Mapping[ast.AST, ast.AST] = field(default_factory=dict)  # empty: the tree is the original


def find(index: Index) -> Filled:
    """The tree of a script with constructors in dataclasses that others ask for an optimizer, or that have a loader."""
    decorated = [cls for cls in index.classes if len(cls.decorator_list) == 1 and not cls.bases]
    if not decorated:
        return Filled(index.tree)
    asked, names = stepped(index), Names(index)
    given = {cls: {name: s for name, s in _fields(cls).items() if _is_given(s)} for cls in decorated}
    keeping = [c for c, own in given.items() if asked & own.keys() or any(_is_loader(s, names) for s in own.values())]
    found = {cls for cls in keeping if _is_plain(cls, names)}
    if not found:
        return Filled(index.tree)
    defaults = {n for cls in found for s in _fields(cls).values() if s.value is not None for n in walk(s.value)}
    devices = {s for cls in found for s in _fields(cls).values() if s.value is not None and _is_device(s.value, names)}
    copier = _Copier(found, devices, around(index, (*found, *defaults)))
    return Filled(copier.copy(index.tree), copier.originals)


def _fields(cls: ast.ClassDef) -> dict[str, ast.AnnAssign]:
    annotated = (s for s in cls.body if isinstance(s, ast.AnnAssign))
    return {s.target.id: s for s in annotated if isinstance(s.target, ast.Name)}


def _is_given(field: ast.AnnAssign) -> bool:
    """Whether a field may hold an object that trains: one that the constructor is given, for want of a default."""
    return field.value is None or is_constant(field.value, None)


def _is_loader(field: ast.AnnAssign, names: Names) -> bool:
    """Whether a field is said to hold a DataLoader."""
    named = (n for n in walk(field.annotation) if isinstance(n, (ast.Name, ast.Attribute)))
    return any(names.qualified(n) in _LOADERS for n in named)


def _is_device(default: ast.expr, names: Names) -> bool:
    """Whether a default value names or chooses a device."""
    functions = (names.qualified(n.func) or "" for n in walk(default) if isinstance(n, ast.Call))
    return any(function == "torch.device" or function.endswith(".is_available") for function in functions)


def _is_plain(cls: ast.ClassDef, names: Names) -> bool:
    """Whether a class is a dataclass that has nothing but fields, which its constructor is given."""
    (decorator,) = cls.decorator_list
    call = decorator if isinstance(decorator, ast.Call) else None
    if names.qualified(call.func if call is not None else decorator) != "dataclasses.dataclass":
        return False
    settings = [k.arg for k in call.keywords] if call is not None else []
    only = all(isinstance(s, (ast.AnnAssign, ast.Pass)) or is_remark(s) for s in cls.body)
    return only and not {"init", "slots", None} & {*settings} and not cls.keywords


class _Copier(Copier):
    """Copies a tree, with constructors in some classes."""

    def __init__(self, classes: set[ast.ClassDef], devices: set[ast.AnnAssign], changing: set[ast.AST]) -> None:
        super().__init__({ast.ClassDef: self._class}, changing)
        self.classes = classes
        self.devices = devices

    def _class(self, node: ast.ClassDef) -> ast.ClassDef | None:
        if node not in self.classes:
            return None
        new = self.plain(node)
        new.decorator_list = []
        for old, statement in zip(node.body, new.body, strict=True):
            if isinstance(statement, ast.AnnAssign) and old not in self.devices:
                statement.value = None  # it is the constructor's default
        new.body = [*new.body, self._constructor(node)]
        return new

    def _constructor(self, cls: ast.ClassDef) -> ast.FunctionDef:
        fields = _fields(cls)
        own = self.noted(ast.arg("self", None), cls)
        given = [own, *(self.noted(ast.arg(name, None), s) for name, s in fields.items())]
        defaults = [self.copy(s.value) for s in fields.values() if s.value is not None]
        arguments = self.noted(ast.arguments([], given, None, [], [], None, defaults), cls)
        body = [self._keeps(name, s) for name, s in fields.items() if s not in self.devices]
        return self.noted(ast.FunctionDef("__init__", arguments, body, []), cls)

    def _keeps(self, name: str, at: ast.AnnAssign) -> ast.stmt:
        """`self.name = name`."""
        own = self.noted(ast.Name("self", ast.Load()), at)
        target = self.noted(ast.Attribute(own, name, ast.Store()), at)
        return self.noted(ast.Assign([target], self.noted(ast.Name(name, ast.Load()), at)), at)
