"""Numbers that are taken of tensors: `loss.item()`, `float(loss)`, also where a variable holds them."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Kind, position
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.tree import walk


def number_of(draft: Draft, node: ast.AST) -> ast.expr | None:
    """The tensor of which an expression is the number: `x.item()`, `float(x)`, a variable that holds one of these."""
    if isinstance(node, ast.Name):
        return _held(draft, node)
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        return node.func.value
    if draft.facts.resolver.builtin(node.func) in ("float", "int") and len(node.args) == 1 and not node.keywords:
        return node.args[0] if draft.facts.kinds.of(node.args[0]) is Kind.TENSOR else None
    return None


def _held(draft: Draft, name: ast.Name) -> ast.expr | None:
    """The tensor whose number a variable holds, if what is read of that in the same iteration is still the same."""
    bindings = draft.facts.resolver.bindings(name) if isinstance(name.ctx, ast.Load) else []
    made = bindings[0].value if len(bindings) == 1 else None
    if not isinstance(made, ast.Call) or bindings[0].how is not How.ASSIGN or bindings[0].path:
        return None
    tensor = number_of(draft, made)
    index = draft.facts.index
    if tensor is None or not index.enclosing_loops(name) or index.enclosing_loops(made) != index.enclosing_loops(name):
        return None
    body = index.enclosing_loops(name)[0].body  # type: ignore[attr-defined]
    between = [
        n for s in body for n in walk(s) if isinstance(n, ast.stmt) and position(made) < position(n) < position(name)
    ]
    changed = {n for s in between for n in stores(s)}
    return tensor if not changed & {n.id for n in loads(tensor)} else None
