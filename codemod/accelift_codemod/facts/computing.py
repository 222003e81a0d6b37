"""Methods that only compute with what their object has, and leave it as it is: those of a class of losses, mostly."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.classes import is_static
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.torch_ops import FUNCTIONAL_LOSSES
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts.resolve import Resolver

_COMPUTES = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.If, ast.IfExp)


def only_computes(resolver: Resolver, call: ast.Call, seen: frozenset[Function] = frozenset()) -> bool:
    """Whether a call runs a method that surely leaves its object as it is: it only computes with what that has."""
    method = resolver.callee(call)
    if not isinstance(method, FUNCTIONS) or not isinstance(resolver.index.parents.get(method), ast.ClassDef):
        return False
    own = [a.arg for a in (*method.args.posonlyargs, *method.args.args)][:1] if not is_static(method) else []
    reads = [n for n in walk(method) if isinstance(n, ast.Name) and n.id in own]
    return method in seen or all(_only_asked(resolver, n, seen | {method}) for n in reads)


def _only_asked(resolver: Resolver, itself: ast.Name, seen: frozenset[Function]) -> bool:
    """Whether an object is only asked for something, where a method names it, to compute with that."""
    part = resolver.index.parents[itself]
    if not isinstance(part, ast.Attribute) or not isinstance(part.ctx, ast.Load):
        return False
    around = resolver.index.parents[part]
    if isinstance(around, ast.Call) and around.func is part:
        return resolver.only(part, Role.LOSS) or only_computes(resolver, around, seen)
    call = resolver.index.parents[around] if isinstance(around, ast.keyword) else around
    return isinstance(around, _COMPUTES) or (isinstance(call, ast.Call) and _is_loss(resolver, call))


def _is_loss(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call makes a loss of torch, or computes one."""
    home, _, name = (resolver.qualified(call.func) or "").rpartition(".")
    functional = home == "torch.nn.functional" and name in FUNCTIONAL_LOSSES
    return functional or resolver.library_role(f"{home}.{name}") is Role.LOSS
