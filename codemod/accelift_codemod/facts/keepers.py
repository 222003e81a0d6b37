"""Classes that do not train, and whose objects keep what does, loaders or an optimizer, or save or copy networks."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import Function, Index
from accelift_codemod.facts.library import role
from accelift_codemod.facts.names import Names
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role


def keepers(index: Index) -> set[ast.ClassDef]:
    """The classes whose methods make a DataLoader that their object keeps, step an optimizer that it has, or save
    something, or give a network the state of another."""
    names = Names(index)
    found = set[ast.ClassDef]()
    for call in index.calls:
        function = index.function(call)
        cls = index.enclosing_class(call) if function is not None else None
        if cls is None or cls in found:
            continue
        steps = isinstance(call.func, ast.Attribute) and call.func.attr == "step" and _is_kept(call.func.value)
        if (
            steps
            or _saves(call, names)
            or (role(names.qualified(call.func) or "") is Role.LOADER and _keeps(index, call, function))
        ):
            found.add(cls)
    return found


def _saves(call: ast.Call, names: Names) -> bool:
    """Whether a call saves something, or copies the state of a network: `ema.load_state_dict(model.state_dict())`."""
    if names.qualified(call.func) == "torch.save":
        return True
    given = call.args[0] if call.args else None
    copied = isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "state_dict"
    return copied and isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict"


def _keeps(index: Index, call: ast.Call, function: Function | None) -> bool:
    """Whether the object of a method keeps what a call makes: `self.loader = DataLoader(...)`, or by a variable."""
    statement = index.statement(call)
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or function is None:
        return False
    names = {t.id for t in _targets(statement) if isinstance(t, ast.Name)}
    assigned = [statement, *(s for s in walk(function) if isinstance(s, ast.Assign) and names & _read(s.value))]
    return any(_is_kept(target) for s in assigned for target in _targets(s))


def _read(node: ast.expr) -> set[str]:
    """The variables that an assignment copies."""
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _is_kept(target: ast.expr) -> bool:
    """Whether an expression is kept in an object: `self.loader`, `self.train, self.test`, `self.loaders["train"]`."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(map(_is_kept, target.elts))
    return isinstance(target, ast.Attribute) or (isinstance(target, ast.Subscript) and _is_kept(target.value))
