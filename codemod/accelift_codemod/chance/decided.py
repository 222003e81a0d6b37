"""Random numbers that only decide: which branch is taken, which of several things is picked. All processes have to
decide alike, so that it is right that they draw the same."""

from __future__ import annotations

import ast
from functools import partial

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, torch_ops
from accelift_codemod.facts.chance import own_generator
from accelift_codemod.facts.index import COMPREHENSIONS, FUNCTIONS, How
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.parts import BATCH_LIKE
from accelift_codemod.facts.tree import root, walk
from accelift_codemod.following.onward import function_of, reads_of

_STEPS = 8  # variables and functions that a number goes through
_NUMBERS = frozenset({"item", "tolist", "squeeze", "cpu", "numpy", *torch_ops.ABOUT})
_TESTS = (ast.If, ast.While, ast.IfExp)


@kept
def decides(draft: Draft, call: ast.Call) -> bool:
    """Whether what a call draws only decides, for all of a batch and not for one row of it."""
    return decides_something(draft, call) and not is_for_each_row(draft, call)


def decides_something(draft: Draft, call: ast.Call) -> bool:
    """Whether what a call draws only decides, be it for all of a batch or for one row."""
    return _only_decides(draft, call, _is_one(draft, call))


def _is_one(draft: Draft, call: ast.Call) -> bool:
    """Whether a call surely draws one number: several, as places, pick one thing for each row."""
    own = own_generator(draft.facts.resolver, call)
    module, _, name = (draft.facts.resolver.qualified(call.func) or "").rpartition(".")
    if own is not None and isinstance(call.func, ast.Attribute):
        module, name = {"numpy": "numpy.random"}.get(own[1], own[1]), call.func.attr
    parent = draft.facts.index.parents.get(call)
    if module == "random" or (isinstance(parent, ast.Attribute) and parent.attr == "item"):
        return True
    told = [*call.args, *(k.value for k in call.keywords if k.arg in ("size", "num_samples"))]
    if module == "numpy.random":
        return len(told) <= (0 if name in ("rand", "randn", "random") else 1 if name == "choice" else 2)
    sizes = told if name in ("rand", "randn") else told[-1:]
    return module == "torch" and bool(sizes) and all(map(_is_of_ones, sizes))


def _is_of_ones(node: ast.expr) -> bool:
    """Whether a size, or a tuple of sizes, is 1."""
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    return all(isinstance(part, ast.Constant) and part.value == 1 for part in parts)


def is_for_each_row(draft: Draft, node: ast.AST, steps: int = 3) -> bool:
    """Whether a node runs for each row of a batch, perhaps in a function that does."""
    if any(map(partial(_is_over_rows, draft), draft.facts.index.ancestors(node))):
        return True
    function = draft.facts.index.function(node) if steps else None
    if function is None:
        return False
    sites = draft.facts.resolver.sites(function) if isinstance(function, FUNCTIONS) else []
    return _is_handed_on(draft, function) or any(is_for_each_row(draft, site, steps - 1) for site in sites)


def _is_handed_on(draft: Draft, function: ast.AST) -> bool:
    """Whether a function is a value somewhere, which others may call for each row: `map(flip, x)`."""
    index = draft.facts.index
    owner = index.scope(function).owner(function.name) if isinstance(function, FUNCTIONS) else None
    loads = draft.facts.loads(owner, function.name) if owner is not None and isinstance(function, FUNCTIONS) else []
    uses = ((load, index.parents.get(load)) for load in loads)
    return any(not (isinstance(use, ast.Call) and use.func is load) for load, use in uses)


def of_batch(draft: Draft, node: ast.AST, steps: int = 2) -> bool:
    """Whether a number is worked out from a batch: how many rows it has."""
    for name in (n for n in walk(node) if isinstance(n, ast.Name)):
        if draft.facts.resolver.roles(name) & BATCH_LIKE:
            return True
        made = (b.value for b in draft.facts.resolver.bindings(name) if steps and b.value is not None)
        if any(of_batch(draft, value, steps - 1) for value in made):
            return True
    return False


def _is_over_rows(draft: Draft, node: ast.AST) -> bool:
    """Whether a node is a loop that may be over the rows of a batch: over no loader, epochs or other numbers, and not
    over layers."""
    if isinstance(node, ast.While):
        return _counts_rows(draft, node.test)
    iterated: list[ast.expr] = [node.iter] if isinstance(node, (ast.For, ast.AsyncFor)) else []
    if isinstance(node, COMPREHENSIONS):
        iterated = [generator.iter for generator in node.generators]
    if not iterated or node in draft.blueprint.loops:
        return isinstance(node, ast.Lambda)
    return not all(_is_of_others(draft, one) for one in iterated)


