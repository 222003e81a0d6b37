"""What asks where another tensor is: to follow it there is no choice of a device."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

_TENSORS = frozenset({Role.BATCH, Role.DATA, Role.MODEL, Role.PARAMETERS})
_OF_TENSORS = frozenset({"is_cuda", "is_cpu", "get_device"})
_MOST_STEPS = 6


def asks(resolver: Resolver, test: ast.AST, steps: int = 0) -> bool:
    """Whether a part of an expression asks where a tensor is: `x.is_cuda`, `x.device.type == "cuda"`, or by a function
    of the script that returns nothing else."""
    parts = list(walk(test))
    if any(isinstance(part, ast.Attribute) and _tells(resolver, part) for part in parts):
        return True
    return steps < _MOST_STEPS and any(
        isinstance(part, ast.Call) and _returns_place(resolver, part, steps) for part in parts
    )


def _returns_place(resolver: Resolver, call: ast.Call, steps: int) -> bool:
    """Whether a call runs a function that only ever returns where a tensor is."""
    function = resolver.callee(call)
    if not isinstance(function, FUNCTIONS):
        return False
    returned = [r.value for r in resolver.returns(function)]
    return bool(returned) and all(value is not None and asks(resolver, value, steps + 1) for value in returned)


def _tells(resolver: Resolver, node: ast.Attribute) -> bool:
    """Whether an attribute says where a tensor is, and is none that the script has given to an object of its own."""
    if node.attr == "device":
        return _is_tensor(resolver, node.value)
    if node.attr not in _OF_TENSORS or Role.ARGUMENTS in resolver.roles(node.value):
        return False
    own = {f.name for f in resolver.index.functions} | resolver.index.attribute_bindings.keys()
    return node.attr not in own and resolver.qualified(node) is None


def follows(resolver: Resolver, node: ast.AST | None, steps: int = 0) -> bool:
    """Whether an expression is the place of a tensor: `x.get_device()`, or a variable that only ever holds such."""
    if node is None or steps > _MOST_STEPS:
        return False
    if not isinstance(node, ast.Name):
        return asks(resolver, node)
    bindings = resolver.bindings(node)
    return bool(bindings) and all(
        b.how is How.ASSIGN and not b.path and follows(resolver, b.value, steps + 1) for b in bindings
    )


def is_current(resolver: Resolver, node: ast.Call) -> bool:
    """Whether a call gives the GPU that is current, where it stands for a device: the other choice is the CPU.

    Elsewhere its number may be put into a name (`f"cuda:{number}"`), or counted with.
    """
    if resolver.qualified(node.func) != "torch.cuda.current_device":
        return False
    parents = resolver.index.parents
    parent = parents[node]
    if isinstance(parent, ast.IfExp):
        return any(_is_cpu(side) for side in (parent.body, parent.orelse))
    targets = parent.targets if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else []
    return any(_is_cpu(b.value) for target in targets for b in _alike(resolver, target))


def _alike(resolver: Resolver, target: ast.expr) -> list[Binding]:
    """All that binds the variable, or the attribute, that is assigned to."""
    if isinstance(target, ast.Name):
        owner = resolver.index.scope(target).owner(target.id)
        return owner.bindings.get(target.id, []) if owner is not None else []
    found = resolver.index.attribute_bindings.get(target.attr, []) if isinstance(target, ast.Attribute) else []
    return [b for b in found if ast.unparse(b.node) == ast.unparse(target)]


def _is_cpu(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value in ("cpu", "cpu:0")


def _is_tensor(resolver: Resolver, node: ast.expr, steps: int = 0) -> bool:
    """Whether an expression certainly is a tensor, or a network, and no object of settings with a `device`."""
    if resolver.roles(node) & _TENSORS:
        return True
    if isinstance(node, ast.Call):
        inner = node.args[0] if resolver.builtin(node.func) == "next" and node.args else node
        return bool(resolver.roles(inner) & _TENSORS) or (resolver.qualified(node.func) or "").startswith("torch.")
    bindings = resolver.bindings(node) if isinstance(node, ast.Name) and steps < _MOST_STEPS else []
    return bool(bindings) and all(
        b.how is How.ASSIGN and b.value is not None and not b.path and _is_tensor(resolver, b.value, steps + 1)
        for b in bindings
    )


def calls_cuda(resolver: Resolver) -> bool:
    """Whether something is moved by `.cuda()`: to a GPU, whatever devices are named beside."""
    return any(resolver.qualified(call.func) != "torch.cuda" for call in resolver.index.methods.get("cuda", []))
