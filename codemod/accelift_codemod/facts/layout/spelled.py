"""How calls are spelled: methods that `getattr` gives, and functions of two tensors."""

from __future__ import annotations

import ast

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.resolve import Resolver

_COMPARES = torch_ops.ELEMENTWISE | torch_ops.ELEMENTWISE_LOSSES
_LOOKED_UP = 2  # arguments of `getattr`


@kept
def named(resolver: Resolver, call: ast.Call) -> ast.Call:
    """A call with the name written out of what `getattr` gives: `getattr(z, "std")(0)` is `z.std(0)`."""
    func = call.func
    if not isinstance(func, ast.Call) or len(func.args) != _LOOKED_UP or resolver.builtin(func.func) != "getattr":
        return call
    name = func.args[1].value if isinstance(func.args[1], ast.Constant) else None
    if not isinstance(name, str) or not name.isidentifier():
        return call
    attribute = ast.copy_location(ast.Attribute(func.args[0], name, ast.Load()), func)
    return ast.copy_location(ast.Call(attribute, call.args, call.keywords), call)


def set_against(resolver: Resolver, call: ast.Call, qualified: str | None) -> tuple[ast.expr, ast.expr] | None:
    """The two tensors that a function sets against each other element by element."""
    func = call.func
    if qualified is None and isinstance(func, ast.Attribute) and len(call.args) == 1:
        elementwise = torch_ops.out_of_place(func.attr) in torch_ops.COMPARES
        return (func.value, call.args[0]) if elementwise else None
    if len(call.args) < 2:
        return None
    names = {qualified} if qualified else {value.name for value in resolver.values(func)}
    known = {name.rpartition(".")[2] for name in names} <= _COMPARES
    return (call.args[0], call.args[1]) if names and known else None
