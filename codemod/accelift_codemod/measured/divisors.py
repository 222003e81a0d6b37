"""What sums over samples are divided by: the size of the data, or another number that every process has."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, How, Role
from accelift_codemod.facts.effects import loads
from accelift_codemod.measured.sums import Loop
from accelift_codemod.rows.batch_sizes import is_product

_STEPS = 4  # from a variable to what it was set to
_TAKEN = frozenset(
    "item float double int long half cpu cuda detach numpy to".split()
)  # what leaves a number what it is
_NUMBERS = frozenset({"len", "int", "float", "max", "min"})


def as_number(draft: Draft, node: ast.AST) -> ast.AST:
    """An expression with what only takes its number, or makes it another type: `hits.double()`, `float(hits)`."""
    parents = draft.facts.index.parents
    while True:
        outer = parents.get(node)
        call = parents.get(outer) if isinstance(outer, ast.Attribute) else outer
        if not isinstance(call, ast.Call) or call.keywords:
            return node
        if isinstance(outer, ast.Attribute):
            taken = call.func is outer and outer.attr in _TAKEN and (not call.args or outer.attr == "to")
        else:
            taken = call.args == [node] and draft.facts.resolver.builtin(call.func) in ("float", "int")
        if not taken:
            return node
        node = call


def is_whole(draft: Draft, loop: BatchLoop, node: ast.expr, steps: int = 0) -> bool:
    """The length of a data set: `len(dataset)`, `len(loader.dataset)`, perhaps in a variable; or of so many whole
    batches."""
    held = _held(draft, node) if isinstance(node, ast.Name) and steps < _STEPS else []
    if held and all(is_whole(draft, loop, value, steps + 1) for value in held):
        return True
    if isinstance(node, ast.BinOp) and is_product(draft, loop, node):
        return True
    if isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) in ("float", "int"):
        return len(node.args) == 1 and is_whole(draft, loop, node.args[0], steps)
    given = [draft.facts.objects.loader(value).arguments.get("dataset") for value in loop.loaders]
    if any(_counts(draft, d, node) for d in given):
        return True
    if not (isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "len" and node.args):
        return False
    data = node.args[0]
    of_loader = isinstance(data, ast.Attribute) and data.attr == "dataset"
    if of_loader or Role.DATASET in draft.facts.resolver.roles(data):
        return True
    if not isinstance(data, ast.Name):
        return False
    owner = draft.facts.index.scope(data).owner(data.id)
    if loop in draft.blueprint.handmade:
        bound = owner.bindings[data.id] if owner is not None else []
        return not any(loop.node in draft.facts.index.ancestors(b.node) for b in bound)
    return any(
        isinstance(d, ast.Name) and d.id == data.id and draft.facts.index.scope(d).owner(d.id) is owner for d in given
    )


def _held(draft: Draft, name: ast.Name) -> list[ast.expr]:
    """What a variable is set to as a whole, or what calls hand a parameter; nothing if that cannot be told."""
    values: list[ast.expr | None] = []
    for binding in draft.facts.resolver.bindings(name):
        if binding.how is How.PARAMETER:
            values += draft.facts.resolver.handed(binding, draft.facts.runs)
        else:
            values.append(binding.value if binding.how is How.ASSIGN and not binding.path else None)
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _counts(draft: Draft, data: ast.expr | None, node: ast.expr) -> bool:
    """Whether data are the numbers up to what an expression says: `range(y.size(0))` and `y.size(0)`."""
    if not (isinstance(data, ast.Call) and draft.facts.resolver.builtin(data.func) == "range"):
        return False
    return len(data.args) == 1 and ast.dump(data.args[0]) == ast.dump(node)


def is_alike(draft: Draft, loop: Loop, node: ast.expr, local: set[str], steps: int = 0) -> bool:
    """Whether a number is surely the same on every process: written out, an option, a length or size of what does not
    come from a share, or computed from such numbers."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float))
    if local & {n.id for n in loads(node)} or steps > _STEPS:
        return False
    steps += 1
    if isinstance(node, ast.BinOp):
        return all(is_alike(draft, loop, side, local, steps) for side in (node.left, node.right))
    if isinstance(node, ast.IfExp):
        return all(is_alike(draft, loop, branch, local, steps) for branch in (node.body, node.orelse))
    if isinstance(node, ast.Attribute):
        return Role.ARGUMENTS in draft.facts.resolver.roles(node.value)
    if isinstance(node, ast.Name):
        held = _held(draft, node)
        return bool(held) and all(is_alike(draft, loop, value, local, steps) for value in held)
    builtin = draft.facts.resolver.builtin(node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and builtin == "len" and len(node.args) == 1:
        return _is_outside(draft, loop, node.args[0])
    if isinstance(node, ast.Call) and builtin in _NUMBERS:
        return bool(node.args) and all(is_alike(draft, loop, a, local, steps) for a in node.args)
    shape = node.value if isinstance(node, ast.Subscript) else None
    return isinstance(shape, ast.Attribute) and shape.attr == "shape" and _is_outside(draft, loop, shape.value)


def _is_outside(draft: Draft, loop: Loop, data: ast.expr) -> bool:
    """Whether data are not made in a loop."""
    while isinstance(data, ast.Attribute):
        data = data.value
    owner = draft.facts.index.scope(data).owner(data.id) if isinstance(data, ast.Name) else None
    if owner is None or not isinstance(data, ast.Name):
        return False
    return not any(loop in draft.facts.index.ancestors(b.node) for b in owner.bindings[data.id])
