"""A plan for a program as plans for its files."""

from __future__ import annotations

import re
from dataclasses import replace

from accelift_codemod.facts.values import Evidence
from accelift_codemod.plan import Edit, Finding, Outcome, Plan, Severity, Span, renamed_lines
from accelift_codemod.project.program import QUALIFIED, Program, Unit
from accelift_codemod.settling.said_once import told_once


class CannotSpell(Exception):
    """A file has no name for a global of another file."""


def divide(program: Program, plan: Plan) -> dict[Unit, Plan]:
    """The plans of a program's files; the script's own is always there, another's if it has edits or findings.

    Raises:
        CannotSpell: an edit needs a name that its file does not have.
    """
    edits: dict[Unit, list[Edit]] = {program.entry: []}
    findings: dict[Unit, list[Finding]] = {program.entry: []}
    for edit in plan.edits:
        unit = program.unit(edit.span.line)
        edits.setdefault(unit, []).append(_edit(program, unit, edit))
    for finding in plan.findings:
        unit = program.unit(finding.line) if finding.line else program.entry
        findings.setdefault(unit, []).append(_finding(program, unit, finding))
    found = {}
    for unit in dict.fromkeys([program.entry, *edits, *findings]):
        own = tuple(sorted(told_once(findings.get(unit, ())), key=lambda f: (f.line, f.code)))
        worrying = any(f.severity is not Severity.NOTE for f in own)
        outcome = Outcome.CONVERTED_WITH_FINDINGS if worrying else Outcome.CONVERTED
        if unit not in edits:
            outcome = Outcome.CHECKED
        found[unit] = Plan(
            unit.source.path,
            unit.source.digest,
            tuple(edits.get(unit, ())),
            own,
            outcome,
            _readable(unit, plan.reason),
        )
    return found


def refusal(program: Program, plan: Plan) -> Plan:
    """The plan of a program that is left alone, as one of its script: places in other files are named in words."""
    findings = []
    for finding in plan.findings:
        unit = program.unit(finding.line) if finding.line else program.entry
        moved = _finding(program, unit, finding)
        if unit is not program.entry:
            moved = replace(moved, line=0, message=f"{unit.source.path}:{moved.line}: {moved.message}")
        findings.append(moved)
    return Plan(plan.path, plan.digest, (), tuple(findings), plan.outcome, findings[0].message if findings else "")


def _edit(program: Program, unit: Unit, edit: Edit) -> Edit:
    node = program.originals[edit.node] if edit.node is not None else None
    otherwise = _finding(program, unit, edit.otherwise) if edit.otherwise is not None else None
    return replace(
        edit,
        node=node,
        span=Span(
            edit.span.line - unit.base,
            edit.span.column,
            edit.span.end_line - unit.base,
            edit.span.end_column,
        ),
        code=_spelled(program, unit, edit.code),
        reason=_readable(unit, edit.reason),
        evidence=_evidence(program, unit, edit.evidence),
        otherwise=otherwise,
    )


def _finding(program: Program, unit: Unit, finding: Finding) -> Finding:
    return replace(
        finding,
        line=finding.line - unit.base if finding.line else 0,
        message=_readable(unit, renamed_lines(finding.message, lambda line: _named(program, unit, line))),
        remedy=_readable(unit, finding.remedy),
        evidence=_evidence(program, unit, finding.evidence),
        fix=tuple(_edit(program, unit, edit) for edit in finding.fix),
        tells=None if finding.tells is None else tuple(_readable(unit, name) for name in finding.tells),
    )


def _named(program: Program, unit: Unit, line: int) -> str:
    """A line of the program, for somebody who reads one of its files."""
    own = program.unit(line)
    return f"line {line - own.base}" + ("" if own is unit else f" of {own.source.path}")


def _evidence(program: Program, unit: Unit, steps: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    found = []
    for step in steps:
        own = program.unit(step.line)
        path = "" if own is unit else own.source.path
        found.append(Evidence(step.line - own.base, _readable(own, step.text), path))
    return tuple(found)


def _spelled(program: Program, unit: Unit, code: str) -> str:
    """Code with the globals of files as a file calls them."""

    def spell(found: re.Match[str]) -> str:
        if found[1] == unit.key:
            return found[2]
        text = program.spelled(unit, found[0])
        if text is None:
            raise CannotSpell(f"{unit.source.path} would need `{found[2]}` of {found[1]}, which it does not import")
        return text

    return QUALIFIED.sub(spell, code)


def _readable(unit: Unit, text: str) -> str:
    """Words with the globals of files as people call them."""
    return QUALIFIED.sub(lambda m: m[2] if m[1] == unit.key else f"{m[1].replace('›', '.')}.{m[2]}", text)
