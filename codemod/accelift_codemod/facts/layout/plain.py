"""What is certainly a number of Python, and no tensor."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import How
from accelift_codemod.facts.layout.algebra import Layout, Shape
from accelift_codemod.facts.resolve import Resolver

_IMAGES = 4  # dimensions, of which none but the first two has ever the samples


def sizes(node: ast.expr, target: ast.expr) -> Shape:
    """The sizes of something unknown, taken apart: the height and width of images are no numbers of samples."""
    asked = node.func if isinstance(node, ast.Call) and not node.args and not node.keywords else node
    name = "size" if asked is not node else "shape"
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
    if not isinstance(asked, ast.Attribute) or asked.attr != name or any(isinstance(p, ast.Starred) for p in parts):
        return Layout.UNKNOWN
    later = [Layout.CONST] * (len(parts) - 2)
    return (Layout.UNKNOWN, Layout.UNKNOWN, *later) if len(parts) >= _IMAGES else Layout.UNKNOWN


def is_plain_number(resolver: Resolver, node: ast.expr | None, seen: set[str] | None = None) -> bool:
    """Whether an expression is certainly a number of Python: `0.9 * mean + 0.1 * loss.item()`."""
    seen = set() if seen is None else seen
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float))
    if isinstance(node, ast.BinOp):
        return is_plain_number(resolver, node.left, seen) and is_plain_number(resolver, node.right, seen)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "item":
            return not node.args
        builtin = resolver.builtin(node.func)
        return builtin in ("float", "int") or (
            builtin in ("min", "max", "abs", "round") and all(is_plain_number(resolver, a, seen) for a in node.args)
        )
    if not isinstance(node, ast.Name) or node.id in seen:
        return isinstance(node, ast.Name)
    owner = resolver.index.scope(node).owner(node.id)
    seen.add(node.id)
    bindings = owner.bindings.get(node.id, []) if owner is not None else []
    return bool(bindings) and all(
        b.how in (How.ASSIGN, How.AUGMENT) and not b.path and is_plain_number(resolver, b.value, seen) for b in bindings
    )
