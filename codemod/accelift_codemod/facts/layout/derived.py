"""Losses of the script that are derived from one of torch's: what the loss that they are derived from is told."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import library
from accelift_codemod.facts.index import FUNCTIONS, Function, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.signatures import default
from accelift_codemod.facts.values import Role


def base_loss(resolver: Resolver, cls: ast.ClassDef, made: ast.AST | None = None) -> tuple[str, ast.Call] | None:
    """The name of the torch loss that a class is derived from, and a call that tells it what it is told by the class.

    `made` is the call that makes the object; it tells the loss all, if the class has no constructor. None if it cannot
    be told.
    """
    bases = (resolver.qualified(base) or "" for one in resolver.ancestry(cls) for base in one.bases)
    name = next((base for base in bases if library.role(base) is Role.LOSS), None)
    constructor = resolver.method(cls, "__init__")
    told = _told(resolver, constructor) if constructor is not None else made
    if name is None or not isinstance(told, ast.Call):
        return None
    return name.rpartition(".")[2], told


def is_super(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call runs the forward pass of what a class is derived from: `super().forward(scores, labels)`."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in ("forward", "__call__"):
        return False
    return isinstance(func.value, ast.Call) and resolver.builtin(func.value.func) == "super"


def _told(resolver: Resolver, constructor: Function) -> ast.Call | None:
    """The call of the constructor of what a class is derived from, with what its own parameters are given for them."""
    calls = [c for c in resolver.index.calls if resolver.index.function(c) is constructor and _is_init(resolver, c)]
    if len(calls) != 1:
        return None
    keywords = [ast.keyword(k.arg, _given(resolver, constructor, k.value)) for k in calls[0].keywords]
    return ast.Call(calls[0].func, [_given(resolver, constructor, a) for a in calls[0].args], keywords)


def _is_init(resolver: Resolver, call: ast.Call) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "__init__":
        return False
    return isinstance(func.value, ast.Call) and resolver.builtin(func.value.func) == "super"


def _given(resolver: Resolver, constructor: Function, node: ast.expr) -> ast.expr:
    """An argument, or the literal that every call of the constructor gives the parameter that it is."""
    given = list(_handed(resolver, constructor, node))
    literals = [a for a in given if isinstance(a, ast.Constant)]
    alike = bool(given) and len(literals) == len(given) and len({repr(a.value) for a in literals}) == 1
    return literals[0] if alike else node


def _handed(resolver: Resolver, constructor: Function, node: ast.expr) -> Iterator[ast.expr | None]:
    bindings = resolver.bindings(node) if isinstance(node, ast.Name) else []
    for binding in bindings:
        if binding.how is How.PARAMETER and isinstance(binding.node, ast.arg) and isinstance(constructor, FUNCTIONS):
            for handed in resolver.handed(binding):
                yield handed if handed is not None else default(constructor, binding.node)
        else:
            yield None
