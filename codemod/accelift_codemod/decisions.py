"""Decisions that a training loop takes, on what differs from process to process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Finding, Severity
from accelift_codemod.sums import Loop


def decisions(draft: Draft, node: Loop, local: set[str]) -> Iterator[Finding]:
    """Tests inside the loop on local values that leave it or skip a step, and loops over the pieces of a batch."""
    for statement in (s for outer in node.body for s in walk(outer)):
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            yield from _pieces(draft, statement, local)
        if isinstance(statement, (ast.Assign, ast.AugAssign)) and _sets_group(draft, statement):
            if local & {n.id for n in loads(statement.value)}:
                yield _differs(draft, statement, statement.value)
        if not isinstance(statement, (ast.If, ast.While)):
            continue
        if not local & {n.id for n in loads(statement.test)}:
            continue
        inside = [n for s in statement.body for n in walk(s)]
        leaves = any(isinstance(n, (ast.Break, ast.Continue, ast.Return)) for n in inside)
        if leaves or any(n in draft.facts.loops.backwards for n in inside):
            what = "leave the loop" if leaves else "run the backward pass"
            yield draft.finding(
                "COLL-RANKFLOW",
                Severity.ERROR,
                statement,
                f"`{draft.facts.segment(statement.test)}` differs from process to process, and some would {what} "
                "while others do not, and wait",
                "decide on a value that is the same everywhere (accelerator.reduce, or set_trigger and check_trigger)",
            )
        elif _weighs_up(statement.test) and any(_updates(draft, n) for n in inside):
            yield _differs(draft, statement, statement.test)
        elif _weighs_up(statement.test) and _losses(draft, node) & {n for s in inside for n in stores(s)}:
            yield draft.finding(
                "COLL-RANKFLOW",
                Severity.ERROR,
                statement,
                f"`{draft.facts.segment(statement.test)}` differs from process to process, and some would train "
                "on another loss than others",
                "decide on a value that is the same everywhere, averaged by accelerator.reduce",
            )


def _differs(draft: Draft, statement: ast.stmt, value: ast.expr) -> Finding:
    return draft.finding(
        "COLL-RANKFLOW",
        Severity.ERROR,
        statement,
        f"`{draft.facts.segment(value)}` differs from process to process, and so would the update of the model: "
        "the processes would end with different ones",
        "decide on a value that is the same everywhere, averaged by accelerator.reduce",
    )


def _updates(draft: Draft, node: ast.AST) -> bool:
    """Whether a node steps an optimizer or a schedule, or sets what an optimizer steps with."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
        return bool(draft.facts.resolver.roles(node.func.value) & {Role.OPTIMIZER, Role.SCHEDULER})
    return _sets_group(draft, node)


def _pieces(draft: Draft, inner: ast.For | ast.AsyncFor, local: set[str]) -> Iterator[Finding]:
    """A loop that runs backward as often as there are pieces of what the process has."""
    if local & {n.id for n in loads(inner.iter)} and draft.facts.loops.reaches_backward(inner.body):
        yield draft.finding(
            "COLL-RANKFLOW",
            Severity.ERROR,
            inner,
            f"`{draft.facts.segment(inner.iter)}` may have more pieces on one process than on another, which then "
            "runs fewer backward passes, and some wait",
            "let every process take as many pieces: of batches that are shared out evenly (drop_last=True), or a "
            "fixed number",
        )


def _weighs_up(test: ast.expr) -> bool:
    """Whether a test compares numbers; not whether something is there, or of what kind it is."""
    sizes = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    return any(isinstance(n, ast.Compare) and any(isinstance(o, sizes) for o in n.ops) for n in walk(test))


def _losses(draft: Draft, node: Loop) -> set[str]:
    """Variables that backward passes in a loop start from."""
    inside = {call for call in draft.facts.loops.backwards if node in draft.facts.index.ancestors(call)}
    return {n.id for call in inside if isinstance(call.func, ast.Attribute) for n in loads(call.func.value)}


def _sets_group(draft: Draft, node: ast.AST) -> bool:
    """Whether a statement sets an entry of an optimizer's param_groups."""
    if not isinstance(node, (ast.Assign, ast.AugAssign)):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        if isinstance(target, ast.Subscript):
            base = target.value
            bindings = draft.facts.resolver.bindings(base) if isinstance(base, ast.Name) else []
            sources = [base, *(b.value for b in bindings if b.how is How.LOOP and b.value is not None)]
            if any(isinstance(n, ast.Attribute) and n.attr == "param_groups" for s in sources for n in walk(s)):
                return True
    return False
