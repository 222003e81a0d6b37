"""Runs the rules over a source and settles what they say into one plan."""

from __future__ import annotations

import ast
from dataclasses import replace

from accelift_codemod.blueprint import Options
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Facts
from accelift_codemod.placement import draft
from accelift_codemod.plan import Edit, Finding, Need, Operation, Outcome, Plan, Safety, Severity, Span
from accelift_codemod.refusals import Refused
from accelift_codemod.rules import Rule, all_rules

_NOTHING = frozenset({"ALREADY-ACCELERATE", "ALREADY-DISTRIBUTED", "NO-TRAINING", "NO-ENTRY", "FRAMEWORK"})


def make_plan(facts: Facts, options: Options) -> tuple[Plan, Draft | None]:
    """The plan for one script, and the draft behind it (None if the script is left alone)."""
    source = facts.source
    try:
        work = Draft(facts, draft(facts, options))
        _run(work, options)
    except Refused as refused:
        finding = refused.finding
        outcome = Outcome.NOTHING if finding.code in _NOTHING else Outcome.REFUSED
        if outcome is Outcome.NOTHING:
            finding = replace(finding, severity=Severity.NOTE)
        return Plan(source.path, source.digest, (), (finding,), outcome, finding.message), None
    joined = _joined(work, sorted(work.edits, key=lambda e: e.span))
    edits = tuple(_as_written(work, e) for e in joined)
    findings = tuple(sorted(dict.fromkeys(work.findings), key=lambda f: (f.line, f.code)))
    worrying = any(f.severity is not Severity.NOTE for f in findings)
    outcome = Outcome.CONVERTED_WITH_FINDINGS if worrying else Outcome.CONVERTED
    return Plan(source.path, source.digest, edits, findings, outcome), work


def _as_written(work: Draft, edit: Edit) -> Edit:
    """An edit of the source's own tree, with the accelerator as it is spelled there."""
    if edit.node is None:
        return edit.named(work.blueprint.accelerator)
    return replace(edit.named(work.reach.spelled(edit.node)), node=work.facts.original(edit.node))


def _run(work: Draft, options: Options) -> None:
    for rule in all_rules():
        if rule.closing == 1:
            _settle(work)
        if work.facts.processes.managed and not rule.always:
            continue
        chosen = rule.required or options.chooses(rule.code)
        if not chosen and rule.closing:
            continue
        left: list[Edit] = []
        for item in rule.plan(work):
            if isinstance(item, Finding):
                if chosen or rule.before:  # of a rule that only reports, nothing is left
                    work.findings.append(item)
            elif not chosen:
                left.append(item)
            elif item.safety is not Safety.UNSAFE:
                work.add(item)
        if left:
            work.findings.append(_left_out(rule, left))


def _left_out(rule: Rule, edits: list[Edit]) -> Finding:
    """What a rule that the user left out would have changed."""
    lines = sorted({e.span.line for e in edits})
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines))}"
    needed = any(e.need is not Need.NONE for e in edits)
    return Finding(
        rule.code,
        Severity.WARNING if needed else Severity.NOTE,
        lines[0],
        f"left out as asked ({where}); it is there for a reason: {edits[0].reason}",
        f"`accelift rule {rule.code}` tells what it does",
    )


def _settle(work: Draft) -> None:
    """Drop edits that would use the accelerator where it does not reach; their findings take their place."""
    reach = work.reach
    for edit in [e for e in work.edits if e.need is Need.WEAK and not reach.available(e)]:
        work.remove(edit)
        if edit.otherwise is not None and not (edit.otherwise.code == "SAVE-RACE" and _takes_turns(work, edit)):
            work.findings.append(edit.otherwise)
    for edit in [e for e in work.edits if e.operation is Operation.ENCLOSE and _enclosed(work, e)]:
        work.remove(edit)


def _takes_turns(work: Draft, edit: Edit) -> bool:
    """Whether an edit's place only runs under a download guard, where processes go one after the other."""
    assert edit.node is not None
    places = work.blueprint.timeline.places(edit.node, work.reach.home)
    return bool(places) and all(
        any(e.operation is Operation.ENCLOSE and "process_first" in e.code for e in work.edits_at(s))
        for s in map(work.facts.index.statement, places)
    )


def _enclosed(work: Draft, edit: Edit) -> bool:
    """Whether a statement already stands under the header that an edit would put it under."""
    assert edit.node is not None
    return any(
        other.operation is Operation.ENCLOSE and other.code == edit.code
        for outer in work.facts.index.ancestors(edit.node)
        for other in work.edits_at(outer)
    )


def _joined(work: Draft, edits: list[Edit]) -> list[Edit]:
    """Neighbouring statements that go under the same header go under one."""
    joined: list[Edit] = []
    for edit in edits:
        before = joined[-1] if joined else None
        if (
            before is not None
            and edit.operation is before.operation is Operation.ENCLOSE
            and edit.code == before.code
            and isinstance(edit.node, ast.stmt)
            and isinstance(before.node, ast.stmt)
            and _follows(work, before, edit)
        ):
            span = Span(before.span.line, before.span.column, edit.span.end_line, edit.span.end_column)
            joined[-1] = replace(before, span=span)
        else:
            joined.append(edit)
    return joined


def _follows(work: Draft, before: Edit, edit: Edit) -> bool:
    block, place = work.facts.index.block(edit.node)  # type: ignore[arg-type]
    other, _ = work.facts.index.block(before.node)  # type: ignore[arg-type]
    if block is not other or place == 0:
        return False
    return (block[place - 1].end_lineno, block[place - 1].end_col_offset) == (
        before.span.end_line,
        before.span.end_column,
    )
