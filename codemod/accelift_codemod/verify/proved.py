"""What a proof has found: the comparisons of runs, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.causes import CAUSES, candidates, overall
from accelift_codemod.verify.runs import Run
from accelift_codemod.verify.tolerance import losses_of

UNPROVED = (Verdict.UNDECIDED, Verdict.DIFFERS)


@dataclass(frozen=True)
class Comparison:
    """A run of the converted script beside one of the original."""

    title: str
    answers: list[Answer]

    @property
    def verdict(self) -> Verdict:
        return overall(self.answers)

    @property
    def suspicions(self) -> list[Suspicion]:
        return candidates(self.answers)

    def to_json(self) -> dict[str, Any]:
        return {
            "comparison": self.title,
            "verdict": self.verdict.value,
            "answers": [answer.to_json() for answer in self.answers],
            "causes": [{**one.to_json(), "meaning": CAUSES[one.code]} for one in self.suspicions[:3]],
        }


@dataclass
class Proof:
    """Everything that there is to say."""

    script: str
    runs: dict[str, Run] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    scratch: Path | None = None

    @property
    def proved(self) -> bool:
        return all(comparison.verdict not in UNPROVED for comparison in self.comparisons)

    @property
    def exit_code(self) -> int:
        return 0 if self.proved else 1

    def losses(self) -> dict[str, list[float | None]]:
        """For each run, the last loss before each step, averaged over processes."""
        return {
            name: [
                (losses_of(run.recording, step) or [None])[-1]  # type: ignore[list-item]
                for step in range(len(run.recording.main.steps))
            ]
            for name, run in self.runs.items()
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "script": self.script,
            "proved": self.proved,
            "comparisons": [comparison.to_json() for comparison in self.comparisons],
            "runs": {
                name: {"seconds": round(run.seconds, 3), "steps": len(run.recording.main.steps), "failed": run.failed}
                for name, run in self.runs.items()
            },
            "losses": self.losses(),
            "notes": self.notes,
            "scratch": None if self.scratch is None else str(self.scratch),
        }
