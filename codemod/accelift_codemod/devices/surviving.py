"""Variables with the device that the script chose: which are still read, and which are given the accelerator's."""

from __future__ import annotations

import ast

from accelift_codemod.devices.besides import kept_calls
from accelift_codemod.devices.returned import is_given_back, is_late
from accelift_codemod.draft import Draft
from accelift_codemod.facts import position
from accelift_codemod.facts.conditions import FALSE
from accelift_codemod.facts.device_variables import DeviceVariable
from accelift_codemod.facts.index import MARK, How
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import walk


def survives(draft: Draft, variable: DeviceVariable) -> bool:
    """Whether something still reads the variable."""
    taken = variable.scope is not None and variable.scope.is_module and variable.name in draft.facts.wanted
    if taken:
        return True  # other scripts may
    if is_imported(draft, variable) and is_spelled(draft, variable.name):
        return True
    if variable.scope is None or isinstance(variable.scope.node, ast.ClassDef):
        if variable.scope is None or variable.scope.node not in draft.facts.resolver.followed:
            return True  # an attribute may be read anywhere
        attributes = draft.facts.index.attributes.get(variable.name.rpartition(".")[2], [])
        values = (v for a in attributes for v in draft.facts.resolver.values(a.value))
        if any(v.declaration is variable.scope.node for v in values):
            return True  # read outside the class
    inside = {n for s in variable.statements for n in walk(s)}
    loads = (n for n in draft.facts.loads(variable.scope, variable.name) if n not in inside and not draft.gone(n))
    return any(not _only_hands_on(draft, load, variable) for load in loads)


def is_spelled(draft: Draft, name: str) -> bool:
    """Whether a text has the name of a global, by which others may get it: `__all__`, `getattr(config, "device")`."""
    return name.rpartition(MARK)[2] in _spelled(draft, None)


@kept
def _spelled(draft: Draft, _: None) -> frozenset[object]:
    index = draft.facts.index
    listed = (b.value for name, bound in index.module.bindings.items() if name.endswith("__all__") for b in bound)
    parts = [n for value in listed if value is not None for n in walk(value)]
    parts += [a for c in index.calls if draft.facts.resolver.builtin(c.func) == "getattr" for a in c.args[1:2]]
    return frozenset(n.value for n in parts if isinstance(n, ast.Constant))


def _only_hands_on(draft: Draft, load: ast.Name, variable: DeviceVariable) -> bool:
    """Whether what reads a variable is a statement that goes, too: `self.device = device`, if nothing reads that."""
    statement = draft.facts.index.statement(load)
    kept = (v for v in draft.facts.devices.variables if v.scope is not None and v.scope.is_class)
    others = (v for v in kept if v.whole and statement in v.statements)
    other = next((v for v in others if position(v.statements[0]) > position(variable.statements[0])), None)
    if other is None or is_handed_in(draft, other) or not is_rebound(draft, other):
        return False
    return not (is_given_back(draft, other) or kept_calls(draft, other) or survives(draft, other))


def is_fixed(draft: Draft, variable: DeviceVariable) -> bool:
    """Whether a variable is a GPU even where the script means the CPU."""
    return variable.cpu == FALSE and draft.reach.cpu.constant is None


def is_rebound(draft: Draft, variable: DeviceVariable) -> bool:
    """Whether a further variable is given the device of the accelerator, which is there before."""
    return not is_fixed(draft, variable) and is_late(draft, variable.statements[0])


def is_handed_in(draft: Draft, variable: DeviceVariable) -> bool:
    """Whether a variable holds what a function is given, `self.device = device`: a device variable that is dealt
    with where it is made, or another device with each call."""
    resolver = draft.facts.resolver
    values = [b.value for b in variable.bindings]
    bindings = [b for v in values if isinstance(v, ast.Name) for b in resolver.bindings(v)]
    if not all(isinstance(v, ast.Name) for v in values) or any(b.how is not How.PARAMETER for b in bindings):
        return False
    given = [a for b in bindings for a in resolver.handed(b)]
    return variable.cpu is None or (variable.scope is None and all(_is_variable(draft, a) for a in given))


def _is_variable(draft: Draft, node: ast.expr | None) -> bool:
    """Whether an expression reads a device variable."""
    owner = draft.facts.index.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
    return owner is not None and any(
        v.scope is owner and v.name == node.id for v in draft.facts.devices.variables if isinstance(node, ast.Name)
    )


def is_imported(draft: Draft, variable: DeviceVariable) -> bool:
    """Whether a device is chosen when a file is imported: before the accelerator is made."""
    statement = variable.statements[0]
    return draft.function(statement) is None and not draft.facts.same_file(statement, draft.facts.tree.body[-1])
