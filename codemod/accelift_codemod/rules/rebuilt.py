"""Models that are given other layers after they were prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Value, position
from accelift_codemod.facts.tree import is_constant
from accelift_codemod.networks.given_layers import Change, changes, same
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

# What runs what is in it.
_SURE = (ast.With, ast.Assign, ast.Expr, ast.Call, ast.Attribute, ast.BinOp, ast.keyword, ast.Tuple)


class Rebuilt(Rule):
    """Reports layers and parameters that a prepared model is given, by itself or by a method that is called on it.

    What averages the gradients of a model across processes knows the parameters that it had when it was prepared, and
    those that an optimizer has when that is prepared. Newer ones may keep gradients of their own on each process, and
    have weights of their own unless a seed was set: the processes drift apart, and nothing says so. A model that grows
    with its tasks has to be made and prepared anew, or get a new optimizer.
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
        for change in changes(draft):
            once = _is_once(draft, change.node) and _has_run(draft, change.model)
            if not once and _late(draft, change.place, change.model) and not _is_covered(draft, change):
                found[change.place] = None
        for place in sorted(found, key=position):
            yield draft.finding(
                "MODEL-CHANGED",
                Severity.WARNING,
                place,
                "the model is given other layers after it was prepared: on several processes the gradients of new "
                "parameters may not be averaged, and the processes drift apart",
                "change the model before it is prepared, or make a new one here and prepare that",
            )


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
    none = is_constant(test.comparators[0], None)
    cls = draft.facts.index.enclosing_class(node)
    stores = [n for n in draft.facts.index.attributes.get(test.left.attr, []) if isinstance(n.ctx, ast.Store)]
    stores = [n for n in stores if draft.facts.index.enclosing_class(n) in (cls, None)]
    homes = {f.name if (f := draft.function(n)) is not None else "" for n in stores}
    return none and len(test.ops) == 1 and same(test.left, node.targets[0]) and homes <= {"__init__", "forward"}


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


def _is_covered(draft: Draft, change: Change) -> bool:
    """Whether what a model is given is there when its optimizers are made, which see to new parameters then."""
    group = draft.blueprint.group(change.model)
    home = draft.function(group.anchor) if group is not None else None
    optimizers = [o for o in draft.facts.objects.optimizers if change.model in o.models]
    places = draft.blueprint.timeline.places(change.place, home)
    return bool(optimizers and places) and all(
        draft.blueprint.is_prepared(o.value)
        and draft.function(o.call) is home
        and all(position(place) < position(o.call) for place in places)
        for o in optimizers
    )


def _around(draft: Draft, node: ast.AST) -> set[ast.AST]:
    """The loops around a node, itself among them."""
    return {node, *draft.facts.index.enclosing_loops(node)}
