"""A device whose choice cannot be read is asked for right after it: `Accelerator(cpu=device.type == "cpu")`.

The script's own statements say then, while it runs, whether it means the CPU: what a file of settings holds, say.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.borrowed import Known, known
from accelift_codemod.facts import Role
from accelift_codemod.facts.conditions import Condition
from accelift_codemod.facts.device_variables import DeviceVariable, is_none
from accelift_codemod.facts.gpu_numbers import plain
from accelift_codemod.facts.index import Binding, How
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.reach.home import Home


def question(home: Home) -> Condition | None:
    """What tells, right after the script has chosen its device, whether that is the CPU; None if that is no way."""
    variable = home.variable
    if variable is None or home.evaluable(variable.cpu, home.home) or home.facts.processes.managed:
        return None
    target = variable.bindings[0].node
    if not isinstance(target, (ast.Name, ast.Attribute)) or not (_is_plain(home, variable) and _is_alone(home)):
        return None
    if all(_is_object(home, binding) for binding in variable.bindings):
        return home.facts.devices.conditions.atom(target, '.type == "cpu"')
    if known(home.draft, target, "torch") is not Known.HERE:
        return None
    text = f'torch.device({variable.text}).type == "cpu"'
    return Condition("atom", key=text, text=text, node=target)


def _is_plain(home: Home, variable: DeviceVariable) -> bool:
    """Whether a variable is set once, by statements that nothing reads it in, and not to what a function is given."""
    index = home.index
    statements = variable.statements
    if isinstance(index.parents.get(statements[0]), ast.ClassDef) or index.enclosing_loops(statements[0]):
        return False
    if variable.scope is not None:
        bound = [b for b in variable.scope.bindings[variable.name] if not is_none(b)]
        if len(bound) > len(variable.bindings):
            return False  # it is another device at other times
    values = [binding.value if binding.path else plain(binding) for binding in variable.bindings]
    given = [b for v in values if isinstance(v, ast.Name) for b in home.resolver.bindings(v)]
    if None in values or any(b.how is How.PARAMETER for b in given):
        return False
    choosing = [n for s in statements for n in walk(s) if isinstance(n, (ast.If, ast.IfExp))]
    asked = {n for part in (*values, *(c.test for c in choosing)) for n in walk(part)}  # type: ignore[arg-type]
    spelled = ast.dump(variable.bindings[0].node).replace("Store()", "Load()")
    return all(n in asked or ast.dump(n) != spelled for s in statements for n in walk(s) if _reads(n))


def _reads(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)


def _is_alone(home: Home) -> bool:
    """Whether the script chooses its device in this one place: what other variables hold is handed on from there."""
    others = (v for v in home.facts.devices.variables if v is not home.variable and home.facts.runs(v.statements[0]))
    others = (v for v in others if not is_part(home, v))
    return all(isinstance(b.value, (ast.Name, ast.Attribute)) for v in others for b in v.bindings)


def is_part(home: Home, other: DeviceVariable) -> bool:
    """Whether a variable is one of a function that only the statements which choose the device run: a part of that."""
    function = home.index.function(other.statements[0])
    if home.variable is None or function is None:
        return False
    choosing = {n for s in home.variable.statements for n in walk(s)}
    called = {f for s in home.variable.statements for f in home.timeline.calls_into(s)}
    return function in called and all(
        site in choosing or home.index.function(site) in called for site in home.resolver.sites(function)
    )


def _is_object(home: Home, binding: Binding) -> bool:
    """Whether a binding gives a torch.device, and no string."""
    values = home.resolver.bound(binding)
    return bool(values) and all(v.role is Role.DEVICE for v in values)
