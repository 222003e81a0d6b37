"""What tests of the code around an expression say of its type."""

from __future__ import annotations

import ast

from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.names import Names

_COLLECTIONS = frozenset({"list", "tuple", "dict", "set", "frozenset", "str", "bytes"})


def is_collection(names: Names, node: ast.expr) -> bool:
    """Whether a variable is surely one of Python's own collections where it is read: `if isinstance(x, list): ...`."""
    if not isinstance(node, ast.Name):
        return False
    inner: ast.AST = node
    for outer in names.index.ancestors(node):
        if isinstance(outer, FUNCTIONS):
            return False
        if isinstance(outer, ast.If) and inner in outer.body and _says_so(names, outer.test, node.id):
            ahead = outer.body[: outer.body.index(inner) + 1]
            return not any(node.id in stores(statement) for statement in ahead)
        inner = outer
    return False


def _says_so(names: Names, test: ast.expr, name: str) -> bool:
    """Whether a test says that a variable is a collection."""
    if not isinstance(test, ast.Call) or names.builtin(test.func) != "isinstance" or len(test.args) != 2:
        return False
    asked, kinds = test.args
    every = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    return isinstance(asked, ast.Name) and asked.id == name and all(names.builtin(k) in _COLLECTIONS for k in every)
