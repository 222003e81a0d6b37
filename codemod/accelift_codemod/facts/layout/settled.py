"""Tests of settings that are the same wherever a function runs: `if self.size_average:`, `if reduction == "sum":`."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.resolve import Resolver

_STEPS = 6


def arm(resolver: Resolver, branch: ast.If) -> list[ast.stmt] | None:
    """The statements of a branch that always run; None if that is not known."""
    known = outcome(resolver, branch.test)
    return None if known is None else branch.body if known else branch.orelse


def leaves(resolver: Resolver, branch: ast.If) -> bool:
    """Whether a branch, by what is known of it, always leaves the function."""
    taken = arm(resolver, branch)
    last = taken[-1] if taken else None
    return isinstance(last, (ast.Return, ast.Raise)) or (isinstance(last, ast.If) and leaves(resolver, last))


def may_run(resolver: Resolver, node: ast.AST) -> bool:
    """Whether a node stands in no branch that is known never to be taken."""
    child = node
    for parent in resolver.index.ancestors(node):
        taken = arm(resolver, parent) if isinstance(parent, ast.If) and child is not parent.test else None
        if taken is not None and child not in taken:
            return False
        child = parent
    return True


def outcome(resolver: Resolver, test: ast.expr) -> bool | None:
    """What a test always comes to; None if that is not known."""
    if isinstance(test, ast.BoolOp):
        parts = {outcome(resolver, part) for part in test.values}
        decisive = isinstance(test.op, ast.Or)
        return decisive if decisive in parts else None if None in parts else not decisive
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = outcome(resolver, test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = _constant(resolver, test.left), _constant(resolver, test.comparators[0])
        same = left is not None and right is not None and type(left.value) is type(right.value)
        if left is None or right is None:
            return None
        equal = same and left.value == right.value
        if isinstance(test.ops[0], (ast.Eq, ast.Is)):
            return equal
        return not equal if isinstance(test.ops[0], (ast.NotEq, ast.IsNot)) else None
    found = _constant(resolver, test) if isinstance(test, (ast.Name, ast.Attribute)) else None
    return None if found is None else bool(found.value)


def _constant(resolver: Resolver, node: ast.expr | None, steps: int = _STEPS) -> ast.Constant | None:
    """The literal that an expression always is: a parameter that every call gives alike, or that an object keeps."""
    if node is None or isinstance(node, ast.Constant) or steps == 0:
        return node if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Attribute):
        return _constant(resolver, _kept(resolver, node), steps - 1)
    bindings = resolver.bindings(node) if isinstance(node, ast.Name) else []
    if len(bindings) != 1 or bindings[0].how is not How.PARAMETER or not _only_called(resolver, bindings[0]):
        return None
    given = [_constant(resolver, one, steps - 1) for one in resolver.handed(bindings[0])]
    alike = {(type(one.value), one.value) if one is not None else None for one in given}
    return given[0] if len(alike) == 1 else None


def _kept(resolver: Resolver, node: ast.Attribute) -> ast.expr | None:
    """What the constructor alone gives an attribute of self, and surely gives it."""
    index, cls = resolver.index, resolver.index.enclosing_class(node)
    stores = [n for n in index.attributes.get(node.attr, []) if not isinstance(n.ctx, ast.Load)]
    bound = index.attribute_bindings.get(node.attr, [])
    if not isinstance(node.value, ast.Name) or node.value.id != "self" or len(stores) != 1 or len(bound) != 1:
        return None
    function = index.function(stores[0])
    if index.enclosing_class(stores[0]) is not cls or function is None or function.name != "__init__":
        return None
    if bound[0].how is not How.ASSIGN or index.statement(stores[0]) not in function.body:
        return None
    value, path = bound[0].value, bound[0].path
    if len(path) == 1 and isinstance(value, ast.Tuple) and path[0] is not None and path[0] < len(value.elts):
        return value.elts[path[0]]
    return value if not path else None


def _only_called(resolver: Resolver, parameter: Binding) -> bool:
    """Whether a function, or the class that it makes objects of, is used in no other way than by calls."""
    index = resolver.index
    function = index.parents[index.parents[parameter.node]]
    if not isinstance(function, FUNCTIONS):
        return False
    cls = index.parents.get(function)
    if isinstance(cls, ast.ClassDef) and function.name != "__init__":
        reads: list[ast.expr] = [n for n in index.attributes.get(function.name, []) if isinstance(n.ctx, ast.Load)]
    else:
        name = cls.name if isinstance(cls, ast.ClassDef) else function.name
        reads = [n for scope in index.scopes.values() for n in scope.loads.get(name, [])]
    parents = ((n, index.parents[n]) for n in reads)
    return bool(reads) and all(
        (isinstance(p, ast.Call) and (p.func is n or resolver.builtin(p.func) == "super"))
        or isinstance(p, ast.ClassDef)
        for n, p in parents
    )
