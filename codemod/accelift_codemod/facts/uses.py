"""Where the variables of scopes are read, and what may be evaluated more than once."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import COMPREHENSIONS, LOOPS, Index, Scope


def reads(index: Index, owner: Scope, name: str) -> list[ast.Name]:
    """The loads of a scope's variable, in nested scopes too."""
    return [*index.reads.get((owner, name), ())]


def is_called(index: Index, node: ast.AST) -> bool:
    """Whether an expression is what a call calls."""
    parent = index.parents.get(node)
    return isinstance(parent, ast.Call) and parent.func is node


def often(index: Index, node: ast.AST, depth: int = 0) -> bool:
    """Whether a node may be evaluated more than once."""
    if depth > 8 or any(isinstance(p, (*LOOPS, *COMPREHENSIONS, ast.Lambda)) for p in index.ancestors(node)):
        return True
    function = index.function(node)
    if function is None:
        return False
    owner = index.scope(function)
    loads = reads(index, owner, function.name)
    if isinstance(index.parents[function], ast.ClassDef) or len(owner.bindings[function.name]) != 1:
        return True
    if not loads:
        return False  # it never is
    return len(loads) > 1 or not is_called(index, loads[0]) or often(index, loads[0], depth + 1)
