"""Expressions that say how many rows something has: those of a whole batch, maybe."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import walk
from accelift_codemod.rows import row_numbers
from accelift_codemod.rows.early_rows import COPIES, own_rows


def asked(draft: Draft, call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call that may say how many rows something is to have."""
    if (draft.facts.resolver.qualified(call.func) or "") in COPIES:
        yield from (size for argument in call.args[:1] for size in row_numbers.repeated(draft, argument))
        return
    if row_numbers.takes(draft, call):
        yield from () if own_rows(draft, call, drawn=False) else row_numbers.given(draft, call)
        return
    function = draft.facts.resolver.callee(call)
    bound = draft.facts.resolver.bind(call, function) if isinstance(function, FUNCTIONS) else None
    for name, argument in (bound or {}).items():
        if row_numbers.only_rows(draft, function, name):
            yield from row_numbers.numbers(draft, argument)


def compared(draft: Draft, loop: BatchLoop, node: ast.AST) -> Iterator[ast.expr]:
    """What the number of rows of a tensor is compared with, or taken from: `x.size(0) != batch_size`."""
    if isinstance(node, ast.Compare) and len(node.comparators) == 1:
        pairs = ((node.left, node.comparators[0]), (node.comparators[0], node.left))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        pairs = ((node.left, node.right), (node.right, node.left))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod)):
        pairs = ((node.left, node.right),) * 2
    else:
        return
    if not any(isinstance(n, (ast.Call, ast.Subscript)) for pair in pairs for n in walk(pair[0])):
        return
    env = draft.environment(loop, draft.facts.index.statement(node))
    for rows, size in dict(pairs).items():
        if env is not None and draft.facts.layouts.read(rows, env) is Layout.COUNT:
            yield from row_numbers.numbers(draft, size)


def maybe_compared(draft: Draft, loop: BatchLoop, node: ast.AST) -> Iterator[ast.expr]:
    """What is compared with the first dimension of something that is made of a batch, if that may be its rows, or not:
    `len(tokens) < batch_size` of a stack that has been turned."""
    if not isinstance(node, ast.Compare) or len(node.comparators) != 1:
        return
    for rows, size in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
        tensor = _of_length(draft, rows)
        if tensor is None or not draft.facts.batches.is_from(tensor, loop, ()):
            continue
        env = draft.environment(loop, draft.facts.index.statement(node))
        if env is not None and draft.facts.layouts.read(tensor, env) is Layout.UNKNOWN:
            yield from row_numbers.numbers(draft, size)


def _of_length(draft: Draft, node: ast.expr) -> ast.Name | None:
    """The tensor of which an expression is the first dimension: `len(x)`, `x.size(0)`, `x.shape[0]`."""
    if isinstance(node, ast.Subscript):
        place, base = node.slice, node.value
        tensor = base.value if isinstance(base, ast.Attribute) and base.attr == "shape" else None
    elif isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        place = node.args[0]
        if draft.facts.resolver.builtin(node.func) == "len":
            return place if isinstance(place, ast.Name) else None
        tensor = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "size" else None
    else:
        return None
    first = isinstance(place, ast.Constant) and place.value == 0
    return tensor if first and isinstance(tensor, ast.Name) else None


def parted(draft: Draft, loop: BatchLoop, node: ast.AST) -> Iterator[ast.expr]:
    """Where rows that stand one batch after another are taken apart again: `both[:batch_size]`."""
    whole: ast.expr | None = None
    parts: list[ast.expr] = []
    if isinstance(node, ast.Subscript):
        first = _first(node)
        if first is not None:
            whole, parts = node.value, [p for p in (first.lower, first.upper) if p is not None]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        function = draft.facts.resolver.qualified(node.func) == "torch.split"
        along = draft.facts.resolver.argument(node, 1 + function, "dim")
        if along is None or ast.unparse(along) == "0":
            size = draft.facts.resolver.argument(node, int(function), "split_size_or_sections")
            whole = draft.facts.resolver.argument(node, 0, "tensor") if function else node.func.value
            parts = [size] if size is not None else []
    env = draft.environment(loop, draft.facts.index.statement(node)) if parts else None
    if env is not None and whole is not None and draft.facts.layouts.read(whole, env) is Layout.STACKED:
        for part in parts:
            yield from row_numbers.numbers(draft, part)


def _first(node: ast.Subscript) -> ast.Slice | None:
    """The part of a tensor that is taken, in the first of its dimensions of which one is."""
    slices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    found = next(iter(slices), None)
    return found if isinstance(found, ast.Slice) else None
