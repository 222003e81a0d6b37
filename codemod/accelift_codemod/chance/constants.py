"""What is drawn once, and then used on all of the data: permutations of pixels, random projections, masks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from accelift_codemod.chance import seeds
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, torch_ops
from accelift_codemod.facts.chance import SEEDS, drawn_from
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import is_same_name, walk
from accelift_codemod.following.onward import Read, reached

_PREPARED = ("torch.nn.", "torch.optim.")  # parameters, which prepare sees to, and what is made of them
_FUNCTIONS = "torch.nn.functional."
_TENSOR_METHODS = (torch_ops.ROW_WISE | torch_ops.ELEMENTWISE | torch_ops.REDUCES.keys()) - {"to", "cuda", "type"} | {
    "index_select",
    "gather",
    "take",
    "matmul",
    "mm",
}
_WITHIN = (ast.Attribute, ast.UnaryOp, ast.Call, ast.Slice, ast.Tuple, ast.List, ast.keyword)  # one expression
_STEPS = 6  # from a function to what calls it
_DEALS = (Role.BATCH, Role.DATA)
_CALLABLES = ("torchvision.transforms.", "torchvision.datasets.")
_GIVEN = frozenset({"transform", "target_transform", "collate_fn"})


def constants(draft: Draft) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls that draw, once and without a seed, what is used on the data, each with a place where it is used."""
    for call in draft.calls:
        home = drawn_from(draft.facts.resolver, call)
        known = seeds.seeded(draft, call, SEEDS[home]) if home else not seeds.unseeded(draft, call)
        if known or is_often(draft, call):
            continue
        use = next((use for use in _uses(draft, call) if _on_data(draft, call, use)), None)
        if use is not None:
            yield call, use


def is_often(draft: Draft, call: ast.Call, steps: int = 0) -> bool:
    """Whether a call runs for each batch, or each sample: inside a loop over batches, or whatever such code calls."""
    function = draft.function(call)
    around = draft.facts.index.ancestors(call)
    if any(parent in draft.blueprint.loops or isinstance(parent, ast.Lambda) for parent in around):
        return True
    if function is None or steps > _STEPS:
        return False
    if isinstance(draft.facts.index.parents.get(function), ast.ClassDef) and function.name != "__init__":
        sites = draft.facts.resolver.sites(function)
        unseen = not sites or function.name.startswith("__")
        if unseen and _of_data(draft, draft.facts.index.enclosing_class(function)):
            return True
    if any(is_often(draft, site, steps + 1) for site in draft.facts.resolver.sites(function)):
        return True
    return function in draft.blueprint.run_in_loops


def _of_data(draft: Draft, cls: ast.ClassDef | None) -> bool:
    """Whether the methods of a class run on the data: of a data set, a network, or something that is called."""
    resolver = draft.facts.resolver
    if cls is None:
        return False
    return resolver.class_role(cls) in (Role.DATASET, Role.MODEL, Role.LOSS) or (
        resolver.method(cls, "__call__") is not None
    )


def _uses(draft: Draft, start: ast.Call) -> Iterator[ast.expr]:
    """The reads of what a call draws, or of what is computed from it."""
    starts: list[Read] = [start]
    shuffled = in_place(start)
    if isinstance(shuffled, ast.Name):
        scope = draft.facts.index.scope(start).owner(shuffled.id)
        starts = [*draft.facts.loads(scope, shuffled.id)] if scope is not None else []
    elif isinstance(shuffled, ast.Attribute):
        starts = _reads_of_attribute(draft, shuffled)
    return reached(draft, starts, stop=_stops(draft, draft.facts.tree))


@kept
def _stops(draft: Draft, _: ast.AST) -> Callable[[ast.AST], bool]:
    """What ends the way of a number: texts, layers, and what a loop over batches makes of it, which belongs to the
    batch. One function for all numbers, so that what they have in common is gone through once."""
    resolver, loops = draft.facts.resolver, draft.blueprint.loops

    def stops(node: ast.AST) -> bool:
        if isinstance(node, (ast.Lambda, *FUNCTIONS)) or node in loops or _is_text(draft, node):
            return True
        name = resolver.qualified(node.func) or "" if isinstance(node, ast.Call) else ""
        if name.startswith(_PREPARED) and not name.startswith(_FUNCTIONS):
            return True
        return any(loop in loops for loop in draft.facts.index.enclosing_loops(node))

    return stops


