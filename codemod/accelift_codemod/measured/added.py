"""Sums over tensors of which it need not be known what they have for each sample."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk

_STEPS = 3  # through names, and functions of the script


def sums_something(draft: Draft, value: ast.expr, steps: int = _STEPS) -> bool:
    """Whether a number is the sum over a tensor, also as a function of the script returns it, that nothing divides."""
    for part in walk(value):
        if _is_sum(draft, part):
            found = True
        else:
            made = list(_made_of(draft, part)) if steps else []
            found = bool(made) and all(sums_something(draft, one, steps - 1) for one in made)
        if found:
            return not _is_divided(draft, part, value)
    return False


def _is_sum(draft: Draft, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    method = isinstance(node.func, ast.Attribute) and node.func.attr == "sum" and not node.args
    return method or (draft.facts.resolver.qualified(node.func) == "torch.sum" and len(node.args) == 1)


def _is_divided(draft: Draft, part: ast.AST, value: ast.expr) -> bool:
    if part is value:
        return False
    within = itertools.takewhile(lambda parent: parent is not value, draft.facts.index.ancestors(part))
    return any(isinstance(p, ast.BinOp) and isinstance(p.op, ast.Div) for p in (*within, value))


def _made_of(draft: Draft, node: ast.AST) -> Iterator[ast.expr]:
    """What a variable is bound to, or a function of the script returns."""
    resolver = draft.facts.resolver
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        value = resolver.set_once(node)
        yield from [value] if value is not None else []
    elif isinstance(node, ast.Call):
        function = resolver.callee(node)
        returned = [r.value for r in resolver.returns(function)] if isinstance(function, FUNCTIONS) else []
        yield from (r for r in returned if r is not None)
