"""Walking syntax trees, again and again: the children of a node are worked out once."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator

CHILDREN = "_accelift_children"  # where it is noted


def children(node: ast.AST) -> list[ast.AST]:
    """What `ast.iter_child_nodes` yields. The list belongs to the node: do not change it, nor the tree."""
    known: list[ast.AST] | None = node.__dict__.get(CHILDREN)
    if known is None:
        known = node.__dict__[CHILDREN] = list(ast.iter_child_nodes(node))
    return known


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """What `ast.walk` yields, in the same order."""
    todo = deque([node])
    while todo:
        current = todo.popleft()
        todo.extend(children(current))
        yield current
