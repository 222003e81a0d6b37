"""Questions about training: optimizers, steps, learning rates, losses, gradients, parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.explain import disagreement, explain, few_numbers
from accelift_codemod.verify.recording import Rank, Recording
from accelift_codemod.verify.tolerance import (
    Tolerance,
    difference_of_shares,
    distances,
    gradient_distance,
    loss_difference,
    losses_of,
    relative_difference,
)

_FEW = 0.1  # of the steps: what is wrong with a conversion shows in others, too
AGREEMENT = "every process has the same parameters"
_GRADIENTS = 1e-3  # of their norm: what differs by less is seen in the parameters, if it matters


@dataclass(frozen=True)
class Trained:
    """How the training of two runs compares; `first` is the first step whose parameters differ too much."""

    answers: list[Answer]
    first: int | None = None


def compare_training(original: Recording, converted: Recording, tolerance: Tolerance | None) -> Trained:
    """Compare training; without a tolerance every bit counts."""
    left, right = original.main, converted.main
    sets = _same_optimizers(left, right)
    start = _same_start(left, right, tolerance)
    common = _common_steps(left, right)
    steps = _same_steps(original, converted, common)
    if not common or sets.verdict is Verdict.DIFFERS:
        return Trained([sets, start, steps])
    return _Steps(original, converted, tolerance, common).compare([sets, start, steps])


def _same_optimizers(left: Rank, right: Rank) -> Answer:
    question = "the same optimizers and parameters"
    if not left.optimizers:
        return Answer(question, Verdict.NOT_SEEN, "the original makes no optimizer step")
    for number, ours in left.optimizers.items():
        theirs = right.optimizers.get(number)
        if theirs is None:
            detail = f"{ours.kind} number {number} makes no step"
        elif theirs.kind != ours.kind:
            detail = f"{theirs.kind} steps in the place of {ours.kind}"
        elif [v.count for v in theirs.start] != [v.count for v in ours.start]:
            detail = f"{ours.kind} has {len(theirs.start)} parameters instead of {len(ours.start)}, or others"
        else:
            continue
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion("MODEL-SET", 3, detail),), 0)
    extra = right.optimizers.keys() - left.optimizers.keys()
    if extra:
        detail = f"{len(extra)} optimizers more"
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion("MODEL-SET", 3, detail),), 0)
    return Answer(question, Verdict.IDENTICAL, ", ".join(one.kind for one in left.optimizers.values()))


def _same_start(left: Rank, right: Rank, tolerance: Tolerance | None) -> Answer:
    question = "the same parameters at the start"
    verdict = Verdict.IDENTICAL if left.steps else Verdict.NOT_SEEN
    first = left.steps[0].optimizer if left.steps else None
    for number, ours in left.optimizers.items():
        theirs = right.optimizers.get(number)
        # An optimizer whose first step comes late may differ by what happened before.
        if theirs is None or number != first:
            continue
        gaps = distances(ours.start, theirs.start)
        for index, gap in enumerate(gaps):
            if gap > (0.0 if tolerance is None else tolerance.of(0, index)):
                detail = f"{ours.names[index]} is another one before the first step, by {_size(gap)}"
                return Answer(question, Verdict.DIFFERS, detail, (Suspicion("INIT", 3, detail),), 0)
        verdict = Verdict.EQUIVALENT if any(gaps) else verdict
    return Answer(question, verdict)


def _common_steps(left: Rank, right: Rank) -> int:
    """For how many steps the same optimizers step in the same order."""
    common = 0
    for ours, theirs in zip(left.steps, right.steps, strict=False):
        if ours.optimizer != theirs.optimizer:
            break
        common += 1
    return common


def _same_steps(original: Recording, converted: Recording, common: int) -> Answer:
    question = "the same number of optimizer steps"
    left, right = original.main, converted.main
    ours, theirs = len(left.steps), len(right.steps)
    if not ours:
        return Answer(question, Verdict.NOT_SEEN, "no optimizer step seen")
    if ours == theirs == common:
        return Answer(question, Verdict.IDENTICAL, str(ours))
    at = left.steps[common].at if common < ours else left.events
    if right.end == "failed":
        detail = f"{theirs} of {ours}, then it failed"
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion("FAILED", 3, right.error, right.error_place),), at)
    if common < min(ours, theirs):
        detail = f"{theirs} instead of {ours}, and from step {common} on another optimizer steps"
        place = right.steps[common].place
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion("ACCUMULATION", 3, detail, place),), at)
    detail = f"{theirs} instead of {ours}"
    place = right.steps[0].place if right.steps else ""
    return Answer(question, Verdict.DIFFERS, detail, (Suspicion("ACCUMULATION", 2, detail, place),), at)


class _Steps:
    """Compares the steps that two runs have in common."""

    def __init__(self, original: Recording, converted: Recording, tolerance: Tolerance | None, common: int) -> None:
        self._original = original
        self._converted = converted
        self._tolerance = tolerance
        self._shares = False  # whether a process's losses are found to be sums over its share
        self._pairs = list(zip(original.main.steps[:common], converted.main.steps[:common], strict=True))

    def compare(self, before: list[Answer]) -> Trained:
        parameters = [self._parameter_gap(step) for step in range(len(self._pairs))]
        moved = next((step for step, gap in enumerate(parameters) if gap.too_large), None)
        answers = [
            *before,
            self._rates(),
            self._losses(),
            self._gradients(moved),
            self._unless_hidden(self._answer("the same parameters", parameters)),
        ]
        if self._converted.world > 1:
            answers.append(self._agreement())
        return Trained(self._explained(answers), moved)

    def _explained(self, answers: list[Answer]) -> list[Answer]:
        """With what may be behind the first difference of losses, gradients or parameters."""
        differing = [answer for answer in answers if answer.question in _EXPLAINED and answer.at is not None]
        if not differing:
            return answers
        first = min(differing, key=lambda answer: answer.at or 0)
        step = next(ours.number for ours, _ in self._pairs if ours.at == first.at)
        causes = explain(self._original, self._converted, step, self._tolerance)
        return [replace(one, suspicions=causes) if one is first else one for one in answers]

    # ---- one answer each

    def _rates(self) -> Answer:
        question = "the same learning rates"
        seen: set[int] = set()
        for ours, theirs in self._pairs:
            first = ours.optimizer not in seen
            seen.add(ours.optimizer)
            if relative_difference(ours.rates, theirs.rates) > 1e-9:
                detail = f"{few_numbers(theirs.rates)} instead of {few_numbers(ours.rates)} at step {ours.number}"
                always = first and self._times(ours.optimizer)
                causes = [Suspicion("SCHEDULER", 1 if always else 3, detail, theirs.place)]
                if first:
                    evidence = f"{detail}; always {always:.4g} times as much" if always else detail
                    causes.append(Suspicion("LEARNING-RATE", 3 if always else 2, evidence, theirs.place))
                return Answer(question, Verdict.DIFFERS, detail, tuple(causes), ours.at)
        rates = [few_numbers(step.rates) for step, _ in self._pairs]
        return Answer(question, Verdict.IDENTICAL, f"{rates[0]} … {rates[-1]}")

    def _times(self, optimizer: int) -> float:
        """The factor between all rates of an optimizer, 0 if there is none."""
        rates = [
            (a, b)
            for ours, theirs in self._pairs
            if ours.optimizer == optimizer
            for a, b in zip(ours.rates, theirs.rates, strict=False)
        ]
        ratios = [b / a for a, b in rates if a]
        return ratios[0] if ratios and max(ratios) - min(ratios) <= 1e-6 * abs(ratios[0]) else 0.0

    def _losses(self) -> Answer:
        answer = self._answer("the same losses", [self._loss_gap(step) for step in range(len(self._pairs))])
        if self._shares and answer.verdict is Verdict.EQUIVALENT:
            return replace(answer, detail=f"{answer.detail}, of their total: that of a process is of its share")
        return answer

    def _gradients(self, moved: int | None) -> Answer:
        answer = self._answer("the same gradients", [self._gradient_gap(step) for step in range(len(self._pairs))])
        if answer.verdict is Verdict.DIFFERS and self._tolerance is None and moved is None:
            return Answer(answer.question, Verdict.EQUIVALENT, f"{answer.detail}, which does not change the parameters")
        return answer

    def _unless_hidden(self, answer: Answer) -> Answer:
        """That the parameters are the same, unless rounding does as much to most steps as the steps themselves do."""
        tolerance = self._tolerance
        if answer.verdict is not Verdict.EQUIVALENT or tolerance is None:
            return answer
        before = {number: one.start for number, one in self._original.main.optimizers.items()}
        hidden = []
        for step, (ours, theirs) in enumerate(self._pairs):
            pairs = list(zip(ours.parameters, theirs.parameters, before[ours.optimizer], strict=False))
            # What is no more than a few units of rounding of the parameter itself is nothing to tell apart.
            gaps = [a.distance(b) if a.relative(b) > tolerance.rounding else 0.0 for a, b, _ in pairs]
            if tolerance.hides(gaps, [a.distance(start) for a, _, start in pairs]):
                hidden.append(step)
            before[ours.optimizer] = ours.parameters
        if len(hidden) <= _FEW * len(self._pairs):
            return answer
        detail = (
            f"rounding moves this training as far as its steps do, first at step {hidden[0]}: a fault would not show"
        )
        return Answer(answer.question, Verdict.UNDECIDED, detail)

    def _agreement(self) -> Answer:
        for step, (ours, theirs) in enumerate(self._pairs):
            if apart := disagreement(self._converted, step):
                causes = (Suspicion("GRAD-SYNC", 3, apart, theirs.place),)
                return Answer(AGREEMENT, Verdict.DIFFERS, apart, causes, ours.at)
        return Answer(AGREEMENT, Verdict.IDENTICAL)

    def _answer(self, question: str, gaps: list[_Gap]) -> Answer:
        for step, gap in enumerate(gaps):
            if gap.too_large:
                return Answer(question, Verdict.DIFFERS, f"step {step}: {gap.detail}", (), self._pairs[step][0].at)
        worst = max(gaps, key=lambda gap: gap.size)
        if not worst.size:
            return Answer(question, Verdict.IDENTICAL, "bit for bit" if self._tolerance is None else "")
        return Answer(
            question, Verdict.EQUIVALENT, f"{worst.size:.1e} relative difference ({worst.allowed:.0e} allowed)"
        )

    # ---- how far a step is apart

    def _loss_gap(self, step: int) -> _Gap:
        ours, theirs = losses_of(self._original, step), losses_of(self._converted, step)
        allowed = 0.0 if self._tolerance is None else self._tolerance.of_losses(step)
        gap = loss_difference(self._original, self._converted, step)
        if gap > allowed and self._are_of_shares(step) and not self._gradient_gap(step).too_large:
            self._shares = True
            gap = difference_of_shares(self._original, self._converted, step)
        return _Gap(gap, allowed, f"{few_numbers(theirs)} instead of {few_numbers(ours)}")

    def _are_of_shares(self, step: int) -> bool:
        """Whether losses may be sums over the shares of processes, whose gradients are divided after backward."""
        clipped = any(one.clips for one in self._pairs[step])
        return self._tolerance is not None and self._converted.world > 1 == self._original.world and not clipped

    def _gradient_gap(self, step: int) -> _Gap:
        size = gradient_distance(*self._pairs[step])
        allowed = 0.0 if self._tolerance is None else max(_GRADIENTS, self._tolerance.of_gradients(step))
        return _Gap(size, allowed, f"by {_size(size)}")

    def _parameter_gap(self, step: int) -> _Gap:
        """That of the parameter which is furthest beyond what is allowed for it."""
        ours, theirs = self._pairs[step]
        optimizer = self._original.main.optimizers[ours.optimizer]
        tolerance = self._tolerance
        gaps = [
            _Gap(
                size,
                0.0 if tolerance is None else tolerance.of(step, index),
                f"{optimizer.name(index)} by {_size(size)}",
            )
            for index, size in enumerate(distances(ours.parameters, theirs.parameters))
        ]
        return max(gaps, key=lambda gap: gap.size / (gap.allowed or _TINY), default=_Gap(0.0, 0.0, ""))


@dataclass(frozen=True)
class _Gap:
    size: float
    allowed: float
    detail: str

    @property
    def too_large(self) -> bool:
        return self.size > self.allowed


_EXPLAINED = ("the same losses", "the same gradients", "the same parameters")
_TINY = 1e-300


def _size(gap: float) -> str:
    return "an infinite difference" if math.isinf(gap) else f"{gap:.1e} of its norm"
