"""What training takes its samples from and steps with, and what changes that while it trains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, Scope
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import targets, walk

IN_PLACE = re.compile(r"[a-z]\w*[a-z0-9]_")
# What trains otherwise once it is told a number.
_STEERED = frozenset({Role.OPTIMIZER, Role.SCHEDULER, Role.LOADER, Role.DATASET})
_STEPS = frozenset({Role.OPTIMIZER, Role.SCHEDULER})
_DRAWN = frozenset({"dataset", "sampler", "batch_sampler"})
_LIBRARY = "torch.utils.data."
_OF_OPTIMIZERS = frozenset({"state", "param_groups"})
_METHODS = frozenset(
    "append extend insert remove pop popitem clear update setdefault sort reverse fill add_param_group".split()
)
_SHUFFLES = frozenset({"random.shuffle", "numpy.random.shuffle"})
_MASKS = frozenset(
    f"torch.nn.utils.{name}"
    for name in "vector_to_parameters prune.identity prune.random_unstructured prune.l1_unstructured "
    "prune.random_structured prune.ln_structured prune.global_unstructured prune.custom_from_mask prune.remove".split()
)


def feeds(draft: Draft, node: ast.expr) -> bool:
    """Whether an object is an optimizer, a schedule, a loader, or what a loader draws from or by."""
    values = draft.facts.resolver.values(node)
    if any(value.role in _STEERED for value in values):
        return True
    if any(draft.facts.resolver.class_role(value.declaration) in _STEERED for value in values):
        return True  # in a data set of the script, too
    variable = (draft.facts.index.scope(node).owner(node.id), node.id) if isinstance(node, ast.Name) else None
    if variable in _taken(draft, draft.facts.tree):
        return True
    given = (a for arguments in _given(draft) for a in arguments.values())
    origins = {v.origin for v in values if v.role is Role.OBJECT}
    return bool(origins) and any(v.origin in origins for a in given for v in draft.facts.resolver.values(a))


def _given(draft: Draft) -> Iterator[Mapping[str, ast.expr | None]]:
    """What loaders are given."""
    loaders = {loader for loop in draft.facts.loops.batch_loops for loader in loop.loaders}
    return (draft.facts.objects.loader(loader).arguments for loader in loaders)


@kept
def _taken(draft: Draft, _: ast.AST) -> set[tuple[Scope | None, str]]:
    """The variables with what loaders draw from or by, also as torch's data sets and samplers are made of it:
    `DataLoader(data, sampler=order)`, `Subset(data, order)`, `TensorDataset(x, y)`."""
    found: set[tuple[Scope | None, str]] = set()
    queue = [a for arguments in _given(draft) for name, a in arguments.items() if name in _DRAWN]
    for part in queue:  # grows as it is gone through
        if isinstance(part, ast.Name):
            variable = (draft.facts.index.scope(part).owner(part.id), part.id)
            made = draft.facts.resolver.set_once(part) if variable not in found else None
            found.add(variable)
            queue += [made] if isinstance(made, ast.Call) else []
        elif isinstance(part, ast.Call) and (draft.facts.resolver.qualified(part.func) or "").startswith(_LIBRARY):
            queue += part.args
    return found


def sets_source(draft: Draft, node: ast.AST) -> bool:
    """Whether a statement sets what a data set, or what a loader draws by, asks itself for: `data.noise = 0.1`."""
    if not isinstance(node, (ast.Assign, ast.AugAssign)):
        return False
    set_here = [target for target in targets(node) if isinstance(target, ast.Attribute)]
    return any(sets_asked(draft, t) and not draft.facts.resolver.roles(t.value) & _STEPS for t in set_here)


def sets_asked(draft: Draft, target: ast.Attribute) -> bool:
    """Whether what is set is an attribute that such an object asks itself for, as far as its class is known."""
    if not feeds(draft, target.value):
        return False
    values = draft.facts.resolver.values(target.value)
    classes = [v.declaration for v in values]
    known = bool(classes) and all(isinstance(cls, ast.ClassDef) for cls in classes)
    lines = (cls for of in classes for cls in draft.facts.resolver.ancestry(of)) if known else ()
    bodies = [m for cls in lines for m in cls.body if isinstance(m, FUNCTIONS) and m.name != "__init__"]
    reads = (n for m in bodies for n in walk(m) if isinstance(n, ast.Attribute) and n.attr == target.attr)
    return not known or any(isinstance(n.ctx, ast.Load) for n in reads)


def changes_source(draft: Draft, node: ast.AST) -> bool:
    """Whether a node changes something in place that training takes its samples from, what an optimizer has of earlier
    steps, or which weights there are: `data.tensors[0].mul_(2)`, `random.shuffle(order)`, `optimizer.state.clear()`,
    `prune.l1_unstructured(net.fc, "weight", 0.2)`."""
    if isinstance(node, ast.Call) and draft.facts.resolver.qualified(node.func) in _MASKS:
        return True
    return any(_is_of_source(draft, place) for place in _changed(draft, node))


def _changed(draft: Draft, node: ast.AST) -> Iterator[ast.expr]:
    """What a node changes in place, as it is spelled."""
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.Delete)):
        places = node.targets if isinstance(node, ast.Delete) else targets(node)
        yield from (place.value for place in places if isinstance(place, ast.Subscript))
    elif isinstance(node, ast.Call) and draft.facts.resolver.qualified(node.func) in _SHUFFLES:
        yield from node.args[:1]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        changes = node.func.attr in _METHODS or IN_PLACE.fullmatch(node.func.attr)
        if changes and draft.facts.resolver.callee(node) is None:
            yield node.func if node.func.attr == "add_param_group" else node.func.value


def _is_of_source(draft: Draft, place: ast.expr) -> bool:
    while isinstance(place, (ast.Attribute, ast.Subscript)):
        if isinstance(place, ast.Attribute):
            if draft.facts.resolver.roles(place.value) & _STEPS:
                return place.attr in _OF_OPTIMIZERS or place.attr == "add_param_group"
            if sets_asked(draft, place):
                return True
        place = place.value
    return isinstance(place, ast.Name) and not draft.facts.resolver.roles(place) & _STEPS and feeds(draft, place)
