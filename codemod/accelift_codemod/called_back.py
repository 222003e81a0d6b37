"""What the functions that a trainer hands itself to (see facts/callbacks.py) do with what it has measured."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import Binding, Facts, How, Role

_OBJECTS = frozenset({Role.MODEL, Role.OPTIMIZER, Role.LOADER, Role.SCHEDULER, Role.DEVICE, Role.DATASET, Role.SCALER})


def measured(facts: Facts) -> Iterator[tuple[ast.Attribute, bool]]:
    """The attributes of a trainer that functions outside of it ask for, and that may be those of one process; with
    whether they are only printed there."""
    for node, cls in facts.instances.asked.items() if facts.instances.called else ():
        name = f"{facts.instances.followed[cls]}.{node.attr}"
        bindings = facts.index.scopes[cls].bindings.get(name, [])
        apart = facts.index.function(node) is not None and facts.resolver.instance(node) is not cls
        if apart and isinstance(node.ctx, ast.Load) and facts.runs(node):
            method = facts.resolver.method(cls, node.attr)
            told = method is not None and bool(facts.resolver.returns(method))
            if told or not all(_is_alike(facts, binding) for binding in bindings):
                yield node, _is_printed(facts, node)


def _is_alike(facts: Facts, binding: Binding) -> bool:
    """Whether a variable is given an object, or a number that all processes have."""
    value = binding.value
    if binding.how is How.LOOP and isinstance(value, ast.Call):
        return facts.resolver.builtin(value.func) == "range" and not binding.path
    if binding.how is How.AUGMENT:
        statement = facts.index.statement(binding.node)
        return isinstance(statement, ast.AugAssign) and isinstance(statement.value, ast.Constant)
    if binding.how is not How.ASSIGN or value is None or binding.path:
        return False
    function = facts.index.function(binding.node)
    cls = facts.resolver.instance(binding.node)
    if isinstance(value, ast.Constant) or (cls is not None and function is facts.resolver.constructor(cls)):
        return True
    values = facts.resolver.values(value)
    return bool(values) and all(v.role in _OBJECTS for v in values)


def _is_printed(facts: Facts, node: ast.Attribute) -> bool:
    """Whether a statement prints what is read, and does nothing else with it."""
    statement = facts.index.statement(node)
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and facts.resolver.builtin(call.func) == "print"
