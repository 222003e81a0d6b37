"""Optimizers that nothing is known of: what they update may be no network that is prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import Facts, Role, Value
from accelift_codemod.facts.index import How
from accelift_codemod.facts.tree import walk

_STEPS = 6  # variables and parameters between a step and what it is of


def stranger(facts: Facts) -> tuple[ast.Call, ast.expr] | None:
    """A call that steps what cannot be told to update networks that known optimizers update, with what it steps."""
    clears = (call.func for call in facts.index.methods.get("zero_grad", []))
    cleared = {ast.dump(func.value) for func in clears if isinstance(func, ast.Attribute)}
    for call in facts.index.methods.get("step", []):
        if call.args or call.keywords or not facts.runs(call):
            continue
        receiver = call.func.value  # type: ignore[attr-defined]
        for leaf in _leaves(facts, receiver, _STEPS):
            if _is_unknown(facts, leaf, ast.dump(receiver) in cleared):
                return call, leaf
    return None


def _leaves(facts: Facts, node: ast.expr, steps: int) -> Iterator[ast.expr]:
    """The expressions that what is read comes from, through variables and the calls of functions."""
    bindings = facts.resolver.bindings(node) if isinstance(node, ast.Name) and steps else []
    for binding in bindings:
        if binding.how is How.PARAMETER:
            for given in facts.resolver.handed(binding, facts.runs):
                yield from _leaves(facts, given, steps - 1) if given is not None else ()
        elif binding.how is How.ASSIGN and not binding.path and binding.value is not None:
            yield from _leaves(facts, binding.value, steps - 1)
    if not isinstance(node, ast.Name):
        yield node


def _is_unknown(facts: Facts, leaf: ast.expr, cleared: bool) -> bool:
    """Whether an expression is an object that a library makes, or an attribute of one, that may be an optimizer of
    networks which no known one updates; `cleared` says that its gradients are set to zero, too."""
    if isinstance(leaf, ast.Attribute) and facts.resolver.qualified(leaf) is None:
        base: ast.expr = leaf
        while isinstance(base, ast.Attribute):
            base = base.value
        owners = facts.resolver.values(base)
        return cleared and not facts.resolver.values(leaf) and bool(owners) and all(map(_is_foreign, owners))
    values = facts.resolver.values(leaf)
    if not isinstance(leaf, ast.Call) or not values or not all(map(_is_foreign, values)):
        return False
    given = [v for a in (*leaf.args, *(k.value for k in leaf.keywords)) for v in _inside(facts, a)]
    if any(v.role is Role.OPTIMIZER or _is_trained(facts, v) for v in given):
        return False  # it wraps a known one, or steps what is prepared
    return cleared or any(v.role is Role.PARAMETERS for v in given)


def _inside(facts: Facts, argument: ast.expr) -> Iterator[Value]:
    """The values of an argument, and of its parts: `[{"params": model.parameters()}]`."""
    for part in (n for n in walk(argument) if isinstance(n, ast.expr)):
        yield from facts.resolver.values(part)


def _is_foreign(value: Value) -> bool:
    """Whether an object is one that a library has made, of which nothing is known."""
    return value.role is Role.OBJECT and value.declaration is None and "." in value.name


def _is_trained(facts: Facts, value: Value) -> bool:
    """Whether a value is a network that a known optimizer updates, or the parameters of one."""
    inner = (v for part in value.inner for v in part) if value.role is Role.PARAMETERS else (value,)
    return any(facts.objects.is_trained(v) for v in inner)
