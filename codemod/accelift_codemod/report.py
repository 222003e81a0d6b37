"""Counts of a run and its exit code: the one place that knows both."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelift_codemod.outcomes import Outcome, Safety, Severity
from accelift_codemod.results import FileResult

if TYPE_CHECKING:
    from accelift_codemod.plan import Plan

_NAMED = 3  # files that a line names
_ORDER = (Outcome.CONVERTED, Outcome.CONVERTED_WITH_FINDINGS, Outcome.REFUSED, Outcome.NOTHING)


@dataclass
class Report:
    """Tallies file results."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    skipped: int = 0
    errors: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # of the scripts that are refused, by code
    findings: int = 0  # those of converted scripts that ask for attention
    edits: Counter[Safety] = field(default_factory=Counter)  # those of converted scripts
    _entered: dict[str, str] = field(default_factory=dict)  # training that nothing in its own file runs, by file
    _done: list[str] = field(default_factory=list)  # scripts that use Accelerate already
    _scripts: set[str] = field(default_factory=set)  # the files of scripts that train, converted or refused

    def add(self, result: FileResult) -> None:
        """Count one file."""
        if result.error:
            self.errors += 1
        elif result.skipped:
            self.skipped += 1
        elif result.plan is not None:
            self.outcomes[result.outcome] += 1
            self._reach(result, result.plan)
            if result.outcome is Outcome.REFUSED:
                self.reasons[result.plan.findings[0].code] += 1
            else:
                self.findings += len(result.plan.pending)
                self.edits.update(e.safety for e in result.plan.edits)

    def _reach(self, result: FileResult, plan: Plan) -> None:
        if result.outcome is not Outcome.NOTHING:
            self._scripts.update(map(os.path.realpath, (result.path, *result.program, *result.left)))
        for finding in plan.findings:
            if finding.code == "NO-ENTRY":
                self._entered[result.path] = f"{result.path}:{finding.line}"
            elif finding.code == "ALREADY-ACCELERATE":
                self._done.append(result.path)

    @property
    def unreached(self) -> list[str]:
        """Where training stands that no script of the run is known to run."""
        left = {path: place for path, place in self._entered.items() if os.path.realpath(path) not in self._scripts}
        if left and self._done:
            from accelift_codemod.project.surface import led_to  # late: few runs ask

            done = {str(path) for script in self._done for path in led_to(Path(script))}
            left = {path: place for path, place in left.items() if os.path.realpath(path) not in done}
        return list(left.values())

    @property
    def pending(self) -> int:
        """Refusals and findings that ask for attention."""
        return self.reasons.total() + self.findings

    @property
    def converted(self) -> int:
        return self.outcomes[Outcome.CONVERTED] + self.outcomes[Outcome.CONVERTED_WITH_FINDINGS]

    def exit_code(self, check: bool) -> int:
        """0: nothing to do, or done; 1: refusals or findings remain, or a check found changes; 2: a file failed."""
        if self.errors:
            return 2
        if self.pending or (check and self.converted):
            return 1
        return 0

    def summary(self, verb: str) -> str:
        """One line: how many files became what."""
        names = {
            Outcome.CONVERTED: verb,
            Outcome.CONVERTED_WITH_FINDINGS: f"{verb} with findings",
            Outcome.REFUSED: "refused",
            Outcome.NOTHING: "with nothing to do",
        }
        parts = [f"{self.outcomes[o]} {names[o]}" for o in _ORDER if self.outcomes[o]]
        if self.skipped:
            parts.append(f"{self.skipped} without torch")
        if self.errors:
            parts.append(f"{self.errors} not processed")
        return ", ".join(parts) if parts else "no files"

    def work_left(self) -> str:
        """One line: what is left to do by hand; empty if nothing is."""
        parts = []
        if self.reasons:
            scripts = count(self.reasons.total(), "script")
            parts.append(f"{scripts} ({', '.join(f'{code} {n}' for code, n in self.reasons.most_common())})")
        if self.findings:
            parts.append(f"{count(self.findings, 'finding')} in converted files")
        for safety in (Safety.REVIEW, Safety.UNSAFE):
            if self.edits[safety]:
                parts.append(f"{count(self.edits[safety], f'{safety.value} edit')} to look at")
        return f"left to do by hand: {', '.join(parts)}" if parts else ""

    def not_reached(self) -> str:
        """One line: training that was left as it is, because nothing is known to run it; empty if there is none."""
        places = self.unreached
        if not places:
            return ""
        more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
        return f"training that no script here is known to run, left as it is: {', '.join(places[:_NAMED])}{more}"

    def to_json(self) -> dict[str, Any]:
        """The tallies as plain data."""
        counts: dict[str, Any] = {o.value: self.outcomes[o] for o in _ORDER}
        look = {s.value: self.edits[s] for s in (Safety.REVIEW, Safety.UNSAFE)}
        left = {
            "reasons": dict(self.reasons),
            "findings": self.findings,
            "edits": look,
            "training not reached": self.unreached,
        }
        return {**counts, "without torch": self.skipped, "not processed": self.errors, "left to do by hand": left}


def count(number: int, thing: str) -> str:
    """A number of things, in words."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


@dataclass
class Findings:
    """Tallies what `accelift check` has found."""

    severities: Counter[Severity] = field(default_factory=Counter)
    checked: int = 0
    skipped: int = 0
    errors: int = 0

    def add(self, result: FileResult) -> None:
        """Count one file."""
        if result.error:
            self.errors += 1
        elif result.plan is None:
            self.skipped += 1
        else:
            self.checked += 1
            self.severities.update(f.severity for f in result.plan.findings)

    @property
    def exit_code(self) -> int:
        """0: nothing found, or notes only; 1: errors or warnings; 2: a file could not be processed."""
        if self.errors:
            return 2
        return 1 if self.severities[Severity.ERROR] or self.severities[Severity.WARNING] else 0

    def summary(self, verbosity: int = 0) -> str:
        """One line: how much was found in how many files."""
        parts = []
        for severity in Severity:
            count = self.severities[severity]
            if count:
                hidden = " (-v shows them)" if severity is Severity.NOTE and verbosity < 1 else ""
                parts.append(f"{count} {severity.value}{'s' if count > 1 else ''}{hidden}")
        found = ", ".join(parts) or "nothing found"
        scripts = "1 script that uses" if self.checked == 1 else f"{self.checked} scripts that use"
        text = f"{found} in {scripts} Accelerate"
        if self.skipped:
            text += f", {self.skipped} without it"
        if self.errors:
            text += f", {self.errors} not processed"
        return text

    def to_json(self) -> dict[str, Any]:
        """The tallies as plain data."""
        counts: dict[str, Any] = {f"{s.value}s": self.severities[s] for s in Severity}
        return {**counts, "checked": self.checked, "without Accelerate": self.skipped, "not processed": self.errors}
