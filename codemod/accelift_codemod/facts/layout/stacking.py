"""Collate functions that only stack: what they make of a sample does not go by the samples beside it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.facts.resolve import Resolver

DEFAULT = frozenset(f"torch.utils.data.{home}default_collate" for home in ("", "dataloader.", "_utils.collate."))
# What makes one tensor or array of a list, with a row for each entry; it may be a tensor already.
TENSORS = frozenset(
    "torch.tensor torch.as_tensor torch.Tensor torch.FloatTensor torch.LongTensor torch.IntTensor torch.BoolTensor "
    "torch.DoubleTensor torch.from_numpy numpy.array numpy.asarray".split()
)
STACKS = frozenset({"torch.stack", "numpy.stack"})
JOINS = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "numpy.concatenate"})
# What goes through samples one by one, and what is done with one of them, whatever others there are.
_GOING_THROUGH = frozenset({"list", "tuple", "zip", "enumerate", "range", "int", "float"})
_OF_ONE = frozenset("append float long int double bool unsqueeze items keys values".split())
_PLAIN = (ast.Assign, ast.AnnAssign, ast.Expr, ast.For, ast.Return, ast.Pass)
_MOST_STEPS = 6


def only_stacks(resolver: Resolver, function: Function | ast.Lambda, steps: int = 0) -> bool:
    """Whether a function does nothing with samples but put parts of them together, one after the other."""
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    for node in (n for part in body for n in walk(part)):
        if isinstance(node, ast.Call) and not _puts_together(resolver, node, steps):
            return False
        if isinstance(node, ast.stmt) and not isinstance(node, _PLAIN):
            return False
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            return False
    return True


def _puts_together(resolver: Resolver, call: ast.Call, steps: int) -> bool:
    """Whether a call makes a tensor of samples, or goes through them."""
    qualified, builtin = resolver.qualified(call.func) or "", resolver.builtin(call.func)
    outer = resolver.index.parents.get(call)
    if builtin == "len":
        return isinstance(outer, ast.Call) and resolver.builtin(outer.func) == "range" and len(outer.args) == 1
    if builtin == "map":
        return bool(call.args) and resolver.qualified(call.args[0]) in STACKS | TENSORS
    if qualified.startswith("numpy.") and not isinstance(outer, ast.Call):
        return False  # an array is not gathered
    target = resolver.callee(call)
    if isinstance(target, FUNCTIONS):
        return steps < _MOST_STEPS and only_stacks(resolver, target, steps + 1)
    if builtin is None and not qualified and isinstance(call.func, ast.Attribute):
        return call.func.attr in _OF_ONE
    return builtin in _GOING_THROUGH or qualified in DEFAULT | STACKS | TENSORS
