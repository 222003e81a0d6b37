"""What hooks of networks put into objects of the script: each process runs them on its own share."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, hooks
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured.counting_networks import is_of_training, said
from accelift_codemod.measured.numbers import number_of
from accelift_codemod.measured.onward import Read
from accelift_codemod.plan import Finding


def hooked(draft: Draft) -> Iterator[Finding]:
    """What is told of what hooks on trained networks keep, and what decides by it."""
    for one in hooks.kept(draft.facts):
        func = one.call.func
        if not isinstance(func, ast.Attribute) or not _is_trained(draft, func.value):
            continue
        numbers = any(isinstance(n, ast.Call) and number_of(draft, n) is not None for n in walk(one.put))
        reads: list[Read] = [n for n in hooks.reads(draft.facts, one) if is_of_training(draft, n)]
        yield from said(draft, one.call, ast.unparse(one.place), reads, tests=numbers)


def _is_trained(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is a trained network or a part of one, perhaps where a function is handed it."""
    if draft.facts.objects.is_part(node) or draft.facts.objects.trained_models(node):
        return True
    resolver = draft.facts.resolver
    parameters = (b for b in resolver.bindings(node) if b.how is How.PARAMETER) if isinstance(node, ast.Name) else ()
    handed = [value for binding in parameters for value in resolver.handed(binding) if value is not None]
    return any(draft.facts.objects.is_part(n) or draft.facts.objects.trained_models(n) for n in handed)
