"""What of sequences goes by places that are only padded: a mean or a maximum along them, or the last one."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from accelift_codemod.facts import Facts
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import walk

_MEANS = frozenset({"mean", "std", "var", "median", "nanmean"})
_GREATEST = frozenset({"max", "amax", "min", "amin", "logsumexp"})  # which a mask can leave places out of
_MASKS = frozenset({"masked_fill", "masked_fill_", "where"})
_WINDOWS = frozenset(
    "max_pool1d avg_pool1d adaptive_max_pool1d adaptive_avg_pool1d "
    "MaxPool1d AvgPool1d AdaptiveMaxPool1d AdaptiveAvgPool1d".split()
)
_PLACES = (0, 1, -2)  # where the places are, unless they have been moved to the end
_MOVES = frozenset({"transpose", "permute", "swapaxes", "movedim"})


def pools(facts: Facts, node: ast.AST, masked: bool) -> ast.expr | None:
    """The tensor whose places an expression pools, or takes the last of, unless something beside it has `masked` those
    that are padded."""
    if isinstance(node, ast.Subscript):  # `h[:, -1]`
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
        last = len(places) > 1 and isinstance(places[0], ast.Slice) and (integer(places[1]) or 0) < 0
        return node.value if last else None
    return _pooled(facts, node, masked) if isinstance(node, ast.Call) else None


def _pooled(facts: Facts, call: ast.Call, masked: bool) -> ast.expr | None:
    qualified = facts.resolver.library_function(call.func)
    names = {qualified or "", *(v.name for v in facts.resolver.values(call.func))}
    found = {name.rpartition(".")[2] for name in names if name.startswith("torch.")}
    if found and found <= _WINDOWS:
        return call.args[0] if call.args else None
    method = call.func.attr if isinstance(call.func, ast.Attribute) and not found else ""
    name = method or (found.pop() if len(found) == 1 else "")
    if name not in _MEANS and (name not in _GREATEST or masked):
        return None
    tensor = call.func.value if method else (call.args[0] if call.args else None)  # type: ignore[attr-defined]
    along = facts.resolver.argument(call, 0 if method else 1, "dim")
    dimension = integer(along)
    moved = tensor is not None and any(_name(n) in _MOVES for n in walk(tensor))
    return tensor if dimension in _PLACES or (dimension is not None and moved) else None


def masks(nodes: Iterable[ast.AST]) -> bool:
    """Whether something leaves places out by a mask."""
    return any(_name(n) in _MASKS for n in nodes)


def _name(node: ast.AST) -> str:
    func = node.func if isinstance(node, ast.Call) else None
    return func.attr if isinstance(func, ast.Attribute) else ""
