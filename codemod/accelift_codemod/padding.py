"""Where samples are made as long as the longest of their batch, which is that of a share on several processes."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.tree import walk

_PADS = (
    "torch.nn.utils.rnn.pad_sequence",
    "torch.nn.utils.rnn.pack_sequence",
    "torch.nn.functional.pad",
    "numpy.pad",
)


def collated(draft: Draft) -> ast.Call | None:
    """Where the collate function of a training loader pads sequences."""
    for loader in (v for loop in draft.blueprint.train_loops for v in loop.loaders):
        collate = draft.facts.objects.loader(loader).arguments.get("collate_fn")
        functions: list[ast.AST | None] = [v.declaration for v in draft.facts.resolver.values(collate)]
        for function in [*functions, collate]:
            if isinstance(function, ast.ClassDef):
                function = draft.facts.resolver.method(function, "__call__")
            if not isinstance(function, (*FUNCTIONS, ast.Lambda)):
                continue
            body = [function.body] if isinstance(function, ast.Lambda) else function.body
            called = (f for part in body for f in draft.blueprint.timeline.calls_into(part))
            for node in (n for f in dict.fromkeys((function, *called)) for n in walk(f)):
                if isinstance(node, ast.Call) and _pads(draft, node):
                    return node
    return None


def cut(draft: Draft) -> ast.expr | None:
    """Where a training loop cuts the samples of its batch to the longest one, or pads them to it."""
    for loop in draft.blueprint.train_loops:
        for statement in loop.body:
            called = (s for f in draft.blueprint.timeline.calls_into(statement) for s in f.body)
            for node in (n for s in (statement, *called) for n in walk(s)):
                bound = _bound(node)
                if bound is not None and _longest(draft, bound, 2):
                    return node  # type: ignore[return-value]
                padded = draft.facts.resolver.argument(node, 0, "sequences") if isinstance(node, ast.Call) else None
                if padded is not None and draft.facts.resolver.qualified(node.func) == _PADS[0]:  # type: ignore[attr-defined]
                    if _of_batch(draft, padded):
                        return node  # type: ignore[return-value]
    return None


def _longest(draft: Draft, node: ast.expr, depth: int) -> bool:
    """Whether a number is the greatest of what the samples of a batch have, or made from it."""
    resolver = draft.facts.resolver
    for part in walk(node):
        func = part.func if isinstance(part, ast.Call) else None
        if isinstance(part, ast.Call) and (
            resolver.builtin(part.func) == "max" or resolver.qualified(part.func) in ("torch.max", "torch.amax")
        ):
            if len(part.args) == 1 and _of_batch(draft, part.args[0]):
                return True
        elif isinstance(part, ast.Call) and isinstance(func, ast.Attribute) and func.attr in ("max", "amax"):
            if not part.args and not part.keywords and _of_batch(draft, func.value):
                return True
        elif isinstance(part, ast.Name) and depth:
            made = [b.value for b in resolver.bindings(part) if b.how is How.ASSIGN and not b.path]
            if any(value is not None and _longest(draft, value, depth - 1) for value in made):
                return True
    return False


def _of_batch(draft: Draft, node: ast.expr) -> bool:
    """Whether something is part of a batch, or computed from it."""
    return any(draft.facts.resolver.roles(n) & {Role.BATCH, Role.DATA} for n in walk(node) if isinstance(n, ast.expr))


def _pads(draft: Draft, call: ast.Call) -> bool:
    """Whether a call pads sequences, or asks for the length of the longest one: `max(len(s) for s in samples)`."""
    resolver = draft.facts.resolver
    if resolver.qualified(call.func) in _PADS:
        return True
    if resolver.builtin(call.func) != "max" or len(call.args) != 1:
        return False
    made = [
        call.args[0],
        *(b.value for n in walk(call.args[0]) if isinstance(n, ast.Name) for b in resolver.bindings(n)),
    ]
    sizes = (n for part in made if part is not None for n in walk(part))
    return any(
        (isinstance(n, ast.Call) and resolver.builtin(n.func) == "len")
        or (isinstance(n, ast.Name) and resolver.builtin(n) == "len")
        or (isinstance(n, ast.Attribute) and n.attr in ("shape", "size"))
        for n in sizes
    )


def _bound(node: ast.AST) -> ast.expr | None:
    """How much a node takes of a dimension of a tensor that is not the first: `x[:, :n]`, `x.narrow(1, 0, n)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        cuts = (p.upper for p in node.slice.elts[1:] if isinstance(p, ast.Slice) and p.upper is not None)
        return next(cuts, None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "narrow":
        first = node.args[0] if len(node.args) == 3 else None
        return node.args[2] if isinstance(first, ast.Constant) and first.value != 0 else None
    return None
