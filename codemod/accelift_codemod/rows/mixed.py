"""Where the size of a whole batch is taken for a number of rows, and for something else, too: a share has fewer."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.plan import Finding, Severity
from accelift_codemod.rows import batch_sizes, fallbacks, made_for, row_numbers, said_rows
from accelift_codemod.rows.copies import is_place

_FROM_TENSORS = "take the number of rows from the tensors that the function is given"


def findings(
    draft: Draft, loop: BatchLoop, sizes: list[ast.expr], nodes: list[ast.AST], said: Set[ast.AST]
) -> Iterator[Finding]:
    """Functions that are handed the batch size for a number of rows, and for something else, too, or have it by
    default; some reads are `said` to be such numbers."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    told: set[ast.expr] = set()
    for size, why, remedy in _meant_otherwise(draft, loop, nodes, calls):
        whole = batch_sizes.is_size(draft, size, loop, sizes) or batch_sizes.is_handed(draft, size, loop, sizes)
        if whole and size not in told:
            told.add(size)
            yield draft.finding("BATCH-MIXED", Severity.WARNING, size, why, remedy)
    for call in calls:
        function = draft.facts.resolver.callee(call)
        bound = draft.facts.resolver.bind(call, function) if isinstance(function, FUNCTIONS) else None
        for name, given in (bound or {}).items():
            if function is None or not is_place(given) or not batch_sizes.is_size(draft, given, loop, sizes):
                continue
            rows = row_numbers.used(draft, function, name, said)
            if rows and not row_numbers.only_rows(draft, function, name, said):
                yield draft.finding(
                    "BATCH-MIXED",
                    Severity.WARNING,
                    call,
                    f"`{draft.facts.segment(call.func)}` takes `{name}` for a number of rows, and for more than "
                    "that; a process has only its share of the batch",
                    _FROM_TENSORS,
                )


def _meant_otherwise(
    draft: Draft, loop: BatchLoop, nodes: list[ast.AST], calls: list[ast.Call]
) -> Iterator[tuple[ast.expr, str, str]]:
    """What may be the size of the whole batch where a number of rows is meant; why, and what to do."""
    cut: set[tuple[Function | None, str]] = set()
    for node in nodes:
        for size in said_rows.maybe_compared(draft, loop, node):
            yield (
                size,
                f"`{draft.facts.segment(node)}` compares the size of the whole batch with what may be the number "
                "of rows of a process's share",
                "divide the batch size by accelerator.num_processes if rows are compared here",
            )
        for whole, size in said_rows.maybe_parted(draft, loop, node):
            if (place := (draft.function(whole), whole.id)) in cut:
                continue  # the same in other places
            cut.add(place)
            yield (
                size,
                f"`{draft.facts.segment(node)}` takes rows by the size of the whole batch out of what may have "
                "those of a process's share",
                "take the number of rows from a tensor of the batch",
            )
    for call in calls:
        for size in fallbacks.mixed(draft, said_rows.asked(draft, call)):
            yield (
                size,
                f"`{draft.facts.segment(size)}`, the size of the whole batch, is a number of rows here where no "
                "other is said, and more than that; a process has only its share of the batch",
                _FROM_TENSORS,
            )
        function = draft.facts.resolver.callee(call)
        if not isinstance(function, FUNCTIONS):
            continue
        for name, size in made_for.by_default(draft, call, function).items():
            if is_place(size) and row_numbers.used(draft, function, name):
                yield (
                    size,
                    f"`{draft.facts.segment(call.func)}` takes the size of the whole batch, its default for "
                    f"`{name}`, for a number of rows, and a process has only its share of one",
                    _FROM_TENSORS,
                )
