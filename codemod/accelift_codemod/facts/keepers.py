"""Classes that do not train, and whose objects keep what does: loaders, an optimizer or networks; or save networks."""

from __future__ import annotations

import ast

from accelift_codemod.facts.classes import Classes
from accelift_codemod.facts.index import Function, How, Index
from accelift_codemod.facts.made import made
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import targets, unmoved, walk
from accelift_codemod.facts.values import Role

_KEPT = frozenset({Role.LOADER, Role.MODEL, Role.OPTIMIZER})
_PARAMETERS = frozenset({"parameters", "named_parameters"})


def keepers(index: Index) -> set[ast.ClassDef]:
    """The classes whose methods make a DataLoader that their object keeps, or have one made by a function, step an
    optimizer that it has, or save something, or give a network the state of another; of those that are no networks or
    datasets themselves, also those that make a network or an optimizer that they keep, or run what they were given, or
    ask it for parameters, and those that others ask for an optimizer they were given: `state.optimizer.step()`."""
    names = Classes(index, {}, {})
    found = {cls for cls in _asked(index) if names.class_role(cls) is None}
    for call in index.calls:
        function = index.function(call)
        cls = index.enclosing_class(call) if function is not None else None
        if cls is None or cls in found:
            continue
        steps = isinstance(call.func, ast.Attribute) and call.func.attr == "step" and _is_kept(call.func.value)
        kept = made(call, names) & _KEPT if _keeps(index, call, function) else frozenset()
        plain = (bool(kept) or _runs(index, call, cls)) and names.class_role(cls) is None
        if steps or _saves(call, names) or Role.LOADER in kept or plain:
            found.add(cls)
    return found


def _asked(index: Index) -> set[ast.ClassDef]:
    """The classes whose objects keep what their constructor is given, and are asked for it to step it elsewhere."""
    found = set[ast.ClassDef]()
    for binding in (b for name in stepped(index) for b in index.attribute_bindings.get(name, ())):
        cls = index.enclosing_class(binding.node)
        if cls is not None and _is_parameter(binding.value, index):
            found.add(cls)
    return found


def stepped(index: Index) -> set[str]:
    """The attributes of objects that are stepped: `state.optimizer.step()`."""
    steps = (c.func.value for c in index.methods.get("step", ()) if isinstance(c.func, ast.Attribute))
    return {node.attr for node in steps if isinstance(node, ast.Attribute)}


def _runs(index: Index, call: ast.Call, cls: ast.ClassDef) -> bool:
    """Whether what an object was given is called, as a network is (`self.model(x)`), or asked for what networks have:
    `self.model.named_parameters()`."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in _PARAMETERS:
        func = func.value
    kept_in = index.set_in(cls, func.attr) if isinstance(func, ast.Attribute) else []
    return any(_is_parameter(binding.value, index) for binding in kept_in)


def _is_parameter(node: ast.expr | None, index: Index) -> bool:
    """Whether an expression is what a function is handed, or moves that: `model.to(device)`."""
    name = unmoved(node)
    if not isinstance(name, ast.Name):
        return False
    owner = index.scope(name).owner(name.id)
    return owner is not None and any(b.how is How.PARAMETER for b in owner.bindings[name.id])


def _saves(call: ast.Call, names: Classes) -> bool:
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
    names = {t.id for t in targets(statement) if isinstance(t, ast.Name)}
    if any(map(_is_kept, targets(statement))):
        return True
    copies = _copies(index, function)
    return any(name in copies for name in names)


@kept
def _copies(_: Index, function: Function) -> frozenset[str]:
    """The variables that a function copies to where an object keeps them."""
    assigned = (s for s in walk(function) if isinstance(s, ast.Assign) and any(map(_is_kept, s.targets)))
    return frozenset(name for s in assigned for name in _read(s.value))


def _read(node: ast.expr) -> set[str]:
    """The variables that an assignment copies."""
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _is_kept(target: ast.expr) -> bool:
    """Whether an expression is kept in an object: `self.loader`, `self.train, self.test`, `self.loaders["train"]`."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(map(_is_kept, target.elts))
    return isinstance(target, ast.Attribute) or (isinstance(target, ast.Subscript) and _is_kept(target.value))
