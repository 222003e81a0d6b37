"""Expressions that say how many rows something has: those of a whole batch, maybe."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import walk
from accelift_codemod.rows import row_numbers
from accelift_codemod.rows.early_rows import COPIES, own_rows

_STEPS = 4  # from what is cut to the batch that it is made of


def asked(draft: Draft, call: ast.Call, said: Set[ast.AST] = frozenset()) -> Iterator[ast.expr]:
    """The arguments of a call that may say how many rows something is to have, or has: some reads are `said` to."""
    if (draft.facts.resolver.qualified(call.func) or "") in COPIES:
        yield from (size for argument in call.args[:1] for size in row_numbers.repeated(draft, argument))
        return
    if row_numbers.takes(draft, call):
        yield from () if own_rows(draft, call, drawn=False) else row_numbers.given(draft, call)
        return
    function = draft.facts.resolver.callee(call)
    bound = draft.facts.resolver.bind(call, function) if isinstance(function, FUNCTIONS) else None
    for name, argument in (bound or {}).items():
        if row_numbers.only_rows(draft, function, name, said):
            yield from row_numbers.numbers(draft, argument)


def said(draft: Draft, loop: BatchLoop, nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """What code that a training loop runs takes for the number of rows of tensors that are there."""
    for node in nodes:
        yield from compared(draft, loop, node)
        yield from parted(draft, loop, node)


def compared(draft: Draft, loop: BatchLoop, node: ast.AST) -> Iterator[ast.expr]:
    """What the number of rows of a tensor is compared with, or taken from: `x.size(0) != batch_size`."""
    for size in against(draft, loop, node):
        yield from row_numbers.numbers(draft, size)


def against(draft: Draft, loop: BatchLoop, node: ast.AST) -> Iterator[ast.expr]:
    """The same, as it is written: `16` of `x.size(0) != 16`, too."""
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
            yield size


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
        if env is not None and draft.facts.layouts.read(tensor, env) in (Layout.UNKNOWN, Layout.UNSURE):
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
    whole, parts = _taken_apart(draft, node)
    env = draft.environment(loop, draft.facts.index.statement(node)) if parts else None
    if env is not None and whole is not None and draft.facts.layouts.read(whole, env) is Layout.STACKED:
        for part in parts:
            yield from row_numbers.numbers(draft, part)


def maybe_parted(draft: Draft, loop: BatchLoop, node: ast.AST) -> Iterator[tuple[ast.Name, ast.expr]]:
    """The same of something that is made of a batch, if it is not known what stands in it one after another; with what
    is cut."""
    whole, parts = _taken_apart(draft, node)
    if not parts or not isinstance(whole, ast.Name) or not _is_from(draft, whole, loop):
        return
    env = draft.environment(loop, draft.facts.index.statement(node))
    if env is None or draft.facts.layouts.read(whole, env) in (Layout.UNKNOWN, Layout.UNSURE):
        yield from ((whole, size) for part in parts for size in row_numbers.numbers(draft, part))


def _is_from(draft: Draft, name: ast.Name, loop: BatchLoop, steps: int = _STEPS) -> bool:
    """Whether a variable holds something that is computed from the loop's batch, which a function may be handed."""
    if draft.facts.batches.is_from(name, loop, ()):
        return True
    found: list[ast.expr] = []
    for binding in draft.facts.resolver.bindings(name):
        function = draft.facts.index.function(name)
        if binding.how is not How.PARAMETER or not isinstance(function, FUNCTIONS):
            found += [binding.value] if binding.value is not None else []
            continue
        for given in (draft.facts.resolver.bind(site, function) for site in draft.facts.resolver.sites(function)):
            found += [given[binding.name]] if given and binding.name in given else []
    parts = (n for one in found for n in loads(one) if n is not name)
    return steps > 0 and any(_is_from(draft, part, loop, steps - 1) for part in parts)


def _taken_apart(draft: Draft, node: ast.AST) -> tuple[ast.expr | None, list[ast.expr]]:
    """What is cut into parts, and the numbers that say where."""
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
    return whole, parts


def _first(node: ast.Subscript) -> ast.Slice | None:
    """The part of a tensor that is taken, in the first of its dimensions of which one is."""
    slices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    found = next(iter(slices), None)
    return found if isinstance(found, ast.Slice) else None