def _is_of_others(draft: Draft, node: ast.expr) -> bool:
    """Whether what is gone through are no rows: numbers of something else, or what a network is made of."""
    resolver = draft.facts.resolver
    name = resolver.builtin(node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and name == "range":
        return not any(_counts_rows(draft, argument) for argument in node.args)
    if isinstance(node, ast.Call) and name in ("enumerate", "zip", "reversed", "list"):
        return all(_is_of_others(draft, argument) for argument in node.args)
    return _is_own(draft, node)


def _is_own(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is an attribute of a network, in its own methods."""
    this = root(node)
    own = draft.facts.index.enclosing_class(node)
    return (
        this is not None and this.id.partition(".")[0] == "self" and draft.facts.resolver.class_role(own) is Role.MODEL
    )


def _counts_rows(draft: Draft, node: ast.expr, steps: int = 2) -> bool:
    """Whether a number may be how many rows a batch has: it is the size of something that is not a network's own."""
    if of_batch(draft, node):
        return True
    for part in walk(node):
        asked = part.value if isinstance(part, ast.Attribute) and _asks_for_first(draft, part) else None
        if isinstance(part, ast.Call) and draft.facts.resolver.builtin(part.func) == "len" and part.args:
            asked = part.args[0]
        if asked is not None and not _is_own(draft, asked):
            return True
        made = draft.facts.resolver.bindings(part) if steps and isinstance(part, ast.Name) else []
        sizes = (b.value for b in made if b.how is How.ASSIGN and b.path in ((), (0,)))
        if any(_counts_rows(draft, size, steps - 1) for size in sizes if size is not None):
            return True
    return False


def _asks_for_first(draft: Draft, node: ast.Attribute) -> bool:
    """Whether an attribute is the size of a tensor, and not taken of another dimension than the first: `x.size(1)`."""
    outer = draft.facts.index.parents.get(node)
    told = outer.slice if isinstance(outer, ast.Subscript) else None
    if isinstance(outer, ast.Call):
        told = draft.facts.resolver.argument(outer, 0, "dim")
    return node.attr in ("shape", "size") and not (isinstance(told, ast.expr) and integer(told) not in (0, None))


def _only_decides(draft: Draft, node: ast.expr, one: bool, steps: int = 0) -> bool:
    """Whether a number, in all that becomes of it, is only asked for, or, if it is `one`, the place of something that
    is no batch."""
    index, resolver = draft.facts.index, draft.facts.resolver
    if isinstance(node, ast.Call) and resolver.qualified(node.func) == "random.choice":
        return not _is_data(draft, resolver.argument(node, 0, "seq"))
    parent = index.parents.get(node)
    if steps > _STEPS or parent is None:
        return False
    if isinstance(parent, _TESTS):
        return parent.test is node or (isinstance(parent, ast.IfExp) and _only_decides(draft, parent, one, steps))
    if isinstance(parent, ast.Subscript) and parent.slice is node:
        return one and not _is_data(draft, parent.value)
    if isinstance(parent, ast.Attribute) and parent.attr in _NUMBERS:
        outer = index.parents.get(parent)
        called = isinstance(outer, ast.Call) and outer.func is parent
        return _only_decides(draft, outer if called else parent, one, steps)  # type: ignore[arg-type]
    if isinstance(parent, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        return _only_decides(draft, parent, one, steps)
    if isinstance(parent, ast.Assign) and all(isinstance(t, ast.Name) for t in parent.targets):
        reads = [read for read in reads_of(draft, parent) if not _shown(draft, read)]
        return bool(reads) and all(_only_decides(draft, read, one, steps + 1) for read in reads)
    if isinstance(parent, ast.Return):
        function = index.function(parent)
        sites = resolver.sites(function) if isinstance(function, FUNCTIONS) else []
        return bool(sites) and all(_only_decides(draft, site, one, steps + 1) for site in sites)
    if isinstance(parent, ast.keyword):
        parent = index.parents[parent]
    return isinstance(parent, ast.Call) and node is not parent.func and _is_told(draft, parent, node, one, steps)


def _is_data(draft: Draft, node: ast.expr | None) -> bool:
    """Whether an expression is a batch, a data set, or a tensor or an array."""
    roles = draft.facts.resolver.roles(node)
    return bool(roles & {*BATCH_LIKE, Role.DATASET}) or draft.facts.kinds.of(node) is not None


def _is_told(draft: Draft, call: ast.Call, node: ast.expr, one: bool, steps: int) -> bool:
    """Whether a function, or the network that is called, does no more with a number that it is given."""
    resolver = draft.facts.resolver
    if resolver.builtin(call.func) in ("int", "bool", "float"):
        return _only_decides(draft, call, one, steps)
    known = function_of(draft, call)
    models = (resolver.method(v.declaration, "forward") for v in draft.facts.objects.models(call.func))
    functions = [known] if known is not None else [f for f in models if f is not None]
    reads: list[ast.expr] = []
    for function in functions:
        scope = draft.facts.index.scopes[function]
        given = [name for name, value in (resolver.bind(call, function) or {}).items() if value is node]
        if not given:
            return False
        loads = (load for name in given for load in draft.facts.loads(scope, name))
        reads += (n for n in loads if any(b.how is How.PARAMETER for b in resolver.reaching(n, scope)))
    return bool(reads) and all(_only_decides(draft, read, one, steps + 1) for read in reads)


def _shown(draft: Draft, read: ast.expr) -> bool:
    """Whether a number is only printed."""
    call = draft.facts.index.parents.get(read)
    return isinstance(call, ast.Call) and draft.facts.resolver.builtin(call.func) == "print"
