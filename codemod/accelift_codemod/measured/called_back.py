"""What the functions that a trainer hands itself to (see facts/callbacks.py) do with what it has measured."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import Binding, Facts, How, Role
from accelift_codemod.facts.showing import prints

_OBJECTS = frozenset({Role.MODEL, Role.OPTIMIZER, Role.LOADER, Role.SCHEDULER, Role.DEVICE, Role.DATASET, Role.SCALER})


def measured(facts: Facts) -> Iterator[tuple[ast.Attribute, bool]]:
    """The attributes of a trainer that functions outside of it ask for, and that may be those of one process; with
    whether they are only shown there."""
    for node, cls in facts.instances.asked.items() if facts.instances.called else ():
        name = f"{facts.instances.followed[cls]}.{node.attr}"
        bindings = facts.index.scopes[cls].bindings.get(name, [])
        apart = facts.index.function(node) is not None and facts.resolver.instance(node) is not cls
        if apart and isinstance(node.ctx, ast.Load) and facts.runs(node):
            method = facts.resolver.method(cls, node.attr)
            told = method is not None and bool(facts.resolver.returns(method))
            if told or not all(_is_alike(facts, binding) for binding in bindings):
                yield node, _is_shown(facts, node)


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


def _is_shown(facts: Facts, node: ast.expr, steps: int = 0) -> bool:
    """Whether what is read is printed, saved or handed to a library by statements that do nothing else; perhaps by a
    variable, or in a list, of which that holds."""
    statement = facts.index.statement(node)
    name: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and steps < 3:
        name = statement.targets[0]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        func = statement.value.func
        if isinstance(func, ast.Attribute) and func.attr == "append" and steps < 3:
            name = func.value
        else:
            library = facts.resolver.qualified(func) or "torch."
            shows = not library.startswith("torch.") or library == "torch.save" or Role.WRITER in _roles(facts, func)
            return prints(facts.resolver, func) is not None or shows
    owner = facts.index.scope(name).owner(name.id) if isinstance(name, ast.Name) else None
    if owner is None or not isinstance(name, ast.Name):
        return False
    reads = [n for n in facts.loads(owner, name.id) if facts.index.statement(n) is not statement]
    return all(_is_shown(facts, read, steps + 1) for read in reads)


def _roles(facts: Facts, func: ast.expr) -> frozenset[Role]:
    return facts.resolver.roles(func.value) if isinstance(func, ast.Attribute) else frozenset()
