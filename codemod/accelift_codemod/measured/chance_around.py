"""Evaluations and trainings that only some processes come to, as each of them draws for itself whether it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance import seeds
from accelift_codemod.draft import Draft
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured import coins
from accelift_codemod.measured.asked import deciding, numbers
from accelift_codemod.measured.steering import meets
from accelift_codemod.plan import Finding, Severity

_CHOICES = (ast.If, ast.While, ast.For, ast.IfExp, ast.Match)
# What the system gives each process, whatever is seeded.
_OF_SYSTEM = frozenset("os.urandom uuid.uuid1 uuid.uuid4 os.getpid".split())
_DEPTH = 3  # of functions that return what is drawn


def decided(draft: Draft) -> Iterator[Finding]:
    """Choices outside of iterations, and how often a loop runs, by which all or none go through a loader together."""
    training = {loop.node for loop in draft.blueprint.train_loops}
    for node in (n for n in walk(draft.facts.tree) if isinstance(n, _CHOICES)):
        if not draft.facts.runs(node) or training & {node, *draft.facts.index.ancestors(node)}:
            continue
        asked = [node.subject if isinstance(node, ast.Match) else node.test] if not isinstance(node, ast.For) else []
        asked += numbers(draft, node.iter) if isinstance(node, ast.For) else ()
        coin = next((coin for one in asked if (coin := drawn(draft, one)) is not None), None)
        if coin is not None and meets(draft, _arms(node)):
            yield draft.finding(
                "COLL-RANKFLOW",
                Severity.ERROR,
                node,
                f"`{draft.facts.segment(coin)}` gives every process something else, and whether it goes through a "
                "loader that is shared out is decided by that: some would, while others do not, and wait",
                "seed the generator before, or draw once and broadcast it",
            )


def drawn(draft: Draft, asked: ast.expr, depth: int = _DEPTH) -> ast.Call | None:
    """A call in an expression, in what its variables are set to, or in functions that it calls, that draws something
    that every process has for itself."""
    found = coins.drawn(draft, asked)
    if found is not None:
        return found
    resolver = draft.facts.resolver
    for call in (n for n in deciding(draft, asked) if isinstance(n, ast.Call)):
        if _is_of_system(draft, call) or seeds.unseeded(draft, call):
            return call
        callee = resolver.callee(call)
        for returned in resolver.returns(callee) if isinstance(callee, FUNCTIONS) and depth else ():
            inner = drawn(draft, returned.value, depth - 1) if returned.value is not None else None
            if inner is not None:
                return inner
    return None


def _is_of_system(draft: Draft, call: ast.Call) -> bool:
    qualified = draft.facts.resolver.qualified(call.func) or ""
    return qualified in _OF_SYSTEM or qualified.startswith("secrets.")


def _arms(node: ast.AST) -> list[ast.stmt | ast.expr]:
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.Match):
        return [statement for case in node.cases for statement in case.body]
    return [*getattr(node, "body", ()), *getattr(node, "orelse", ())]
