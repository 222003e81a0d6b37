"""Lists of the devices of one process, of which a script takes one by its place: `devices[0]`."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.signatures import default

_STEPS = 6


def is_entry(resolver: Resolver, node: ast.expr | None) -> bool:
    """Whether an expression is one of several devices in a list, by a place that is written out."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant):
        return False
    return _is_list(resolver, node.value, _STEPS)


def _is_list(resolver: Resolver, node: ast.expr | None, steps: int) -> bool:
    """Whether an expression may be a list of devices."""
    if node is None or steps == 0:
        return False
    if isinstance(node, (ast.List, ast.Tuple)):
        return any(_is_device(resolver, part) for part in node.elts)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return _is_device(resolver, node.elt)
    if isinstance(node, ast.IfExp):
        return _is_list(resolver, node.body, steps - 1) or _is_list(resolver, node.orelse, steps - 1)
    if isinstance(node, ast.Call):
        function = resolver.callee(node)
        if isinstance(function, FUNCTIONS):
            return any(_is_list(resolver, end.value, steps - 1) for end in resolver.returns(function))
        through = resolver.builtin(node.func) in ("list", "tuple") and len(node.args) == 1
        return through and _is_list(resolver, node.args[0], steps - 1)
    for binding in resolver.bindings(node) if isinstance(node, ast.Name) else ():
        given: list[ast.expr | None] = [binding.value] if binding.how is How.ASSIGN and not binding.path else []
        if binding.how is How.PARAMETER and isinstance(binding.node, ast.arg):
            function = resolver.index.parents[resolver.index.parents[binding.node]]
            given = [*resolver.handed(binding)]
            given += [default(function, binding.node)] if isinstance(function, FUNCTIONS) else []
        if any(_is_list(resolver, value, steps - 1) for value in given):
            return True
    return False


def _is_device(resolver: Resolver, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and resolver.qualified(node.func) == "torch.device"
