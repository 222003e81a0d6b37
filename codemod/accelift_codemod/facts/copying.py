"""Copies of syntax trees in which something else stands in the place of some nodes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from accelift_codemod.facts.index import INDEX, Index
from accelift_codemod.facts.tree import NOTES, SHARED

Node = TypeVar("Node", bound=ast.AST)
Hook = Callable[[Any], "ast.AST | None"]

_ATOMS = frozenset({int, str, type(None)}) | SHARED  # what both trees may have
_PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")


class Copier:
    """Copies a tree. Every node of the copy has the place of its original and is noted in `originals`.

    A copier differs from a plain one by what its hooks put in the place of nodes of a class (None: a plain copy). Of a
    tree in which few nodes change only those and the nodes around them are copied: the rest belongs to both trees.
    """

    def __init__(self, hooks: Mapping[type[ast.AST], Hook], changing: Iterable[ast.AST] | None = None) -> None:
        self.originals: dict[ast.AST, ast.AST] = {}
        self._hooks = hooks
        self._changing = frozenset(changing) if changing is not None else None

    def copy(self, node: Node) -> Node:
        """The copy of a node, with all that is in it."""
        if self._changing is not None and node not in self._changing:
            return node
        hook = self._hooks.get(node.__class__)
        new = hook(node) if hook is not None else None
        return self.plain(node) if new is None else self.noted(new, node)  # type: ignore[return-value]

    def plain(self, node: Node) -> Node:
        """A node of the same kind with copies of the parts of a node."""
        new = node.__class__.__new__(node.__class__)
        parts = new.__dict__
        for name, value in node.__dict__.items():
            kind = value.__class__
            if kind in _ATOMS:
                parts[name] = value
            elif kind is not list:
                if name != INDEX:
                    parts[name] = self.copy(value) if isinstance(value, ast.AST) else value
            elif name not in NOTES:
                parts[name] = [v if v.__class__ in _ATOMS else self.copy(v) for v in value]
        self.originals[new] = node
        return new

    def _again(self, node: Node) -> Node:
        """A copy of a node that may stand in the tree more than once."""
        changing, self._changing = self._changing, None
        copied = self.copy(node)
        self._changing = changing
        return copied

    def noted(self, new: Node, node: ast.AST) -> Node:
        """A new node, for one of the tree: at its place."""
        self.originals[new] = node
        place, parts = node.__dict__, new.__dict__
        for name in _PLACE if "lineno" in place else ():
            parts[name] = place[name]
        return new


def around(index: Index, nodes: Iterable[ast.AST]) -> set[ast.AST]:
    """Nodes, and those that they are in."""
    found: set[ast.AST] = set()
    for node in nodes:
        found.add(node)
        for parent in index.ancestors(node):
            if parent in found:
                break
            found.add(parent)
    return found
