"""Objects that are made in the call which hands them on, and are in no variable there: prepared where they are made."""

from __future__ import annotations

import ast

from accelift_codemod.blueprint.rebinding import RETURNS_SELF
from accelift_codemod.facts import Facts, Role, Value
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.values import key


def made_on_the_spot(facts: Facts, value: Value) -> ast.Call | None:
    """The call that gives an object, and nothing around it; of a network, if it is handed on at once."""
    made = value.sites[0] if value.sites else value.origin
    if value.role is Role.MODEL:
        made = _returned_by(facts, made)
        if not _is_handed_on(facts, made):
            return None
    given = facts.resolver.values(made) if isinstance(made, ast.Call) else ()
    return made if isinstance(made, ast.Call) and any(key(v) == key(value) for v in given) else None


def _returned_by(facts: Facts, made: ast.AST) -> ast.AST:
    """The call of the function that makes an object and returns it, if there is one such call."""
    function = facts.index.function(made)
    if function is None or not isinstance(facts.index.parents.get(made), ast.Return):
        return made
    run = [call for call in facts.resolver.sites(function) if facts.runs(call)]
    return _returned_by(facts, run[0]) if len(run) == 1 else made


def _is_handed_on(facts: Facts, made: ast.AST) -> bool:
    """Whether an object is an argument of a function of the script: `train(Net().to(device), data)`."""
    parents = facts.index.parents
    node = made
    while isinstance(attribute := parents.get(node), ast.Attribute) and attribute.attr in RETURNS_SELF:
        node = parents[attribute]
    outer = parents.get(node)
    call = parents.get(outer) if isinstance(outer, ast.keyword) else outer
    return isinstance(call, ast.Call) and isinstance(facts.resolver.callee(call), FUNCTIONS)
