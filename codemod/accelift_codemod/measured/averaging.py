"""What averages a number of one process's share across processes: of means over samples, exactly."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Kind
from accelift_codemod.facts.layout import Environment, Layout
from accelift_codemod.facts.tree import walk

_PARTS = (ast.Name, ast.Attribute, ast.Call, ast.BinOp)


def averaging(draft: Draft, place: ast.AST, measured: ast.expr) -> str:
    """By what a number that an iteration computes is to be averaged: batch_mean weighs shares of different sizes."""
    parts = [n for n in walk(measured) if isinstance(n, _PARTS)]
    for loop in draft.training_around(place) if draft.runtime else ():
        env = draft.environment(loop, place)
        if env is not None and any(draft.facts.layouts.read(part, env) is Layout.MEAN for part in parts):
            return "accelerator.batch_mean"
    return 'accelerator.reduce(..., "mean")'


def means_in(draft: Draft, node: ast.expr, env: Environment) -> Iterator[ast.expr]:
    """The means over samples, one number or several, that an expression is computed from and no gradients flow to."""
    if isinstance(node, (ast.Call, ast.Name)) and draft.facts.layouts.read(node, env) is Layout.MEAN:
        free = draft.gradients_off(node) or is_detached(node)
        if free and _is_as_made(draft, node) and draft.facts.kinds.of(node) is not Kind.PLAIN:
            yield node
    elif isinstance(node, (ast.BinOp, ast.UnaryOp)):
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                yield from means_in(draft, part, env)


def _is_as_made(draft: Draft, node: ast.expr) -> bool:
    """Whether a mean is what an expression has made: nothing else comes by its variable, to change it in place."""
    bound = draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) else []
    once = len(bound) == 1 and len(draft.facts.loads(bound[0].scope, bound[0].name)) == 1
    return once or not isinstance(node, ast.Name)


def is_detached(node: ast.expr) -> bool:
    """Whether an operation is one on a tensor that has no gradients any more: `x.detach().mean(0)`."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        if isinstance(node, ast.Attribute) and node.attr in ("detach", "data"):
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return False
