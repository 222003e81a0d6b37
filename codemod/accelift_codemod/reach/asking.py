"""A device whose choice cannot be read is asked for right after it: `Accelerator(cpu=device.type == "cpu")`.

The script's own statements say then, while it runs, whether it means the CPU: what a file of settings holds, say.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts import Role
from accelift_codemod.facts.conditions import Condition
from accelift_codemod.facts.device_variables import DeviceVariable
from accelift_codemod.facts.gpu_numbers import plain
from accelift_codemod.facts.index import Binding, How
from accelift_codemod.facts.names import is_placeholder
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.uses import reads
from accelift_codemod.inserted.modules import Known, known
from accelift_codemod.reach import changing

if TYPE_CHECKING:
    from accelift_codemod.reach.home import Home


def question(home: Home) -> Condition | None:
    """What tells, right after the script has chosen its device, whether that is the CPU; None if that is no way."""
    variable = home.variable
    known_before = home.evaluable(variable.cpu, home.home) if variable is not None else False
    if variable is None or home.facts.processes.managed or (known_before and not of_file(home, variable.cpu)):
        return None
    target = variable.bindings[0].node
    if not isinstance(target, (ast.Name, ast.Attribute)) or not (_is_plain(home, variable) and _is_alone(home)):
        return None
    if all(_is_object(home, binding) for binding in variable.bindings):
        return home.facts.devices.conditions.atom(target, '.type == "cpu"')
    return _spelled_out(home, variable.text, target)


def of_file(home: Home, condition: Condition | None) -> bool:
    """Whether a condition asks what a file of settings holds: it may be the name of a device, or its number."""
    asked = condition.atoms() if condition is not None else []
    return any(map(home.facts.devices.settings.says_where, asked))


def handed_over(home: Home) -> Condition | None:
    """The same of a device that a function has put into an object which it gives back: `args = get_args()`."""
    devices = home.facts.devices
    variables = [v for v in devices.variables if home.facts.runs(v.statements[0])]
    target = variables[0].bindings[0].node if len(variables) == 1 else None
    if home.facts.processes.managed or not isinstance(target, ast.Attribute) or not _is_plain(home, variables[0]):
        return None
    if len(home.index.attribute_bindings[target.attr]) != len(variables[0].bindings):
        return None  # it is set elsewhere, too
    said = home.facts.command_line.word(target)
    if said is not None and devices.numbers.is_numbered(said):
        return None  # that one GPU would stay in it
    held = _given_back(home, target)
    if held is None:
        return None
    text = f"{held.id}.{target.attr}"
    if all(_is_object(home, binding) for binding in variables[0].bindings):
        asked = f'{text}.type == "cpu"'
        condition: Condition | None = Condition("atom", key=asked, text=asked, node=held)
    else:
        condition = _spelled_out(home, text, held)
    own = {n for s in variables[0].statements for n in walk(s)}
    told = Condition("atom", key=text, text=text, node=held)
    return condition if own.issuperset(changing.setters(home, told)) else None


def _given_back(home: Home, target: ast.Attribute) -> ast.Name | None:
    """A read, where the accelerator is made, of the one variable to which a function gives back the object whose
    attribute it sets."""
    index, resolver, root = home.index, home.resolver, target.value
    function = index.function(target)
    if function is None or function is home.home or not isinstance(root, ast.Name):
        return None
    returned = [r.value for r in resolver.returns(function)]
    if not returned or not all(isinstance(r, ast.Name) and r.id == root.id for r in returned):
        return None
    sites, bound = resolver.sites(function), index.scopes[function].bindings[root.id]
    name = _kept(home, sites[0]) if len(sites) == 1 and len(bound) == 1 else ""
    scope = index.scopes[home.home] if home.home is not None else index.module
    if not name or len(scope.bindings[name]) != 1:
        return None
    loads = reads(index, scope, name)
    return next((n for n in loads if isinstance(n, ast.Name) and index.function(n) is home.home), None)


def _kept(home: Home, call: ast.Call) -> str:
    """The variable, where the accelerator is made, to which a call gives what it returns, or as which that is handed
    there: `args = get_args()`, `main(get_args())`; empty if it is none."""
    index, outer = home.index, home.index.parents[call]
    if isinstance(outer, ast.Assign) and outer.value is call and index.function(call) is home.home:
        target = outer.targets[0] if len(outer.targets) == 1 else None
        return target.id if isinstance(target, ast.Name) else ""
    run = index.parents[outer] if isinstance(outer, ast.keyword) else outer
    if home.home is None or not isinstance(run, ast.Call) or home.resolver.sites(home.home) != [run]:
        return ""
    given = home.resolver.bind(run, home.home) or {}
    return next((name for name, argument in given.items() if argument is call), "")


def _spelled_out(home: Home, device: str, node: ast.expr) -> Condition | None:
    """The question whether a device that may be a string is the CPU."""
    if known(home.draft, node, "torch") is not Known.HERE:
        return None
    text = f'torch.device({device}).type == "cpu"'
    return Condition("atom", key=text, text=text, node=node)


def _is_plain(home: Home, variable: DeviceVariable) -> bool:
    """Whether a variable is set once, by statements that nothing reads it in, and not to what a function is given."""
    index = home.index
    statements = variable.statements
    if isinstance(index.parents.get(statements[0]), ast.ClassDef) or index.enclosing_loops(statements[0]):
        return False
    if variable.scope is not None:
        bound = [b for b in variable.scope.bindings[variable.name] if not is_placeholder(b)]
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
