"""By which names a script knows its device: `"cuda:0"` or `"cpu"`."""

from __future__ import annotations

import ast

from accelift_codemod.facts.devices import Devices
from accelift_codemod.facts.index import FUNCTIONS, How

_MOST = 8  # steps from a variable to what it is set to

Names = frozenset[str]


def names(devices: Devices, node: ast.expr | None, steps: int = 0) -> Names | None:
    """The names that a device expression may stand for; None if they are not all written out."""
    resolver = devices.resolver
    if steps > _MOST:
        return None
    if isinstance(node, ast.Constant):
        return frozenset({node.value}) if isinstance(node.value, str) and devices.is_device(node) else None
    if isinstance(node, ast.IfExp):
        return _all(devices, [node.body, node.orelse], steps)
    if isinstance(node, ast.Call):
        if resolver.qualified(node.func) == "torch.device":
            alone = len(node.args) + len(node.keywords) == 1
            given = resolver.argument(node, 0, "device") or resolver.argument(node, 0, "type")
            return names(devices, given, steps + 1) if alone else None
        target = resolver.callee(node)
        return (
            _all(devices, [r.value for r in resolver.returns(target)], steps) if isinstance(target, FUNCTIONS) else None
        )
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    bindings = resolver.bindings(node) if isinstance(node, ast.Name) else devices.attribute_bindings(node)
    values: list[ast.expr | None] = []
    for binding in bindings:
        if binding.how is How.PARAMETER:
            values += resolver.handed(binding, devices.runs) or [None]
        else:
            values.append(binding.value if binding.how is How.ASSIGN and not binding.path else None)
    return _all(devices, values, steps)


def _all(devices: Devices, nodes: list[ast.expr | None], steps: int) -> Names | None:
    found = [names(devices, node, steps + 1) for node in nodes]
    known = [one for one in found if one is not None]
    return frozenset().union(*known) if known and len(known) == len(found) else None
