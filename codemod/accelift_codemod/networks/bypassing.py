"""Methods of a network whose results reach the backward pass by layers that the network's wrapper has to see run."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Value, gradients, torch_ops
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import root, walk


def trains(draft: Draft, call: ast.Call, name: str, models: tuple[Value, ...]) -> bool:
    """Whether a method's result may reach a backward pass through layers that the wrapper has to see."""
    if name in torch_ops.MODULE_METHODS:
        return False
    if draft.gradients_off(call) or isinstance(draft.facts.index.parents.get(call), ast.Expr):
        return False
    methods = [draft.facts.resolver.method(m.declaration, name) for m in models]
    if any(m is None for m in methods):
        return True  # a class that is not defined here
    return any(_runs_layers(draft, m) for m in methods if m is not None)


def _runs_layers(draft: Draft, method: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a method calls a submodule or its own forward pass, directly or through other methods."""
    cls = draft.facts.index.enclosing_class(method)
    for node in walk(method):
        if not isinstance(node, ast.Call):
            continue
        func = node.func
        owner = root(func)
        own = owner is not None and (owner.id == "self" or draft.blueprint.prepared_models(owner))
        if owner is None or not own or gradients.off_within(draft.facts.resolver, node):
            continue
        if not isinstance(func, (ast.Attribute, ast.Subscript)):
            if owner.id == "self":
                return True  # self(x)
            continue
        of_self = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name)
        inner = draft.facts.resolver.method(cls, func.attr) if of_self and isinstance(func, ast.Attribute) else None
        if inner is None:
            if isinstance(func, ast.Attribute) and of_self and func.attr in torch_ops.MODULE_METHODS:
                continue
            if isinstance(func, ast.Attribute) and not _is_layer(func):
                continue
            return True
        if inner not in seen and isinstance(inner, FUNCTIONS):
            if _runs_layers(draft, inner, seen | {method, inner}):
                return True
    return False


def _is_layer(func: ast.Attribute) -> bool:
    """Whether `self.name(...)` calls an attribute of its own (`self.fc.weight.pow(2)` calls a tensor's method)."""
    return isinstance(func.value, (ast.Name, ast.Subscript)) or func.attr == "forward"
