"""Which methods of the script a method of a network runs, and what is said of its object there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import Facts
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Value

_CONTAINERS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"})


def called(facts: Facts, cls: ast.ClassDef, call: ast.Call) -> Iterator[tuple[ast.ClassDef, Function]]:
    """The methods of the script that a call in a class runs by `self`: of the object, or of a network that is a part of
    it, each with its class."""
    func = call.func
    if not (isinstance(func, ast.Attribute) and is_self(func.value)):
        return
    resolver = facts.resolver
    targets: list[tuple[ast.ClassDef, Function | None]] = [(cls, resolver.method(cls, func.attr))]
    if targets[0][1] is None:
        for binding in facts.index.set_in(cls, func.attr):
            parts = [part for value in resolver.values(binding.value) for part in classes(facts, value)]
            targets += ((part, resolver.method(part, "forward")) for part in parts)
    yield from ((owner, function) for owner, function in targets if isinstance(function, FUNCTIONS))


def classes(facts: Facts, value: Value) -> Iterator[ast.ClassDef]:
    """The class of a network of the script, or those of the items of a container of torch's that calls them in turn."""
    if isinstance(value.declaration, ast.ClassDef):
        yield value.declaration
    elif value.name in _CONTAINERS and isinstance(value.origin, ast.Call):
        for item in (n for n in walk(value.origin) if isinstance(n, (ast.Name, ast.Call)) and n is not value.origin):
            for inner in facts.resolver.values(item):
                if isinstance(inner.declaration, ast.ClassDef):
                    yield inner.declaration


def attribute(node: ast.expr) -> str:
    """The attribute of self that an expression is, or is a part of: `self.queue[:, 0]`, `self.queue.data`."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        if isinstance(node, ast.Attribute) and is_self(node.value):
            return node.attr
        node = node.func if isinstance(node, ast.Call) else node.value
    return ""


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
