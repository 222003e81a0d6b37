"""Variables in which methods have what attributes of their object are: `model = self.model`."""

from __future__ import annotations

import ast

from accelift_codemod.blueprint import Blueprint
from accelift_codemod.blueprint.rebinding import itself
from accelift_codemod.facts import Role, Scope, position

_READIES = frozenset({"train", "eval", "to", "cuda", "zero_grad", "state_dict"})
_PREPARED = {Role.MODEL, Role.OPTIMIZER}


def is_short(blueprint: Blueprint, scope: Scope, name: str) -> bool:
    """Whether a variable of a method is short for an attribute that can be prepared in its place, which every call
    would do again: all such variables are as they were until the method trains, by an optimizer that is made elsewhere.
    """
    index, resolver = blueprint.facts.index, blueprint.facts.resolver
    if scope.is_class or not _is_for_attribute(blueprint, scope, name):
        return False
    if any(index.function(one.value.origin) is scope.node for one in blueprint.facts.objects.optimizers):
        return False  # both are prepared there
    loops = [loop.node for loop in blueprint.train_loops if index.function(loop.node) is scope.node]
    first = min(map(position, loops), default=None)
    for other, bindings in scope.bindings.items():
        roles = {value.role for binding in bindings for value in resolver.bound(binding)}
        if roles & _PREPARED and _is_for_attribute(blueprint, scope, other):
            reads = (n for n in blueprint.facts.loads(scope, other) if first is None or position(n) < first)
            if not all(_only_readies(blueprint, read) for read in reads):
                return False  # they are prepared after that
    return True


def _is_for_attribute(blueprint: Blueprint, scope: Scope, name: str) -> bool:
    """Whether a variable never is anything but what an attribute is."""
    values = [itself(binding.value) for binding in scope.bindings[name] if not binding.path]
    owners = [blueprint.facts.index.scope(node).owner(node.id) for node in values if isinstance(node, ast.Name)]
    return len(owners) == len(scope.bindings[name]) and all(owner is not None and owner.is_class for owner in owners)


def _only_readies(blueprint: Blueprint, read: ast.Name) -> bool:
    """Whether a read of a network or an optimizer leaves it as it is: `net.train()`, `opt.zero_grad()`."""
    method = blueprint.facts.index.parents.get(read)
    called = isinstance(blueprint.facts.index.parents.get(method), ast.Call) if method is not None else False
    return called and isinstance(method, ast.Attribute) and method.attr in _READIES
