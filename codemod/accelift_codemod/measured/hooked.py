"""What hooks of networks put into objects of the script: each process runs them on its own share."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, hooks
from accelift_codemod.facts.index import Binding
from accelift_codemod.facts.owners import GOES_THROUGH
from accelift_codemod.facts.tree import walk
from accelift_codemod.following.onward import Read, reached
from accelift_codemod.measured.counting_networks import is_of_training, said
from accelift_codemod.measured.numbers import number_of
from accelift_codemod.measured.updates import sets_gradient
from accelift_codemod.plan import Finding, Severity

_STEPS = 3  # of functions and loops, from where a network is to where a part of it gets its hook


def hooked(draft: Draft) -> Iterator[Finding]:
    """What is told of what hooks on trained networks keep, what decides by it, and what gradients are made of it."""
    told: set[ast.Call] = set()
    for one in hooks.kept(draft.facts):
        func = one.call.func
        if not isinstance(func, ast.Attribute) or not _is_trained(draft, func.value):
            continue
        numbers = any(isinstance(n, ast.Call) and number_of(draft, n) is not None for n in walk(one.put))
        reads: list[Read] = [n for n in hooks.reads(draft.facts, one) if is_of_training(draft, n)]
        if one.call not in told and any(sets_gradient(draft.facts.index.statement(n)) for n in reached(draft, reads)):
            told.add(one.call)
            yield draft.finding(
                "COLL-RANKFLOW",
                Severity.ERROR,
                one.call,
                f"`{ast.unparse(one.place)}` is of one process's share of the data, and gradients are changed by it: "
                "the processes would end with different models",
                "average what they are changed by with accelerator.reduce",
            )
            continue
        yield from said(draft, one.call, ast.unparse(one.place), reads, tests=numbers)


def _is_trained(draft: Draft, node: ast.expr, steps: int = _STEPS) -> bool:
    """Whether an expression is a trained network or a part of one, perhaps where a function is handed it, or where a
    loop goes through its parts: `for layer in net.modules()`."""
    if draft.facts.objects.is_part(node) or draft.facts.objects.trained_models(node):
        return True
    resolver = draft.facts.resolver
    for binding in resolver.bindings(node) if isinstance(node, ast.Name) and steps else ():
        wholes = resolver.handed(binding) if binding.how is How.PARAMETER else [_dealt(binding)]
        if any(_is_trained(draft, whole, steps - 1) for whole in wholes if whole is not None):
            return True
    return False


def _dealt(binding: Binding) -> ast.expr | None:
    """What a loop goes through the parts of, where it binds a variable."""
    func = binding.value.func if isinstance(binding.value, ast.Call) and binding.how is How.LOOP else None
    return func.value if isinstance(func, ast.Attribute) and func.attr in GOES_THROUGH else None
