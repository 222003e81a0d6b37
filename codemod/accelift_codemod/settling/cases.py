"""One plan for a script that chooses one of several classes: what is planned for each of them, put together."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from accelift_codemod.facts import Facts
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Finding, Operation, Outcome, Plan, Severity

_Key = tuple[object, ...]
_IMPORTS = (ast.Import, ast.ImportFrom)
_IMPORTING = ("import ", "from ")
_BESIDE = (Operation.BEFORE, Operation.AFTER)


def joined(cases: Sequence[Facts], plans: Sequence[Plan]) -> Plan:
    """The plan for all cases. Each run of the script is one of them, so every statement has to get the edits that each
    case asks for in which it may run."""
    runs = [_run(facts) for facts in cases]
    wanted = [_by_node(plan) for plan in plans]
    found: dict[_Key, Edit] = {}
    for node in dict.fromkeys(node for one in wanted for node in one):
        asked = [one.get(node, {}) for one, run in zip(wanted, runs, strict=True) if node is None or node in run]
        asked = asked or [one[node] for one in wanted if node in one]
        if node is not None and any(_acting(one) != _acting(asked[0]) for one in asked):
            return _apart(cases, plans[0], node)
        common = set.intersection(*(set(one) for one in asked))  # an import goes if it does in every case
        for one in asked:
            found.update({k: e for k, e in one.items() if k in common or e.operation in _BESIDE})
    told = (f for plan in plans if plan.outcome is not Outcome.NOTHING for f in plan.findings)
    findings = sorted(dict.fromkeys(told), key=lambda f: (f.line, f.code))
    worrying = any(f.severity is not Severity.NOTE for f in findings)
    outcome = Outcome.CONVERTED_WITH_FINDINGS if worrying else Outcome.CONVERTED
    edits = sorted(found.values(), key=lambda e: e.span)
    return replace(plans[0], edits=tuple(edits), findings=tuple(findings), outcome=outcome, reason="")


def refused(plan: Plan, said: str) -> Plan:
    """The plan of a script that is left alone because it is in one case."""
    findings = tuple(replace(f, message=f"where {said}, {f.message}") for f in plan.findings)
    return replace(plan, findings=findings, outcome=Outcome.REFUSED, reason=findings[0].message)


def _by_node(plan: Plan) -> dict[ast.AST | None, dict[_Key, Edit]]:
    found: dict[ast.AST | None, dict[_Key, Edit]] = {}
    for edit in plan.edits:
        found.setdefault(edit.node, {})[edit.node, edit.operation, edit.span, edit.code, edit.place] = edit
    return found


def _acting(edits: dict[_Key, Edit]) -> set[_Key]:
    """The edits of a node but for those of imports, which change nothing for code that does not need them."""
    return {k for k, e in edits.items() if not isinstance(e.node, _IMPORTS) and not e.code.startswith(_IMPORTING)}


def _run(facts: Facts) -> set[ast.AST]:
    """The nodes of the source that may run in a case; those of what is defined, if what it defines is run."""
    idle = {n for f in facts.index.functions if f not in facts.executed for n in walk(f)}
    return {facts.original(node) for node in walk(facts.tree) if node not in idle}


def _apart(cases: Sequence[Facts], plan: Plan, node: ast.AST) -> Plan:
    """The plan of a script in which a statement would have to be another in each case."""
    kind = "function" if cases[0].choices.functions else "class"
    said = "; ".join(facts.case.said for facts in cases[:2])
    finding = Finding(
        "LOOP-IN-CLASS",
        Severity.ERROR,
        node.lineno,  # type: ignore[attr-defined]
        f"`{cases[0].short(node)}` would have to be converted differently for each {kind} ({said}...)",
        "make model, optimizer and loaders in the same places for all of them, or keep a script for each",
    )
    return replace(plan, edits=(), findings=(finding,), outcome=Outcome.REFUSED, reason=finding.message)
