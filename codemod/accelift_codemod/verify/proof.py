"""The proof: which runs are made, what is compared, and what follows from it."""

from __future__ import annotations

import importlib.util
import math
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from accelift_codemod.plan import Finding
from accelift_codemod.project.beside import Beside, Started
from accelift_codemod.project.finder import project_folder
from accelift_codemod.source import Source
from accelift_codemod.verify.announced import PRINTS, announcements
from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.chance import frozen_options, in_short, in_words, incomparable
from accelift_codemod.verify.data import compare_data
from accelift_codemod.verify.lines import compare_lines, compare_printers, volatile_numbers
from accelift_codemod.verify.outputs import compare_saves, compare_writers, volatile_values
from accelift_codemod.verify.processes import compare_processes
from accelift_codemod.verify.proved import UNPROVED, Comparison, Proof
from accelift_codemod.verify.recording import Recording
from accelift_codemod.verify.runs import Limits, Order, Run, execute
from accelift_codemod.verify.scratch import PREFIX, copy_project
from accelift_codemod.verify.tolerance import Tolerance, units_of_rounding
from accelift_codemod.verify.training import AGREEMENT, Trained, compare_training

Say = Callable[[str], None]
Execute = Callable[[Order, Limits], Run]


class CannotRun(Exception):
    """There is nothing to compare; the message says why, and has the last words of a script that failed."""


@dataclass(frozen=True)
class Request:
    """What is to be proved.

    `converted` is the whole text of the converted script; `known` are the findings that its conversion reported, each
    with its file, `warned` its errors and warnings, with their places; `members` are the other files of the project
    that change with it. An original that distributes itself is run on as many processes as the conversion, by torch's
    launcher.
    """

    script: Path
    converted: bytes
    known: tuple[tuple[str, Finding], ...] = ()
    members: tuple[tuple[Path, bytes], ...] = ()
    arguments: tuple[str, ...] = ()
    processes: int = 2
    steps: int | None = None
    seed: int = 0
    cpu: bool = True
    config: Path | None = None
    limits: Limits = field(default_factory=Limits)
    keep: bool = False
    distributes: bool = False
    warned: tuple[str, ...] = ()


def prove(request: Request, say: Say = lambda text: None, execute: Execute = execute) -> Proof:
    """Run original and converted script, and compare.

    Args:
        request: what is to be proved.
        say: is told what is being done.
        execute: makes the runs.

    Raises:
        CannotRun: the original fails by itself, or there is no torch to run it with.
        OSError: the scratch folder cannot be made.
    """
    if importlib.util.find_spec("torch") is None:
        raise CannotRun("torch is not installed here, so nothing can be run; install it: pip install torch")
    with _ended_by_sigterm():
        scratch = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            return _Prover(request, scratch, say, execute).prove()
        finally:
            if not request.keep:
                shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Have SIGTERM end this process as an exception does: else the script, which it does not reach, would run on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