def _is_text(draft: Draft, node: ast.AST) -> bool:
    """Whether an expression surely makes a text: a name that a number stands in."""
    if isinstance(node, ast.BinOp):
        sides = [node.left] if isinstance(node.op, ast.Mod) else [node.left, node.right]
        return isinstance(node.op, (ast.Add, ast.Mod)) and any(_is_text(draft, side) for side in sides)
    if isinstance(node, ast.Call):
        written = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Constant)
        if written and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "join"):
            return True
        return draft.facts.resolver.builtin(node.func) in ("str", "repr", "format")
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _reads_of_attribute(draft: Draft, place: ast.Attribute) -> list[Read]:
    """The reads of an attribute, in the class around one of them."""
    cls = draft.facts.index.enclosing_class(place)
    nodes = [n for n in walk(cls) if isinstance(n, ast.Attribute) and n.attr == place.attr] if cls is not None else []
    return [n for n in nodes if n is not place and isinstance(n.ctx, ast.Load) and is_same_name(n.value, place.value)]


def in_place(call: ast.Call) -> ast.expr | None:
    """What a call shuffles where it is."""
    shuffles = isinstance(call.func, ast.Attribute) and call.func.attr == "shuffle"
    return call.args[0] if shuffles and call.args else None


def _on_data(draft: Draft, call: ast.Call, use: ast.expr) -> bool:
    """Whether what was drawn is used on the data: with a batch in one expression, or by what every sample passes."""
    if _is_asked(draft, use):
        return False
    loops = [draft.blueprint.loops.get(loop) for loop in draft.facts.index.enclosing_loops(use)]
    if any(loops):
        shown = any(loop is not None and loop.trains for loop in loops) and draft.gradients_off(use)
        return not shown and not _is_made_anew(draft, use) and _meets_batch(draft, use)
    function = draft.function(use)
    owner = draft.facts.index.parents.get(function) if function is not None else None
    if function is not None and function is not draft.function(call) and isinstance(owner, ast.ClassDef):
        # A variable of the method is what this call of it is handed; the object keeps attributes for all of them.
        own = isinstance(use, ast.Call) or (
            isinstance(use, ast.Name) and use.id in draft.facts.index.scopes[function].bindings
        )
        return not own and function.name != "__init__" and _of_data(draft, owner)
    return _in_transform(draft, call, use)


def _is_asked(draft: Draft, use: ast.expr) -> bool:
    """Whether it is only asked if something is there, or how large it is: `self.table is not None`."""
    parent = draft.facts.index.parents[use]
    if isinstance(parent, ast.Compare):
        return all(isinstance(operator, (ast.Is, ast.IsNot)) for operator in parent.ops)
    return isinstance(parent, ast.Attribute) and parent.attr in torch_ops.ABOUT


def _is_made_anew(draft: Draft, use: ast.expr) -> bool:
    """Whether a loop over batches sets the variable that is read in it, perhaps under a condition."""
    bindings = draft.facts.resolver.bindings(use) if isinstance(use, ast.Name) else []
    around = {parent for b in bindings for parent in draft.facts.index.ancestors(b.node)}
    return any(loop in draft.blueprint.loops and loop in around for loop in draft.facts.index.enclosing_loops(use))


def _meets_batch(draft: Draft, use: ast.expr) -> bool:
    """Whether an expression is used together with something of a batch, in arithmetic or a function of tensors."""
    resolver = draft.facts.resolver
    child: ast.AST = use
    for parent in draft.facts.index.ancestors(use):
        beside: list[ast.AST] = []
        if isinstance(parent, (ast.BinOp, ast.Subscript, ast.Compare)):
            beside = [n for n in ast.iter_child_nodes(parent) if n is not child]
        elif isinstance(parent, ast.Call) and child is not parent.func:
            func = parent.func
            tensors = (resolver.qualified(func) or "").startswith("torch.") or bool(draft.facts.objects.models(func))
            method = isinstance(func, ast.Attribute) and func.attr in _TENSOR_METHODS
            if not (tensors or method or Role.LOSS in resolver.roles(func)):
                return False
            beside = [n for n in ast.iter_child_nodes(parent) if n is not child]
        elif not isinstance(parent, _WITHIN):
            return False
        names = (n for part in beside for n in walk(part) if isinstance(n, ast.Name))
        if any(v.role in _DEALS for name in names for v in resolver.values(name)):
            return True
        child = parent
    return False


def _in_transform(draft: Draft, call: ast.Call, use: ast.expr) -> bool:
    """Whether a function that is handed over to transform each sample, and does not draw it itself, reads it."""
    for parent in draft.facts.index.ancestors(use):
        if parent is draft.function(call):
            return False
        handed: list[ast.AST] = [parent] if isinstance(parent, ast.Lambda) else []
        if isinstance(parent, ast.FunctionDef):
            handed = [*draft.facts.loads(draft.facts.index.scope(parent), parent.name)]
        for one in handed:
            outer = draft.facts.index.parents[one]
            if isinstance(outer, ast.keyword) and outer.arg in _GIVEN:
                return True
            named = draft.facts.resolver.qualified(outer.func) if isinstance(outer, ast.Call) else None
            if (named or "").startswith(_CALLABLES) and one is not getattr(outer, "func", None):
                return True
    return False
