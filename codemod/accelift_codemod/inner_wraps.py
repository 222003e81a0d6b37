"""DataParallel around a part of a network: its state dicts have the wrapper in their keys."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.plan import Edit, Operation
from accelift_codemod.reasons import refuse

_OTHERS = frozenset({Role.OPTIMIZER, Role.SCHEDULER, Role.SCALER})
_STATES = ("state_dict", "load_state_dict")


def is_inner(draft: Draft, call: ast.Call) -> bool:
    """Whether a wrapper becomes a part of a network: in a class of networks, as an attribute, or in a call that makes
    a network of it."""
    resolver, index = draft.facts.resolver, draft.facts.index
    owner = index.enclosing_class(call)
    if owner is not None and resolver.class_role(owner) is Role.MODEL:
        return True
    for parent in index.ancestors(call):
        if isinstance(parent, ast.stmt):
            target = _target(parent)
            return target is not None and bool(draft.facts.objects.models(target.value))
        if isinstance(parent, ast.Call) and draft.facts.objects.models(parent):
            if any(call in {*ast.walk(a)} for a in (*parent.args, *parent.keywords)):
                return True
    return False


def attribute(draft: Draft, call: ast.Call) -> str:
    """The attribute of the network that a wrapper is put into; empty if it is none."""
    target = _target(draft.facts.index.statement(call))
    return target.attr if target is not None else ""


def _target(statement: ast.AST) -> ast.Attribute | None:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return targets[0] if len(targets) == 1 and isinstance(targets[0], ast.Attribute) else None


def checkpointed(draft: Draft) -> bool:
    """Whether the script takes or loads state dicts of networks, or saves a network whole."""
    for call in draft.calls:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in _STATES:
            if not draft.facts.resolver.roles(func.value) & _OTHERS:
                return True
        elif draft.facts.resolver.qualified(func) == "torch.save":
            if draft.facts.objects.models(draft.facts.resolver.argument(call, 0, "obj")):
                return True
    return False


def bare_reads(draft: Draft, rule: str, inner: list[ast.Call]) -> Iterator[Edit]:
    """`network.features.module` is `network.features` itself."""
    index = draft.facts.index
    for name in dict.fromkeys(filter(None, (attribute(draft, call) for call in inner))):
        reads = [
            r
            for r in index.attributes.get("module", [])
            if isinstance(r.value, ast.Attribute) and r.value.attr == name and isinstance(r.ctx, ast.Load)
        ]
        owners = {_owner(draft, b.node) for b in index.attribute_bindings.get(name, [])}
        for read in reads:
            if len(owners) > 1 or _owner(draft, read.value) not in owners:
                raise refuse(
                    "CLASH",
                    read.lineno,
                    f"`{draft.facts.segment(read)}` may be of a wrapper that is taken out, or of something else",
                    "take the wrapper out of the network first",
                )
            yield draft.edit(rule, read, Operation.RECEIVER, "there is no wrapper around it")


def _owner(draft: Draft, node: ast.AST) -> ast.AST | None:
    """The class of the object whose attribute is read or set, if it is one of the script."""
    if not isinstance(node, ast.Attribute):
        return None
    values = draft.facts.resolver.values(node.value)
    declarations = {v.declaration for v in values if v.declaration is not None}
    if len(declarations) == 1:
        return declarations.pop()
    around = draft.facts.index.enclosing_class(node)
    itself = isinstance(node.value, ast.Name) and node.value.id == "self"
    return around if itself else None
