"""Runs the rules over a source and settles what they say into one plan."""

from __future__ import annotations

from dataclasses import replace

from accelift_codemod import refusals
from accelift_codemod.blueprint.placement import draft
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Facts, position
from accelift_codemod.facts.conditions import FALSE
from accelift_codemod.facts.idle import Idle
from accelift_codemod.main_process import alone, waiting
from accelift_codemod.options import Options
from accelift_codemod.plan import STATE, Edit, Finding, Need, Operation, Outcome, Plan, Safety, Severity, Span
from accelift_codemod.reach import states
from accelift_codemod.reasons import Refused
from accelift_codemod.rules import Rule, all_rules
from accelift_codemod.rules.create import Create
from accelift_codemod.rules.prepare import gives_loader
from accelift_codemod.settling import cases, headers, pictures, twins
from accelift_codemod.settling.said_once import told_once
from accelift_codemod.source import Source

_EFFECTS = frozenset({"SAVE-RACE", "PRINT-ALL", "TRACK-ALL", "COMMAND-ALL"})  # of what runs on every process
_NOTHING = frozenset({"ALREADY-ACCELERATE", "ALREADY-DISTRIBUTED", "NO-TRAINING", "NO-ENTRY", "FRAMEWORK"})


def make_plan(facts: Facts, options: Options) -> tuple[Plan, Draft | None]:
    """The plan for one script, and the draft behind it (None if the script is left alone)."""
    return _of_cases(facts.cases, options) if facts.cases else _plan(facts, options)


def _of_cases(chosen: list[Facts], options: Options) -> tuple[Plan, Draft | None]:
    """One plan for a script that chooses one of several classes, and the draft for one of them that may want the CPU,
    if one may."""
    plans, drafts = list[Plan](), list[Draft]()
    for case in chosen:
        plan, work = _plan(case, options)
        if plan.outcome is Outcome.REFUSED:
            return cases.refused(plan, case.case.said), None
        plans.append(plan)
        drafts += [work] if work is not None else []
    if not drafts:
        return plans[0], None
    plan = cases.joined(chosen, plans)
    if plan.outcome is not Outcome.REFUSED:
        return plan, next((work for work in drafts if work.reach.cpu != FALSE), drafts[0])
    if any(case.stateless for case in chosen) or not any(STATE in e.code for one in plans for e in one.edits):
        return plan, None
    for case in chosen:
        case.stateless = True  # one may ask early which process it is, and another may not
    return _of_cases(chosen, options)


def _plan(facts: Facts, options: Options) -> tuple[Plan, Draft | None]:
    """The plan for a script of which every class is known."""
    source = facts.source
    try:
        refusals.check(facts, options)
        work = Draft(facts, draft(facts, options))
        _run(work, options)
        joined = twins.joined(work, headers.joined(work, sorted(work.edits, key=_order)))
    except Refused as refused:
        if refused.loader and options.unsafe and refused.loader not in facts.assumed:
            return _plan(facts.assuming(refused.loader), options)
        finding = refused.finding
        if refused.loader and not options.unsafe:
            finding = replace(finding, remedy=f"{finding.remedy}, or use --unsafe if {gives_loader(refused.loader)}")
        outcome = Outcome.NOTHING if finding.code in _NOTHING else Outcome.REFUSED
        if outcome is Outcome.NOTHING:
            finding = replace(finding, severity=Severity.NOTE)
        return Plan(source.path, source.digest, (), (finding,), outcome, finding.message), None
    edits = tuple(_as_written(work, e) for e in joined)
    idle = Idle(facts.resolver, work.guarded).lines(f.line for f in work.findings if f.code in _EFFECTS)
    told = (f for f in dict.fromkeys(work.findings) if f.code not in _EFFECTS or f.line not in idle)
    said = told_once(told) if isinstance(source, Source) else told  # of several files, the lines are not those of one
    findings = tuple(sorted(said, key=lambda f: (f.line, f.code)))
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
            if isinstance(item, Edit) and item.safety is Safety.UNSAFE and not options.unsafe:
                item = item.offered()
            if isinstance(item, Finding):
                if chosen or rule.before:  # of a rule that only reports, nothing is left
                    work.findings.append(item)
            elif chosen:
                work.add(item)
            else:
                left.append(item)
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


def _order(edit: Edit) -> tuple[Span, bool]:
    """Edits in the order of the source; what makes the accelerator before what uses it, in front of one statement."""
    return edit.span, edit.rule != Create.code or edit.operation is not Operation.BEFORE


def _settle(work: Draft) -> None:
    """Drop edits that would use the accelerator where it does not reach; their findings take their place."""
    reach = work.reach
    for edit in [e for e in work.edits if e.need is Need.WEAK]:
        if edit.otherwise is not None and edit.otherwise.code == "SAVE-RACE" and _takes_turns(work, edit):
            work.remove(edit)
        elif not reach.available(edit):
            work.remove(edit)
            other = states.asked(reach, edit)
            if other is not None:
                work.add(other)
            elif edit.otherwise is not None:
                work.findings.append(edit.otherwise)
    for edit in [e for e in work.edits if e.need is Need.STRONG and states.suffices(work, e)]:
        work.remove(edit)
        work.add(states.required(reach, edit))
    alone.settle(work)
    waiting.settle(work)
    headers.drop_inner(work)
    pictures.take_along(work)
    headers.lift(work)


def _takes_turns(work: Draft, edit: Edit) -> bool:
    """Whether an edit's place first runs under a download guard, where processes go one after the other."""
    assert edit.node is not None
    places = work.blueprint.timeline.places(edit.node, work.reach.home)
    if not places:
        return False
    first = work.facts.index.statement(min(places, key=position))
    return any(e.operation is Operation.ENCLOSE and "process_first" in e.code for e in work.edits_at(first))
