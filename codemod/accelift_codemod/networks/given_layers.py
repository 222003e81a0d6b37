"""What gives models layers, parameters or buffers that they were not made with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Function, How, Role, Value
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.touching import Touching
from accelift_codemod.facts.tree import children, targets, walk

# Methods of torch's modules that put what they are given into the module, and where that stands.
_TAKES = {
    "add_module": (1, "module"),
    "register_module": (1, "module"),
    "set_submodule": (1, "module"),
    "register_parameter": (1, "param"),
    "append": (0, "module"),
    "insert": (1, "module"),
    "extend": (0, "modules"),
    "update": (0, "modules"),
}
# Methods of models of libraries, and functions, that make new parameters in the model.
_MAKES = frozenset({"add_adapter", "load_adapter", "resize_token_embeddings", "reset_classifier"})
_REBUILDS = frozenset(
    """
    peft.get_peft_model peft.inject_adapter_in_model torch.nn.utils.weight_norm
    torch.nn.utils.parametrizations.weight_norm
    """.split()
)
_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_EMPTY = ("Identity", "Dropout", "ReLU", "GELU", "Flatten", "Sigmoid", "Tanh", "Softmax", "MaxPool", "AvgPool")
_OF_MODULES = ("modules", "named_modules", "children", "named_children")
_OF_PARAMETERS = ("parameters", "named_parameters", "buffers", "named_buffers")
_SIZES = frozenset({"shape", "size", "numel", "dim", "ndim"})
_BUFFER = "register_buffer"
PLACES = (ast.Attribute, ast.Subscript)
_CHANGES = frozenset({ast.Assign, ast.AnnAssign, ast.Call})


@dataclass(frozen=True)
class Change:
    """Something by which a prepared model gets new layers, parameters or buffers."""

    node: ast.AST
    place: ast.AST  # the node, or the call of the method of a network that it stands in
    model: Value


def changes(draft: Draft) -> Iterator[Change]:
    """What gives prepared models layers and parameters, wherever that is."""
    for node in (n for n in walk(draft.facts.tree) if n.__class__ in _CHANGES):
        owner = _changed(draft, node)
        if owner is not None and draft.facts.runs(node):
            yield from (Change(node, place, model) for place, model in _places(draft, node, owner))


@kept
def gains(draft: Draft, model: Value) -> bool:
    """Whether something gives a prepared model layers, parameters or buffers, which need not be on its device."""
    if any(change.model == model for change in changes(draft)):
        return True
    for call in draft.facts.index.methods.get(_BUFFER, ()):
        owner = call.func.value  # type: ignore[attr-defined]
        if draft.facts.runs(call) and any(found == model for _, found in _places(draft, call, owner)):
            return True
    if any(found == model for node, owner in _replaced(draft) for _, found in _places(draft, node, owner)):
        return True
    touching = Touching(draft.facts.resolver)
    parts = (node for name in _OF_MODULES for node in draft.facts.index.attributes.get(name, ()))
    return any(
        model in draft.blueprint.prepared_part(node.value)[1] and touching.iterated(node)
        for node in parts
        if draft.facts.runs(node)
    )


def _replaced(draft: Draft) -> Iterator[tuple[ast.AST, ast.expr]]:
    """What gives parameters other numbers, `net.weight.data = torch.randn(3, 5)`, and what these are parts of: they may
    be somewhere else, unless they are computed from those that were there."""
    for read in draft.facts.index.attributes.get("data", ()):
        statement = draft.facts.index.parents.get(read)
        if not isinstance(statement, ast.Assign) or read not in statement.targets or not draft.facts.runs(statement):
            continue
        if not _is_of(statement.value, read.value):
            yield statement, _parameters_of(draft, read.value) or read.value


def _is_of(node: ast.expr, place: ast.expr) -> bool:
    """Whether an expression is computed from the tensor in a place: not only from its size."""
    sized = {part.value for part in walk(node) if isinstance(part, ast.Attribute) and part.attr in _SIZES}
    spelled = ast.unparse(place)
    same = (n for n in walk(node) if n.__class__ is place.__class__ and n not in sized)
    return any(ast.unparse(n) == spelled for n in same)


def _parameters_of(draft: Draft, node: ast.expr) -> ast.expr | None:
    """The network whose parameters a loop binds a variable to."""
    for binding in draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) else ():
        func = binding.value.func if isinstance(binding.value, ast.Call) else None
        if binding.how is How.LOOP and isinstance(func, ast.Attribute) and func.attr in _OF_PARAMETERS:
            return func.value
    return None


def _changed(draft: Draft, node: ast.AST) -> ast.expr | None:
    """What a node gives new layers: the network, or a part of it."""
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        target = targets(node)[0]
        if len(targets(node)) == 1 and isinstance(target, PLACES) and node.value is not None:
            own = _receiver(node.value)
            moved = own is not node.value and own is not None and same(own, target)
            return target.value if not moved and _trained(draft, node.value) else None
    if not isinstance(node, ast.Call):
        return None
    resolver = draft.facts.resolver
    if resolver.builtin(node.func) == "setattr" and len(node.args) == 3:
        return node.args[0] if _trained(draft, node.args[2]) else None
    if resolver.qualified(node.func) in _REBUILDS:
        return argument(node, 0, "module") or argument(node, 0, "model")
    if not isinstance(node.func, ast.Attribute) or resolver.callee(node) is not None:
        return None
    if node.func.attr in _MAKES:
        return node.func.value
    given = argument(node, *_TAKES[node.func.attr]) if node.func.attr in _TAKES else None
    return node.func.value if given is not None and _trained(draft, given) else None


def _trained(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is a layer or a parameter, or has some in it."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.ListComp)):
        return any(isinstance(e, ast.expr) and _trained(draft, e) for e in children(node))
    for value in draft.facts.resolver.values(node):
        kind = value.name.rpartition(".")[2]
        if value.role is Role.MODEL and not (value.declaration is None and kind.startswith(_EMPTY)):
            return True
        if value.name in _PARAMETERS:
            return True
    return False


def _places(draft: Draft, node: ast.AST, owner: ast.expr) -> Iterator[tuple[ast.AST, Value]]:
    """Where a prepared model is changed: the node, or the calls of the method of a network that it stands in."""
    root, models = draft.blueprint.prepared_part(owner)
    if models:
        yield from ((node, model) for model in models)
        return
    function = draft.function(node)
    if function is not None and isinstance(root, ast.Name) and _is_self(draft, root, function):
        yield from _calls(draft, function, {function})


def _calls(draft: Draft, method: Function, seen: set[ast.AST]) -> Iterator[tuple[ast.AST, Value]]:
    """The calls of a method of a network on a prepared model, or on a part of one, by other methods of it, too."""
    resolver = draft.facts.resolver
    for call in draft.calls:
        func = call.func
        if method.name == "forward" and (models := draft.blueprint.prepared_models(func)):
            yield from ((call, m) for m in models if resolver.method(m.declaration, "forward") is method)
        if not isinstance(func, ast.Attribute) or resolver.callee(call) is not method:
            continue
        root, models = draft.blueprint.prepared_part(func.value)
        yield from ((call, model) for model in models)
        outer = draft.function(call)
        if not models and outer is not None and outer not in seen and isinstance(root, ast.Name):
            if _is_self(draft, root, outer):
                yield from _calls(draft, outer, seen | {outer})


def _is_self(draft: Draft, name: ast.Name, function: Function) -> bool:
    """Whether a name is the object in a method of a network that is not its constructor."""
    first = [*function.args.posonlyargs, *function.args.args][:1]
    cls = draft.facts.index.parents.get(function)
    network = isinstance(cls, ast.ClassDef) and draft.facts.resolver.class_role(cls) is Role.MODEL
    return network and function.name != "__init__" and [name.id] == [p.arg for p in first]


def _receiver(node: ast.expr) -> ast.expr | None:
    """What methods are called on: `x` of `x.to(device).eval()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node


def same(left: ast.expr, right: ast.expr) -> bool:
    """Whether two expressions spell the same place."""
    return isinstance(left, PLACES) and isinstance(right, PLACES) and ast.unparse(left) == ast.unparse(right)
