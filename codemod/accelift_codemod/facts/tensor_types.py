"""The legacy types of tensors, `torch.cuda.FloatTensor`, by every name that a script gives them."""

from __future__ import annotations

import ast
import re

from accelift_codemod.facts.index import How
from accelift_codemod.facts.resolve import Resolver

_TYPE = re.compile(r"^torch\.(cuda\.)?(\w*Tensor)$")


def type_names(resolver: Resolver, node: ast.expr, behind: frozenset[ast.expr] = frozenset()) -> set[str]:
    """The types that an expression may be, by their full names: two of `FloatTensor if cpu else cuda.FloatTensor`.

    `behind` are the expressions that lead to it: a variable that a loop binds to itself says nothing more.
    """
    if isinstance(node, ast.IfExp):
        return type_names(resolver, node.body, behind) | type_names(resolver, node.orelse, behind)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value} if _TYPE.match(node.value) else set()
    qualified = resolver.qualified(node)
    if qualified is not None:
        return {qualified} if _TYPE.match(qualified) else set()
    names: set[str] = set()
    for binding in resolver.bindings(node) if isinstance(node, ast.Name) and node not in behind else ():
        if binding.how is How.ASSIGN and binding.value is not None and not binding.path:
            names |= type_names(resolver, binding.value, behind | {node})
        elif binding.how is How.PARAMETER:
            return set()
    return names
