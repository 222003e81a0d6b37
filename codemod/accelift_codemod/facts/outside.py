"""Attributes of followed objects that are set where the objects are not called self: `trainer.epoch = 3`.

They are variables of the class as all its attributes, as long as they hold nothing but numbers that every process has.
"""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.parts import BATCH_LIKE
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

_PLAIN = frozenset({Role.CONSTANT, Role.OBJECT})


def wrong(resolver: Resolver) -> frozenset[ast.AST]:
    """The attributes, of those that are set outside, that may hold more than such numbers."""
    bindings = {n: resolver.index.scopes[cls].bindings[name] for n, (cls, name) in resolver.outside.items()}
    return frozenset(n for n, bound in bindings.items() if not all(_plain(resolver, n, b) for b in bound))


def _plain(resolver: Resolver, node: ast.AST, binding: Binding) -> bool:
    """Whether a binding gives its attribute nothing that is prepared, or that is measured if it is set at the node."""
    if binding.path or binding.value is None or not resolver.roles(binding.value) <= _PLAIN:
        return False
    return binding.node is not node or _same_everywhere(resolver, binding.value, {binding.node})


def _same_everywhere(resolver: Resolver, node: ast.AST, seen: set[ast.AST]) -> bool:
    """Whether an expression is computed from nothing that a function of the script, or a batch, has a part in."""
    for part in walk(node):
        if isinstance(part, ast.expr) and resolver.roles(part) & BATCH_LIKE:
            return False
        if isinstance(part, ast.Call) and isinstance(resolver.callee(part), FUNCTIONS):
            return False
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            if not all(_bound_so(resolver, b, seen) for b in resolver.bindings(part)):
                return False
        if isinstance(part, ast.Attribute):
            if not all(_bound_so(resolver, b, seen) for b in _variable(resolver, part)):
                return False
    return True


def _variable(resolver: Resolver, node: ast.Attribute) -> list[Binding]:
    """What binds the variable that an attribute of a followed object is."""
    found: list[Binding] = []
    for cls in {v.declaration for v in resolver.values(node.value)}:
        if isinstance(cls, ast.ClassDef) and cls in resolver.followed:
            found += resolver.index.scopes[cls].bindings.get(f"{resolver.followed[cls]}.{node.attr}", ())
    return found


def _bound_so(resolver: Resolver, binding: Binding, seen: set[ast.AST]) -> bool:
    if binding.node in seen:
        return True  # it is being asked for already
    seen.add(binding.node)
    if binding.how is How.PARAMETER:
        handed = resolver.handed(binding)
        return all(a is not None and _same_everywhere(resolver, a, seen) for a in handed)
    if binding.how in (How.IMPORT, How.CLASS, How.FUNCTION):
        return True
    return binding.value is not None and _same_everywhere(resolver, binding.value, seen)
