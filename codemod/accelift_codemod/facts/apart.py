"""Tensors that are computed from numbers written in the script alone, as in the examples of a tutorial."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import How
from accelift_codemod.facts.tree import children

if TYPE_CHECKING:
    from accelift_codemod.facts import Facts

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
_FILLS = frozenset("append extend insert update copy_".split())
_READS = frozenset("load loadtxt genfromtxt fromfile memmap fromstring save compile jit".split())


def is_apart(facts: Facts, node: ast.expr, steps: int = 0) -> bool:
    """Whether a tensor comes from no model, no data and no argument: `x * x * 3` of `x = torch.ones(2)`."""
    if isinstance(node, ast.Constant):
        return True
    if steps > _MOST_STEPS:
        return False
    if isinstance(node, ast.Name):
        owner = facts.index.scope(node).owner(node.id)
        bindings = facts.resolver.reaching(node, owner) if owner is not None else []
        values = [b.value if b.how is How.ASSIGN and not b.path else None for b in bindings]
        if owner is None or not values or any(b.how is How.AUGMENT for b in owner.bindings[node.id]):
            return False
        if any(facts.index.function(b.node) is not facts.index.function(node) for b in owner.bindings[node.id]):
            return False  # a function that is called in between may have bound it
        if any(_changes(facts, load) for load in facts.loads(owner, node.id)):
            return False
        return all(v is not None and not isinstance(v, ast.List) and is_apart(facts, v, steps + 1) for v in values)
    if isinstance(node, ast.Call):
        given = [*node.args, *(k.value for k in node.keywords)]
        return _makes(facts, node, steps) and all(is_apart(facts, part, steps + 1) for part in given)
    if isinstance(node, ast.Attribute) and (facts.resolver.qualified(node) or "").startswith("torch."):
        return True  # `torch.float32`
    parts = [part for part in children(node) if isinstance(part, ast.expr)]
    return isinstance(node, _KINDS) and all(is_apart(facts, part, steps + 1) for part in parts)


def _changes(facts: Facts, load: ast.Name) -> bool:
    """Whether what a variable holds is changed where it is read: `total[0] = loss`, `total.add_(loss)`."""
    parent = facts.index.parents.get(load)
    if isinstance(parent, ast.Subscript):
        return parent.value is load and not isinstance(parent.ctx, ast.Load)
    if isinstance(parent, ast.keyword):
        return parent.arg == "out"
    if not isinstance(parent, ast.Attribute):
        return False
    name = parent.attr
    return name in _FILLS or (name.endswith("_") and name not in ("requires_grad_", "retain_grad_"))


def _makes(facts: Facts, call: ast.Call, steps: int) -> bool:
    """Whether a call is of a function that computes with what it is given, or of a method of such a tensor."""
    qualified = facts.resolver.qualified(call.func) or ""
    home, _, name = qualified.rpartition(".")
    if qualified:
        known = home in _HOMES or home.startswith("numpy")
        return qualified in _MAKES or (known and name[:1].islower() and name not in _READS)
    if isinstance(call.func, ast.Attribute):
        return is_apart(facts, call.func.value, steps + 1)
    return facts.resolver.builtin(call.func) in ("float", "int", "range", "len", "list")
