"""Loaders or optimizers that one comprehension makes, and one statement puts into a variable each: prepared in all of
these."""

from __future__ import annotations

import ast

from accelift_codemod.blueprint import Blueprint, Item
from accelift_codemod.facts import Binding, Facts, How, Role, Scope, Value, position
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.values import key


def item(blueprint: Blueprint, value: Value, roots: set[tuple[Scope, str]]) -> Item | None:
    """What is prepared of the loaders of `train, test = [DataLoader(part) for part in parts]`, if they are that, or of
    the optimizers of `first, second = (Adam(net.parameters()) for net in (encoder, decoder))`.

    They are one to all questions, so all are prepared, or none: not if one of their loops would measure a share.
    """
    facts = blueprint.facts
    if any(key(one) == key(value) for loop in blueprint.local_loops for one in loop.loaders):
        return None
    found = [binding for scope, name in roots for binding in scope.bindings[name]]
    statements = {facts.index.statement(binding.node) for binding in found}
    scopes = {scope for scope, _ in roots}
    if (
        value.role not in (Role.LOADER, Role.OPTIMIZER)
        or len(found) != len(roots)
        or len(statements) != 1
        or len(scopes) != 1
    ):
        return None
    scope, statement = scopes.pop(), statements.pop()
    if scope.is_class or not all(_is_one_of(facts, binding, value) for binding in found):
        return None
    names = tuple(binding.name for binding in sorted(found, key=lambda binding: position(binding.node)))
    reads = [load for name in names for load in facts.loads(scope, name)]
    if not all(facts.same_file(load, statement) for load in reads):
        return None
    return Item(value, value.role, scope, names[0], (statement,), names)


def _is_one_of(facts: Facts, binding: Binding, value: Value) -> bool:
    """Whether a variable is bound to one of the elements of a comprehension, which makes each anew."""
    if binding.how is not How.ASSIGN or len(binding.path) != 1:
        return False
    made = binding.value
    target = facts.resolver.callee(made) if isinstance(made, ast.Call) else None
    if isinstance(target, FUNCTIONS):
        returned = [statement.value for statement in facts.resolver.returns(target)]
        made = returned[0] if len(returned) == 1 and not facts.resolver.yields(target) else None
    if not isinstance(made, (ast.ListComp, ast.GeneratorExp)):
        return False
    return made.elt is value.origin
