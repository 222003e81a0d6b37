"""Whether a method keeps what it is given in its object: `self.rows = rows`."""

from __future__ import annotations

import ast

from accelift_codemod.facts.computing import only_computes
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import own_nodes, root, targets

_SETS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
# What puts something into a list or the like.
PUTS = frozenset({"append", "appendleft", "extend", "insert", "add", "update"})
_KEEPS = frozenset({"register_buffer", "register_parameter", "append", "update"})


def keeps(resolver: Resolver, method: Function, parameter: str, seen: frozenset[Function] = frozenset()) -> bool:
    """Whether a method puts something into its object that is computed from a parameter, by other methods, too."""
    first = [*method.args.posonlyargs, *method.args.args][:1]
    if not first or first[0].arg == parameter:
        return False
    nodes = list(own_nodes(*method.body))
    given = {parameter}
    for _ in range(2):  # the nodes do not come in the order in which they run
        for node in nodes:
            if isinstance(node, _SETS) and node.value is not None and _read(node.value, given):
                given |= stores(node)
    for node in nodes:
        if isinstance(node, _SETS) and node.value is not None and _read(node.value, given):
            if any(_is_in(target, first[0].arg) for target in targets(node)):
                return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_in(node.func, first[0].arg):
            target = resolver.callee(node)
            if not isinstance(target, FUNCTIONS):
                if node.func.attr in _KEEPS and any(_read(argument, given) for argument in node.args):
                    return True
            elif target not in seen:
                bound = resolver.bind(node, target) or {}
                handed = [name for name, argument in bound.items() if _read(argument, given)]
                if any(keeps(resolver, target, name, seen | {method, target}) for name in handed):
                    return True
    return False


def only_works(resolver: Resolver, statement: ast.stmt) -> bool:
    """Whether a statement calls a method of an object that is followed, which keeps nothing of a batch, or one of
    another that leaves its object as it is."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    method = resolver.callee(call)
    if isinstance(method, FUNCTIONS) and resolver.is_method(method):
        return not resolver.kept(method, data=True)
    return only_computes(resolver, call)


def _read(node: ast.AST, names: set[str]) -> bool:
    return any(name.id in names for name in loads(node))


def _is_in(node: ast.expr, name: str) -> bool:
    """Whether an expression is an attribute of what a variable holds, or an entry of one."""
    owner = root(node)
    return owner is not None and owner is not node and owner.id == name
