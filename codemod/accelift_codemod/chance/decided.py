"""Random numbers that only decide: which branch is taken, which of several things is picked. All processes have to
decide alike, so that it is right that they draw the same."""

from __future__ import annotations

import ast
from functools import partial

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, torch_ops
from accelift_codemod.facts.index import COMPREHENSIONS, FUNCTIONS, How
from accelift_codemod.facts.parts import BATCH_LIKE
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured.onward import function_of, reads_of

_STEPS = 8  # variables and functions that a number goes through
_NUMBERS = frozenset({"item", "tolist", "squeeze", "cpu", "numpy", *torch_ops.ABOUT})
_TESTS = (ast.If, ast.While, ast.IfExp)


def decides(draft: Draft, call: ast.Call) -> bool:
    """Whether what a call draws only decides, for all of a batch and not for one row of it."""
    return _only_decides(draft, call) and not any(map(partial(_is_over_rows, draft), draft.facts.index.ancestors(call)))


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
    """Whether a node is a loop that may be over the rows of a batch: over no loader, epochs or other numbers."""
    iterated: list[ast.expr] = [node.iter] if isinstance(node, (ast.For, ast.AsyncFor)) else []
    if isinstance(node, COMPREHENSIONS):
        iterated = [generator.iter for generator in node.generators]
    if not iterated or node in draft.blueprint.loops:
        return False
    resolver = draft.facts.resolver
    ranges = (n for n in iterated if isinstance(n, ast.Call) and resolver.builtin(n.func) == "range")
    counted = [n for n in ranges if not any(of_batch(draft, argument) for argument in n.args)]
    return len(counted) < len(iterated)


def _only_decides(draft: Draft, node: ast.expr, steps: int = 0) -> bool:
    """Whether a number, in all that becomes of it, is only asked for, or the place of something that is no batch."""
    index, resolver = draft.facts.index, draft.facts.resolver
    if isinstance(node, ast.Call) and resolver.qualified(node.func) == "random.choice":
        return not _is_data(draft, resolver.argument(node, 0, "seq"))
    parent = index.parents.get(node)
    if steps > _STEPS or parent is None:
        return False
    if isinstance(parent, _TESTS):
        return parent.test is node or (isinstance(parent, ast.IfExp) and _only_decides(draft, parent, steps))
    if isinstance(parent, ast.Subscript) and parent.slice is node:
        return not _is_data(draft, parent.value)
    if isinstance(parent, ast.Attribute) and parent.attr in _NUMBERS:
        outer = index.parents.get(parent)
        return _only_decides(draft, outer if isinstance(outer, ast.Call) and outer.func is parent else parent, steps)
    if isinstance(parent, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        return _only_decides(draft, parent, steps)
    if isinstance(parent, ast.Assign) and all(isinstance(t, ast.Name) for t in parent.targets):
        reads = [read for read in reads_of(draft, parent) if not _shown(draft, read)]
        return bool(reads) and all(_only_decides(draft, read, steps + 1) for read in reads)
    if isinstance(parent, ast.Return):
        function = index.function(parent)
        sites = resolver.sites(function) if isinstance(function, FUNCTIONS) else []
        return bool(sites) and all(_only_decides(draft, site, steps + 1) for site in sites)
    if isinstance(parent, ast.keyword):
        parent = index.parents[parent]
    return isinstance(parent, ast.Call) and node is not parent.func and _is_told(draft, parent, node, steps)


def _is_data(draft: Draft, node: ast.expr | None) -> bool:
    """Whether an expression is a batch, a data set, or a tensor or an array."""
    roles = draft.facts.resolver.roles(node)
    return bool(roles & {*BATCH_LIKE, Role.DATASET}) or draft.facts.kinds.of(node) is not None


def _is_told(draft: Draft, call: ast.Call, node: ast.expr, steps: int) -> bool:
    """Whether a function, or the network that is called, does no more with a number that it is given."""
    resolver = draft.facts.resolver
    if resolver.builtin(call.func) in ("int", "bool", "float"):
        return _only_decides(draft, call, steps)
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
    return bool(reads) and all(_only_decides(draft, read, steps + 1) for read in reads)


def _shown(draft: Draft, read: ast.expr) -> bool:
    """Whether a number is only printed."""
    call = draft.facts.index.parents.get(read)
    return isinstance(call, ast.Call) and draft.facts.resolver.builtin(call.func) == "print"
