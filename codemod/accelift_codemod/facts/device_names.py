"""By which names a script knows its device: `"cuda:0"` or `"cpu"`."""

from __future__ import annotations

import ast

from accelift_codemod.facts.devices import Devices
from accelift_codemod.facts.index import FUNCTIONS, How

Names = frozenset[str]


def names(devices: Devices, node: ast.expr | None, seen: set[object] | None = None) -> Names | None:
    """The names that a device expression may stand for; None if they are not all written out.

    `seen` are the variables and functions that it is asked of already.
    """
    resolver = devices.resolver
    seen = set() if seen is None else seen
    if isinstance(node, ast.Constant):
        return frozenset({node.value}) if isinstance(node.value, str) and devices.is_device(node) else None
    if isinstance(node, ast.IfExp):
        return _all(devices, [node.body, node.orelse], seen)
    if isinstance(node, ast.Call):
        if resolver.qualified(node.func) == "torch.device":
            alone = len(node.args) + len(node.keywords) == 1
            given = resolver.argument(node, 0, "device") or resolver.argument(node, 0, "type")
            return names(devices, given, seen) if alone else None
        target = resolver.callee(node)
        if not isinstance(target, FUNCTIONS) or target in seen:
            return frozenset() if target in seen else None
        seen.add(target)
        return _all(devices, [r.value for r in resolver.returns(target)], seen)
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    bindings = resolver.bindings(node) if isinstance(node, ast.Name) else devices.index.set_as_spelled(node)
    new = [binding for binding in bindings if binding not in seen]
    if bindings and not new:
        return frozenset()
    seen.update(new)
    values: list[ast.expr | None] = []
    for binding in new:
        if binding.how is How.PARAMETER:
            values += resolver.handed(binding, devices.runs) or [None]
        else:
            values.append(binding.value if binding.how is How.ASSIGN and not binding.path else None)
    return _all(devices, values, seen)


def _all(devices: Devices, nodes: list[ast.expr | None], seen: set[object]) -> Names | None:
    found: set[str] = set()
    for node in nodes:
        known = names(devices, node, seen)
        if known is None:
            return None
        found |= known
    return frozenset(found) if nodes else None
