"""Tensors that are computed from numbers written in the script alone, as in the examples of a tutorial."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import children

_MOST_STEPS = 12
_KINDS = (
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.Subscript,
    ast.Slice,
    ast.Tuple,
    ast.List,
    ast.Attribute,
    ast.Starred,
)
_HOMES = ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "math")
_MAKES = frozenset("torch.autograd.Variable torch.Tensor torch.FloatTensor torch.DoubleTensor torch.LongTensor".split())
_READS = frozenset("load loadtxt genfromtxt fromfile memmap fromstring save compile jit".split())


def is_apart(resolver: Resolver, node: ast.expr, steps: int = 0) -> bool:
    """Whether a tensor comes from no model, no data and no argument: `x * x * 3` of `x = torch.ones(2)`."""
    if isinstance(node, ast.Constant):
        return True
    if steps > _MOST_STEPS:
        return False
    if isinstance(node, ast.Name):
        owner = resolver.index.scope(node).owner(node.id)
        bindings = resolver.reaching(node, owner) if owner is not None else []
        values = [b.value if b.how in (How.ASSIGN, How.AUGMENT) and not b.path else None for b in bindings]
        return bool(values) and all(v is not None and is_apart(resolver, v, steps + 1) for v in values)
    if isinstance(node, ast.Call):
        given = [*node.args, *(k.value for k in node.keywords)]
        return _makes(resolver, node, steps) and all(is_apart(resolver, part, steps + 1) for part in given)
    if isinstance(node, ast.Attribute) and (resolver.qualified(node) or "").startswith("torch."):
        return True  # `torch.float32`
    parts = [part for part in children(node) if isinstance(part, ast.expr)]
    return isinstance(node, _KINDS) and all(is_apart(resolver, part, steps + 1) for part in parts)


def _makes(resolver: Resolver, call: ast.Call, steps: int) -> bool:
    """Whether a call is of a function that computes with what it is given, or of a method of such a tensor."""
    qualified = resolver.qualified(call.func) or ""
    home, _, name = qualified.rpartition(".")
    if qualified:
        known = home in _HOMES or home.startswith("numpy")
        return qualified in _MAKES or (known and name[:1].islower() and name not in _READS)
    if isinstance(call.func, ast.Attribute):
        return is_apart(resolver, call.func.value, steps + 1)
    return resolver.builtin(call.func) in ("float", "int", "range", "len", "list")
