"""Objects that are made in the call which hands them on, and are in no variable there: prepared where they are made."""

from __future__ import annotations

import ast

from accelift_codemod.blueprint.rebinding import RETURNS_SELF
from accelift_codemod.facts import Facts, Role, Value
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.values import key

_DISPLAYS = (ast.Tuple, ast.List, ast.Dict)


def made_on_the_spot(facts: Facts, value: Value) -> ast.Call | None:
    """The call that gives an object, and nothing around it; of a network, if it is handed on or listed at once."""
    made = value.sites[0] if value.sites else value.origin
    if value.role is Role.MODEL:
        made = _returned_by(facts, made)
        if not _is_handed_on(facts, _moved(facts, made)) and not _is_listed(facts, _moved(facts, made)):
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


def _moved(facts: Facts, made: ast.AST) -> ast.AST:
    """What an expression gives that only moves what is made, or sets it: `Net().to(device)`."""
    parents = facts.index.parents
    while isinstance(attribute := parents.get(made), ast.Attribute) and attribute.attr in RETURNS_SELF:
        made = parents[attribute]
    return made


def _is_handed_on(facts: Facts, made: ast.AST) -> bool:
    """Whether an object is an argument of a function of the script: `train(Net().to(device), data)`."""
    outer = facts.index.parents.get(made)
    call = facts.index.parents.get(outer) if isinstance(outer, ast.keyword) else outer
    return isinstance(call, ast.Call) and isinstance(facts.resolver.callee(call), FUNCTIONS)


def _is_listed(facts: Facts, made: ast.AST) -> bool:
    """Whether an object is in a list, or one of several things in an entry of it, that the script keeps or goes
    through: `for net, name in [(Net(10), "small"), (Net(20), "big")]`."""
    node, around = made, facts.index.parents.get(made)
    while isinstance(around, _DISPLAYS):
        node, around = around, facts.index.parents.get(around)
    if isinstance(around, ast.Call):
        appended = isinstance(around.func, ast.Attribute) and around.func.attr == "append"
        return node is not made and (appended or isinstance(facts.resolver.callee(around), FUNCTIONS))
    return node is not made and isinstance(around, (ast.Assign, ast.AnnAssign, ast.For, ast.comprehension))