class _Prover:
    def __init__(self, request: Request, scratch: Path, say: Say, execute: Execute) -> None:
        self._request = request
        self._scratch = scratch
        self._say = say
        self._execute = execute
        self._proof = Proof(str(request.script), scratch=scratch if request.keep else None)
        script = request.script.resolve()
        self._started = Started.of(script)
        read = map(Path, Beside.of([str(script)]).files)
        project = project_folder(script.parent)
        self._said = announcements(request.known, project, read)
        self._prints = announcements(request.known, project, codes=PRINTS)

    def prove(self) -> Proof:
        original = self._original("original")
        self._check(original)
        one = self._run("converted, 1 process", None, converted=True)
        self._compare_one(original, one)
        repeats = self._proof.comparisons[0].verdict is not Verdict.UNDECIDED
        if self._request.processes > 1 and repeats:
            self._compare_many(original)
        self._note_warnings()
        self._note_writes(original)
        return self._proof

    # ---- one process: every bit counts

    def _compare_one(self, original: Run, one: Run) -> None:
        comparison = self._compare("converted, 1 process", original, one, None)
        if comparison.verdict is Verdict.DIFFERS:
            again = self._again()
            if compare_training(original.recording, again.recording, None).first is not None:
                self._proof.notes.append("the original does not repeat itself: two runs with one seed differ")
                reason = "the original computes something else each time, with the same seed"
                comparison = Comparison(comparison.title, [Answer("the same parameters", Verdict.UNDECIDED, reason)])
            else:
                comparison = self._compare("converted, 1 process", original, one, None)
        self._proof.comparisons.append(comparison)

    # ---- many processes: the same mathematics

    def _compare_many(self, original: Run) -> None:
        title = f"converted, {self._request.processes} processes"
        many = self._run(title, self._request.processes, converted=True)
        if self._request.distributes:  # what it computes there is known to the bit
            as_many = self._run(f"original, {self._request.processes} processes", self._request.processes, False)
            self._proof.comparisons.append(self._compare(title, as_many, many, None))
            return
        comparison = self._compare(title, original, many, Tolerance())
        if comparison.verdict is Verdict.DIFFERS and not many.failed:
            one = self._proof.runs["converted, 1 process"].recording
            if why := incomparable(original.recording, one, many.recording, self._request.converted):
                comparison = self._strongest(comparison, why)
            else:
                free = compare_training(original.recording, many.recording, Tolerance())
                comparison = self._step_by_step(title, free)
        self._proof.comparisons.append(comparison)

    def _step_by_step(self, title: str, free: Trained | None, *frozen: str) -> Comparison:
        """Compare each step for itself: taken from the parameters that the original took it from.

        What rounding does to a step is measured in the same way, by a run of the original that is disturbed.
        """
        what = "frozen, " if frozen else ""
        again = self._again(*frozen)
        follow = ("--follow", str(self._kept(*frozen)))
        units = ("--disturbance", str(units_of_rounding(again.recording.main)))
        disturbed = self._original(f"original, {what}disturbed by rounding", *frozen, *follow, *units)
        many = self._run(f"{title}, {what}step by step", self._request.processes, True, (*frozen, *follow))
        tolerance = Tolerance.measured(again.recording.main, disturbed.recording.main)
        comparison = self._compare(title, again, many, tolerance, disturbed)
        if free is not None and free.first is not None and comparison.verdict is not Verdict.DIFFERS:
            self._proof.notes.append(
                f"on {self._request.processes} processes each step was taken from the parameters that the original "
                f"took it from: left to themselves the runs part at step {free.first}, as training makes differences "
                "of rounding grow."
            )
        return comparison

    def _again(self, *frozen: str) -> Run:
        """Another run of the original, which keeps the parameters of every step."""
        name = "original, frozen, again" if frozen else "original, again"
        return self._original(name, *frozen, "--keep", str(self._kept(*frozen)))

    def _kept(self, *frozen: str) -> Path:
        return self._scratch / " ".join(["parameters", *frozen])

    def _strongest(self, comparison: Comparison, why: tuple[Suspicion, ...]) -> Comparison:
        """Where the processes cannot compute the same, compare runs without what stands in the way."""
        self._again()  # to know which printed numbers are others each time
        frozen = self._step_by_step(f"{comparison.title}, with chance frozen", None, *frozen_options(why))
        self._proof.notes.append(in_words(why))
        if frozen.verdict is Verdict.DIFFERS:
            return frozen
        answers = [
            Answer(answer.question, Verdict.NOT_COMPARABLE, f"{answer.detail} ({in_short(why)})", answer.suspicions)
            if answer.verdict is Verdict.DIFFERS and answer.question != AGREEMENT  # no chance is a reason for that
            else answer
            for answer in comparison.answers
        ]
        self._proof.comparisons.append(Comparison(comparison.title, answers))
        return frozen

    # ---- comparing

    def _compare(
        self,
        title: str,
        original: Run,
        converted: Run,
        tolerance: Tolerance | None,
        disturbed: Run | None = None,
    ) -> Comparison:
        ours, theirs = original.recording, converted.recording
        exact = tolerance is None
        shaken = None if disturbed is None else disturbed.recording
        ends = compare_processes(ours, theirs, bool(converted.stopped), converted.last_words, converted.limit)
        training = compare_training(ours, theirs, tolerance)
        saves = compare_saves(ours, theirs, volatile_values(*self._twice()), shaken, exact, self._said)
        if disturbed is not None and training.first is not None and saves.verdict is not Verdict.DIFFERS:
            detail = "each step begins with the original's parameters, which is what is saved here"
            saves = Answer(saves.question, Verdict.NOT_COMPARABLE, detail)
        answers = [
            *ends,
            *training.answers,
            compare_data(ours, theirs),
            compare_lines(ours, theirs, volatile_numbers(*self._twice()), shaken, exact, self._said),
            saves,
        ]
        if theirs.world > ours.world:
            answers += [compare_printers(ours, theirs, self._prints), compare_writers(theirs)]
        if ends[0].verdict in UNPROVED:  # the rest follows from it
            answers = [ends[0]]
        return Comparison(title, _by_dependence([self._unless_known(answer) for answer in answers]))

    def _unless_known(self, answer: Answer) -> Answer:
        """What a finding of the conversion has announced does not disprove it."""
        causes = {one.code for one in answer.suspicions}
        known = {finding.code for _, finding in self._request.known}
        announced = known & {code for cause in causes for code in _ANNOUNCED.get(cause, ())}
        if answer.verdict is not Verdict.DIFFERS or not announced:
            return answer
        detail = f"{answer.detail} (as {', '.join(sorted(announced))} of the conversion says)"
        return Answer(answer.question, Verdict.NOT_COMPARABLE, detail, answer.suspicions)

    def _twice(self) -> tuple[Recording, Recording]:
        """Two runs of the original, which tell what is another one in each run; the same one if there was one only."""
        first = self._proof.runs["original"]
        return first.recording, self._proof.runs.get("original, again", first).recording

    # ---- running

    def _original(self, name: str, *options: str) -> Run:
        known = self._proof.runs.get(name)
        alone = 1 if self._request.distributes else None
        return known if known is not None else self._run(name, alone, converted=False, options=options)

    def _run(self, name: str, processes: int | None, converted: bool, options: tuple[str, ...] = ()) -> Run:
        request = self._request
        self._say(name)
        folder = self._scratch / name.replace(", ", "-").replace(" ", "-")
        project = project_folder(request.script.resolve().parent)
        copy_project(project, folder)
        script = folder / request.script.resolve().relative_to(project)
        if converted:
            for path, data in ((request.script, request.converted), *request.members):
                (folder / path.resolve().relative_to(project)).write_bytes(data)
        here = Path.cwd().resolve()
        cwd = folder / here.relative_to(project) if here.is_relative_to(project) else script.parent
        limits = [] if request.steps is None else ["--steps", str(request.steps)]
        order = Order(
            script=_runnable(script),
            arguments=request.arguments,
            root=folder,
            cwd=cwd,
            out=self._scratch / f"{folder.name}.recording",
            processes=processes,
            options=("--seed", str(request.seed), *limits, *options),
            cpu=request.cpu,
            config=request.config if converted else None,
            torchrun=request.distributes and not converted,
            paths=tuple(folder / path.relative_to(project) for path in self._started.paths),
            module=self._started.module,
        )
        run = self._execute(order, request.limits)
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

    def _note_warnings(self) -> None:
        """What the conversion said before anything ran may be the very cause of a difference on several processes."""
        many = self._proof.comparisons[1:]
        if self._request.warned and any(one.verdict in UNPROVED for one in many):
            self._proof.notes.append(f"the conversion itself has warned of {', '.join(self._request.warned)}")

    def _note_writes(self, original: Run) -> None:
        if self._request.script.suffix == ".ipynb":
            self._proof.notes.append("the code cells were run in their order as one script, without magics")
        for write in original.recording.main.writes:
            if write.get("outside"):
                self._proof.notes.append(
                    f"the script writes outside of its project: {write['path']} ({write['place']})"
                )
        steps = original.recording.main.steps
        lost = (step.number for step in steps if any(math.isnan(values.norm) for values in step.parameters))
        if (first := next(lost, None)) is not None:
            what = f"parameters of the original are nan or infinite from step {first} on, of which nothing is proved"
            self._proof.notes.append(what)
        if original.recording.main.end == "enough":
            self._proof.notes.append(f"the runs were ended after {self._request.steps} optimizer steps (--steps)")


# What cells use without importing it.
_AS_IN_JUPYTER = b"import builtins; builtins.display = print  "


def _runnable(script: Path) -> Path:
    """What is run of a script in a scratch folder: itself, or the code cells of a notebook as a script beside it."""
    if script.suffix != ".ipynb":
        return script
    code = script.with_name(f"{script.name}.py")  # which no import can name
    cells = Source.read(script).data
    if b"__future__" not in cells:  # else nothing may come before that
        cells = _AS_IN_JUPYTER + cells  # on the line of the first cell's mark, a comment: no line moves
    code.write_bytes(cells)
    return code


_ANNOUNCED = {  # numbers and lines are looked at one by one (announced.py)
    "SAVE-PREFIX": ("CKPT-KEYS",),
}


def _by_dependence(answers: list[Answer]) -> list[Answer]:
    """Data before what is computed from it, so that causes are named in that order."""
    order = [
        "every process ends",
        "the same optimizers and parameters",
        "the same parameters at the start",
        "the same samples, once each",
    ]
    return sorted(answers, key=lambda a: order.index(a.question) if a.question in order else len(order))
