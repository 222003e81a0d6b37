"""The proof: which runs are made, what is compared, and what follows from it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.causes import CAUSES, candidates, overall
from accelift_codemod.verify.data import compare_data
from accelift_codemod.verify.outputs import compare_lines, compare_saves, compare_writers
from accelift_codemod.verify.processes import compare_processes
from accelift_codemod.verify.recording import Recording
from accelift_codemod.verify.runs import Limits, Order, Run, execute
from accelift_codemod.verify.scratch import copy_project, project_of
from accelift_codemod.verify.training import Tolerance, compare_training, losses_of

Say = Callable[[str], None]


class CannotRun(Exception):
    """There is nothing to compare; the message says why, and has the last words of a script that failed."""


@dataclass(frozen=True)
class Request:
    """What is to be proved.

    `converted` is the whole text of the converted script.
    """

    script: Path
    converted: bytes
    arguments: tuple[str, ...] = ()
    processes: int = 2
    steps: int | None = None
    seed: int = 0
    cpu: bool = True
    config: Path | None = None
    limits: Limits = field(default_factory=Limits)
    keep: bool = False


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
        return all(comparison.verdict is not Verdict.DIFFERS for comparison in self.comparisons)

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


def prove(request: Request, say: Say = lambda text: None) -> Proof:
    """Run original and converted script, and compare.

    Args:
        request: what is to be proved.
        say: is told what is being done.

    Raises:
        CannotRun: the original fails by itself.
        OSError: the scratch folder cannot be made.
    """
    scratch = Path(tempfile.mkdtemp(prefix="accelift-verify-"))
    try:
        return _Prover(request, scratch, say).prove()
    finally:
        if not request.keep:
            shutil.rmtree(scratch, ignore_errors=True)


class _Prover:
    def __init__(self, request: Request, scratch: Path, say: Say) -> None:
        self._request = request
        self._scratch = scratch
        self._say = say
        self._proof = Proof(str(request.script), scratch=scratch if request.keep else None)

    def prove(self) -> Proof:
        original = self._original("original")
        self._check(original)
        one = self._run("converted, 1 process", None, converted=True)
        self._compare_one(original, one)
        if self._request.processes > 1:
            self._compare_many(original)
        self._note_writes(original)
        return self._proof

    # ---- one process: every bit counts

    def _compare_one(self, original: Run, one: Run) -> None:
        comparison = self._compare("converted, 1 process", original, one, None)
        if comparison.verdict is Verdict.DIFFERS:
            again = self._original("original, again")
            if compare_training(original.recording, again.recording, None).first is not None:
                self._proof.notes.append("the original does not repeat itself: two runs with one seed differ")
                reason = "the original computes something else each time, with the same seed"
                comparison = Comparison(
                    comparison.title, [Answer("the same parameters", Verdict.NOT_COMPARABLE, reason)]
                )
            else:
                comparison = self._compare("converted, 1 process", original, one, None, again)
        self._proof.comparisons.append(comparison)

    # ---- many processes: the same mathematics

    def _compare_many(self, original: Run) -> None:
        title = f"converted, {self._request.processes} processes"
        many = self._run(title, self._request.processes, converted=True)
        comparison = self._compare(title, original, many, Tolerance())
        if comparison.verdict is Verdict.DIFFERS and not many.failed:
            again = self._original("original, again")
            disturbed = self._original("original, disturbed by rounding", "--disturbance", "1")
            tolerance = Tolerance.measured(original.recording.main, disturbed.recording.main)
            comparison = self._compare(title, original, many, tolerance, again, disturbed)
        if comparison.verdict is Verdict.DIFFERS and not many.failed and (why := _incomparable(original.recording)):
            comparison = self._strongest(comparison, why)
        self._proof.comparisons.append(comparison)

    def _strongest(self, comparison: Comparison, why: tuple[Suspicion, ...]) -> Comparison:
        """Where the processes cannot compute the same, compare runs without what stands in the way."""
        title = f"{comparison.title}, with that frozen"
        original = self._original("original, frozen", "--frozen")
        many = self._run(title, self._request.processes, converted=True, options=("--frozen",))
        disturbed = self._original("original, frozen and disturbed", "--frozen", "--disturbance", "1")
        again = self._proof.runs.get("original, again")
        tolerance = Tolerance.measured(original.recording.main, disturbed.recording.main)
        frozen = self._compare(title, original, many, tolerance, again, disturbed)
        reasons = "; ".join(f"{CAUSES[one.code]} ({one.place})" for one in why)
        self._proof.notes.append(
            f"on several processes the same numbers cannot be had: {reasons}. So the proof was run once more without: "
            "dropout passes everything, batch normalization uses its running statistics, noise is the same for every "
            "sample."
        )
        if frozen.verdict is Verdict.DIFFERS:
            # What differs then is not for those reasons.
            return frozen
        answers = [
            Answer(answer.question, Verdict.NOT_COMPARABLE, f"{answer.detail} ({_short(why)})", answer.suspicions)
            if answer.verdict is Verdict.DIFFERS
            else answer
            for answer in comparison.answers
        ]
        # Who prints and writes has nothing to do with chance.
        hard = [answer for answer in comparison.answers if answer.verdict is Verdict.DIFFERS and _is_hard(answer)]
        if hard:
            return comparison
        self._proof.comparisons.append(Comparison(comparison.title, answers))
        return frozen

    # ---- comparing

    def _compare(
        self,
        title: str,
        original: Run,
        converted: Run,
        tolerance: Tolerance | None,
        again: Run | None = None,
        disturbed: Run | None = None,
    ) -> Comparison:
        ours, theirs = original.recording, converted.recording
        exact = tolerance is None
        shaken = None if disturbed is None else disturbed.recording
        ends = compare_processes(ours, theirs, bool(converted.stopped), converted.last_words)
        answers = [
            *ends,
            *compare_training(ours, theirs, tolerance).answers,
            compare_data(ours, theirs),
            compare_lines(ours, theirs, None if again is None else again.recording, shaken, exact),
            compare_saves(ours, theirs, shaken, exact),
            *compare_writers(ours, theirs),
        ]
        if ends[0].verdict is Verdict.DIFFERS:  # the rest follows from it
            answers = [ends[0]]
        return Comparison(title, _by_dependence(answers))

    # ---- running

    def _original(self, name: str, *options: str) -> Run:
        known = self._proof.runs.get(name)
        return known if known is not None else self._run(name, None, converted=False, options=options)

    def _run(self, name: str, processes: int | None, converted: bool, options: tuple[str, ...] = ()) -> Run:
        request = self._request
        self._say(name)
        folder = self._scratch / name.replace(", ", "-").replace(" ", "-")
        project = project_of(request.script)
        copy_project(project, folder)
        script = folder / request.script.resolve().relative_to(project)
        if converted:
            script.write_bytes(request.converted)
        here = Path.cwd().resolve()
        cwd = folder / here.relative_to(project) if here.is_relative_to(project) else script.parent
        limits = [] if request.steps is None else ["--steps", str(request.steps)]
        order = Order(
            script=script,
            arguments=request.arguments,
            root=folder,
            cwd=cwd,
            out=self._scratch / f"{folder.name}.recording",
            processes=processes,
            options=("--seed", str(request.seed), *limits, *options),
            cpu=request.cpu,
            config=request.config if converted else None,
        )
        run = execute(order, request.limits)
        self._proof.runs[name] = run
        return run

    def _check(self, original: Run) -> None:
        if original.failed:
            raise CannotRun(f"the original does not run: {original.failed}\n{original.last_words}".rstrip())
        if not original.recording.main.steps:
            raise CannotRun(
                "the original makes no optimizer step, so there is nothing to compare; give it arguments after -- that "
                "let it train"
            )

    def _note_writes(self, original: Run) -> None:
        for write in original.recording.main.writes:
            if write.get("outside"):
                self._proof.notes.append(
                    f"the script writes outside of its project: {write['path']} ({write['place']})"
                )
        if original.recording.main.end == "enough":
            self._proof.notes.append(f"the runs were ended after {self._request.steps} optimizer steps (--steps)")


_HARD = ("one process prints", "one process writes", "the same samples, once each", "every process has work")


def _is_hard(answer: Answer) -> bool:
    return answer.question in _HARD


def _by_dependence(answers: list[Answer]) -> list[Answer]:
    """Data before what is computed from it, so that causes are named in that order."""
    order = ["every process ends", "the same optimizers and parameters", "the same samples, once each"]
    return sorted(answers, key=lambda a: order.index(a.question) if a.question in order else len(order))


def _incomparable(original: Recording) -> tuple[Suspicion, ...]:
    """Why several processes cannot compute what one does, as far as the original shows it."""
    main = original.main
    found = []
    if main.normalizes:
        found.append(Suspicion("BATCHNORM", 2, "batch normalization in training mode", main.normalizes))
    if main.draws:
        found.append(Suspicion("NOISE", 2, "random numbers are drawn between batch and backward", main.draws))
    return tuple(found)


def _short(why: tuple[Suspicion, ...]) -> str:
    return " and ".join({"BATCHNORM": "batch statistics", "NOISE": "random numbers"}[one.code] for one in why)
