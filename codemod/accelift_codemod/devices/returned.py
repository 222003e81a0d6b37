"""Devices that functions of the script return which have that of the accelerator in a variable of their own."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import position
from accelift_codemod.facts.device_variables import DeviceVariable
from accelift_codemod.facts.index import FUNCTIONS, Binding
from accelift_codemod.reach import asking


def is_late(draft: Draft, statement: ast.stmt) -> bool:
    """Whether a statement runs once there is the accelerator, where it is at hand."""
    reach = draft.reach
    moments = draft.blueprint.timeline.moments(statement, reach.home)
    made = position(reach.block[reach.place])
    late = min(moments) >= made if moments else draft.blueprint.timeline.follows(statement, reach.home)
    return late and reach.sees(draft.function(statement))


def is_given_back(draft: Draft, variable: DeviceVariable) -> bool:
    """Whether a variable holds what such a function returns: `self.device = self.choose_device()` stays."""
    return all(
        inner is not None
        and not asking.is_part(draft.reach, inner)  # which stays as it is
        and (inner is draft.reach.variable or is_late(draft, inner.statements[0]))
        for binding in variable.bindings
        for inner in _origins(draft, binding)
    )


def _origins(draft: Draft, binding: Binding) -> list[DeviceVariable | None]:
    """The variables of a function that the device in a binding comes from; None where it may come from elsewhere."""
    function = draft.facts.resolver.callee(binding.value) if isinstance(binding.value, ast.Call) else None
    returned = [r.value for r in draft.facts.resolver.returns(function)] if isinstance(function, FUNCTIONS) else []
    return [_variable(draft, value, binding) for value in returned] or [None]


def _variable(draft: Draft, value: ast.expr | None, binding: Binding) -> DeviceVariable | None:
    """The device variable that a function returns, perhaps as one of several things."""
    for place in binding.path:
        value = value.elts[place] if isinstance(value, ast.Tuple) and isinstance(place, int) else None
    if not isinstance(value, ast.Name):
        return None
    owner = draft.facts.index.scope(value).owner(value.id)
    own = (v for v in draft.facts.devices.variables if v.scope is owner and v.name == value.id)
    return next(own, None)
