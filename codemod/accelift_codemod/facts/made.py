"""What a call makes: an object of a class or of a library, or what a function of the script makes and returns."""

from __future__ import annotations

import ast

from accelift_codemod.facts.classes import Classes
from accelift_codemod.facts.index import FUNCTIONS, Function, How, Index
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import own_nodes
from accelift_codemod.facts.values import Role


def made(call: ast.Call, names: Classes) -> set[Role]:
    """The roles of what a call makes; `self.build()` and `build()` make what their returns are made by."""
    found = set[Role]()
    calls, seen = [call], set[ast.AST]()
    for current in calls:  # it grows meanwhile
        maker = _maker(current, names)
        if maker is None:
            found |= _role(current, names)
        elif maker not in seen:
            seen.add(maker)
            calls += _returned(names.index, maker)
    return found


def _role(call: ast.Call, names: Classes) -> set[Role]:
    """What a call of a class or of a library's function makes."""
    bound = names.bindings(call.func) if isinstance(call.func, ast.Name) else []
    cls = bound[0].node if len(bound) == 1 and bound[0].how is How.CLASS else None
    role = names.class_role(cls) if cls is not None else names.library_role(names.qualified(call.func) or "")
    return {role} if role is not None else set()


def _maker(call: ast.Call, names: Classes) -> Function | None:
    """The function of the script that a call runs, or the method of the object around it: `self.build()`."""
    func = call.func
    if isinstance(func, ast.Name):
        bound = names.bindings(func)
        return bound[0].node if len(bound) == 1 and isinstance(bound[0].node, FUNCTIONS) else None
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name):
        return None
    around = names.index.function(call)
    parameters = around.args.posonlyargs + around.args.args if around is not None else []
    if not parameters or parameters[0].arg != func.value.id:
        return None
    return names.method(names.index.enclosing_class(call), func.attr)


@kept
def _returned(_: Index, function: Function) -> list[ast.Call]:
    """The calls whose results a function returns, by itself, in a tuple or by a variable."""
    nodes = list(own_nodes(*function.body))
    values = [part for node in nodes if isinstance(node, ast.Return) and node.value for part in _parts(node.value)]
    names = {value.id for value in values if isinstance(value, ast.Name)}
    assigned = (
        part
        for node in nodes
        if isinstance(node, ast.Assign) and names & {t.id for one in node.targets for t in _names(one)}
        for part in _parts(node.value)
    )
    return [value for value in (*values, *assigned) if isinstance(value, ast.Call)]


def _parts(node: ast.expr) -> list[ast.expr]:
    """What is returned or assigned together."""
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]


def _names(target: ast.expr) -> list[ast.Name]:
    """The variables that an assignment binds."""
    return [part for part in _parts(target) if isinstance(part, ast.Name)]
