"""Waits that not all processes would come to: iterations come there by what differs from process to process."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from accelift_codemod.chance.noise import alike
from accelift_codemod.draft import Draft
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.measured.averaging import averaging
from accelift_codemod.measured.decisions import goes_by
from accelift_codemod.measured.shares import local_names
from accelift_codemod.measured.sums import containers
from accelift_codemod.plan import Finding, Severity

_CALLS = 3  # of functions, from an iteration to what waits


def parting(draft: Draft, node: ast.AST, asked: Sequence[ast.expr] = (), depth: int = 0) -> ast.expr | None:
    """The test, in an iteration of training, by which some processes come to a node and others do not.

    Args:
        draft: the draft.
        node: what is come to, or the call of a function that does.
        asked: what this function is told that it tests before.
        depth: how many calls have been followed.
    """
    function, child, tests = draft.function(node), node, list(asked)
    for parent in draft.facts.index.ancestors(node):
        if parent is function:
            break
        loop = draft.blueprint.loops.get(parent)
        trains = loop is not None and loop in draft.blueprint.train_loops
        if loop is not None and trains and tests and not isinstance(loop.node, ast.comprehension):
            local = local_names(draft, loop, loop.node) if not alike(draft, loop) else set()
            around = containers(draft, loop.node, local)
            found = next((test for test in tests if goes_by(draft, test, local, around)), None)
            if found is not None:
                return found
        if isinstance(parent, (ast.If, ast.While)) and child is not parent.test:
            tests.append(parent.test)
        child = parent
    for site in draft.facts.resolver.sites(function) if isinstance(function, FUNCTIONS) and depth < _CALLS else ():
        bound = draft.facts.resolver.bind(site, function) or {}  # type: ignore[arg-type]
        names = dict.fromkeys(name.id for test in tests for name in loads(test))
        found = parting(draft, site, [bound[name] for name in names if name in bound], depth + 1)
        if found is not None:
            return found
    return None


def parting_reads(draft: Draft, read: ast.Call) -> ast.expr | None:
    """The test by which some processes come to one of the places where all ask for a file."""
    tests = (parting(draft, statement) for statement in draft.asking(read))
    return next((test for test in tests if test is not None), None)


def unawaited(draft: Draft, read: ast.AST, test: ast.expr) -> Finding:
    """What is told of a read before which nothing waits, as not all processes come there."""
    return draft.finding(
        "READ-EARLY",
        Severity.WARNING,
        read,
        f"the main process may still be writing what is read here, and nothing waits for it: by "
        f"`{draft.facts.segment(test)}`, which differs from process to process, some come here and others do not",
        f"decide on a value that is the same everywhere, averaged by {averaging(draft, read, test)}, and call "
        "accelerator.wait_for_everyone() before it",
    )
