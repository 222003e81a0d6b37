"""Models that are given other layers after they were prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Function, Role, Value, position
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tree import children, walk
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

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
_PLACES = (ast.Attribute, ast.Subscript)
# What runs what is in it.
_SURE = (ast.With, ast.Assign, ast.Expr, ast.Call, ast.Attribute, ast.BinOp, ast.keyword, ast.Tuple)


class Rebuilt(Rule):
    """Reports layers and parameters that a prepared model is given, by itself or by a method that is called on it.

    What averages the gradients of a model across processes knows the parameters that it had when it was prepared. New
    ones may keep gradients of their own on each process, and have weights of their own unless a seed was set: the
    processes drift apart, and nothing says so. A model that grows with its tasks has to be made and prepared anew.
    """

    code = "REBUILT"
    name = "models that change after prepare"
    findings = (
        Explained(
            "MODEL-CHANGED",
            Severity.WARNING,
            "a prepared model is given other layers",
            "A model gets new layers or parameters after it was prepared, and is trained on. Their gradients may not "
            "be averaged across processes, which then drift apart. Change it before it is prepared, or make it anew "
            "and prepare that.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        found: dict[ast.AST, None] = {}
        for node in walk(draft.facts.tree):
            owner = self._changed(draft, node)
            if owner is not None and draft.facts.runs(node):
                once = _is_once(draft, node)
                for place, model in self._places(draft, node, owner):
                    if _late(draft, place, model) and not (once and _has_run(draft, model)):
                        found[place] = None
        for place in sorted(found, key=position):
            yield draft.finding(
                "MODEL-CHANGED",
                Severity.WARNING,
                place,
                "the model is given other layers after it was prepared: on several processes the gradients of new "
                "parameters may not be averaged, and the processes drift apart",
                "change the model before it is prepared, or make a new one here and prepare that",
            )

    def _changed(self, draft: Draft, node: ast.AST) -> ast.expr | None:
        """What a node gives new layers: the network, or a part of it."""
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            target = targets[0]
            if len(targets) == 1 and isinstance(target, _PLACES) and node.value is not None:
                own = _receiver(node.value)
                moved = own is not node.value and own is not None and _same(own, target)
                return target.value if not moved and self._trained(draft, node.value) else None
        if not isinstance(node, ast.Call):
            return None
        resolver = draft.facts.resolver
        if resolver.builtin(node.func) == "setattr" and len(node.args) == 3:
            return node.args[0] if self._trained(draft, node.args[2]) else None
        if resolver.qualified(node.func) in _REBUILDS:
            return argument(node, 0, "module") or argument(node, 0, "model")
        if not isinstance(node.func, ast.Attribute) or resolver.callee(node) is not None:
            return None
        if node.func.attr in _MAKES:
            return node.func.value
        given = argument(node, *_TAKES[node.func.attr]) if node.func.attr in _TAKES else None
        return node.func.value if given is not None and self._trained(draft, given) else None

    def _trained(self, draft: Draft, node: ast.expr) -> bool:
        """Whether an expression is a layer or a parameter, or has some in it."""
        if isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.ListComp)):
            return any(isinstance(e, ast.expr) and self._trained(draft, e) for e in children(node))
        for value in draft.facts.resolver.values(node):
            kind = value.name.rpartition(".")[2]
            if value.role is Role.MODEL and not (value.declaration is None and kind.startswith(_EMPTY)):
                return True
            if value.name in _PARAMETERS:
                return True
        return False

    def _places(self, draft: Draft, node: ast.AST, owner: ast.expr) -> Iterator[tuple[ast.AST, Value]]:
        """Where a prepared model is changed: the node, or the calls of the method of a network that it stands in."""
        root, models = draft.blueprint.prepared_part(owner)
        if models:
            yield from ((node, model) for model in models)
            return
        function = draft.function(node)
        if function is not None and isinstance(root, ast.Name) and _is_self(draft, root, function):
            yield from self._calls(draft, function, {function})

    def _calls(self, draft: Draft, method: Function, seen: set[ast.AST]) -> Iterator[tuple[ast.AST, Value]]:
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
                    yield from self._calls(draft, outer, seen | {outer})


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


def _same(left: ast.expr, right: ast.expr) -> bool:
    """Whether two expressions spell the same place."""
    return isinstance(left, _PLACES) and isinstance(right, _PLACES) and ast.unparse(left) == ast.unparse(right)


def _is_once(draft: Draft, node: ast.AST) -> bool:
    """Whether a network gives itself a layer in its forward pass only while it has none: `if self.head is None:`."""
    function, branch = draft.function(node), draft.facts.index.parents.get(node)
    if function is None or function.name != "forward" or not isinstance(branch, ast.If) or branch not in function.body:
        return False
    test = branch.test
    if not isinstance(node, ast.Assign) or node not in branch.body or not isinstance(test, ast.Compare):
        return False
    if not isinstance(test.ops[0], ast.Is) or not isinstance(test.left, ast.Attribute):
        return False
    none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
    cls = draft.facts.index.enclosing_class(node)
    stores = [n for n in draft.facts.index.attributes.get(test.left.attr, []) if isinstance(n.ctx, ast.Store)]
    stores = [n for n in stores if draft.facts.index.enclosing_class(n) in (cls, None)]
    homes = {f.name if (f := draft.function(n)) is not None else "" for n in stores}
    return none and len(test.ops) == 1 and _same(test.left, node.targets[0]) and homes <= {"__init__", "forward"}


def _has_run(draft: Draft, model: Value) -> bool:
    """Whether a forward pass has certainly been run before a model is prepared."""
    group = draft.blueprint.group(model)
    if group is None:
        return False
    home = draft.function(group.anchor)
    for call in draft.calls:
        if draft.function(call) is home and position(call) < position(group.anchor):
            around = [p for p in draft.facts.index.ancestors(call) if p is not home and not isinstance(p, ast.Module)]
            if set(draft.facts.objects.models(call.func)) == {model} and all(isinstance(p, _SURE) for p in around):
                return True
    return False


def _late(draft: Draft, node: ast.AST, model: Value) -> bool:
    """Whether a node may be evaluated after a model was prepared, and before it is trained on."""
    group = draft.blueprint.group(model)
    if group is None:
        return False
    timeline, home = draft.blueprint.timeline, draft.function(group.anchor)
    places = timeline.places(node, home)
    if not draft.blueprint.may_follow_prepare(node, model) and not any(position(p) > group.done for p in places):
        return False
    trained = [place for loop in draft.blueprint.train_loops for place in timeline.places(loop.node, home)]
    if not places or not trained:
        return True
    return any(
        position(loop) > position(place) or _around(draft, loop) & _around(draft, place)
        for loop in trained
        for place in places
    )


def _around(draft: Draft, node: ast.AST) -> set[ast.AST]:
    """The loops around a node, itself among them."""
    return {node, *draft.facts.index.enclosing_loops(node)}
