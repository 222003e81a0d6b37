"""Questions about training: optimizers, steps, learning rates, losses, gradients, parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.recording import Rank, Recording, Step, Values

_EPS = 2.0**-23  # of float32, of which nearly all parameters are
_BASE = 64 * _EPS
_GRADIENT_BASE = 1e-4  # of the norm of all gradients, where terms cancel
_ALLOWANCE = 30.0


@dataclass(frozen=True)
class Tolerance:
    """How far rounding alone takes a run from another one that computes the same.

    Measured on the script itself: a run of the original whose parameters are moved by one unit of rounding after every
    step drifts from the original; 30 times that much is allowed, and 64 units of rounding from the start.  Without
    such a run (`drift` is empty) only those.
    """

    drift: tuple[float, ...] = ()
    gradient_drift: tuple[float, ...] = ()

    @classmethod
    def measured(cls, original: Rank, disturbed: Rank) -> Tolerance:
        """From a run of the original and one of it disturbed."""
        drift, gradients = [0.0], [0.0]
        for left, right in zip(original.steps, disturbed.steps, strict=False):
            drift.append(max(drift[-1], *_distances(left.parameters, right.parameters), 0.0))
            gradients.append(max(gradients[-1], _gradient_distance(left, right)))
        return cls(tuple(drift[1:]), tuple(gradients[1:]))

    def of(self, step: int) -> float:
        """For the relative difference of parameters after a step."""
        return max(_BASE, _ALLOWANCE * _at(self.drift, step))

    def of_gradients(self, step: int) -> float:
        """For the difference of gradients, in units of the norm of all of them."""
        return max(_GRADIENT_BASE, _ALLOWANCE * _at(self.gradient_drift, step))


def _at(drift: Sequence[float], step: int) -> float:
    return drift[min(step, len(drift) - 1)] if drift else 0.0


@dataclass(frozen=True)
class Trained:
    """How the training of two runs compares.

    `first` is the first step whose parameters differ by more than is allowed, `worst` the largest relative difference.
    """

    answers: list[Answer]
    first: int | None = None
    worst: float = 0.0
    differences: list[float] = field(default_factory=list)


def compare_training(original: Recording, converted: Recording, tolerance: Tolerance | None) -> Trained:
    """Compare training; without a tolerance every bit counts."""
    left, right = original.main, converted.main
    sets = _same_optimizers(left, right)
    steps = _same_steps(left, right, converted)
    if not left.steps or not right.steps or sets.verdict is Verdict.DIFFERS:
        return Trained([sets, steps])
    rates = _same_rates(left, right)
    losses = _same_losses(original, converted, tolerance)
    parameters = _same_parameters(original, converted, tolerance)
    return Trained(
        [sets, steps, rates, losses, parameters.answers[0]], parameters.first, parameters.worst, parameters.differences
    )


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
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion("MODEL-SET", 3, detail),))
    extra = right.optimizers.keys() - left.optimizers.keys()
    if extra:
        detail = f"{len(extra)} optimizers more"
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion("MODEL-SET", 3, detail),))
    return Answer(question, Verdict.IDENTICAL, ", ".join(one.kind for one in left.optimizers.values()))


def _same_steps(left: Rank, right: Rank, converted: Recording) -> Answer:
    question = "the same number of optimizer steps"
    ours, theirs = len(left.steps), len(right.steps)
    if not ours:
        return Answer(question, Verdict.NOT_SEEN, "no optimizer step seen")
    order = [step.optimizer for step in left.steps] == [step.optimizer for step in right.steps]
    if ours == theirs and order:
        return Answer(question, Verdict.IDENTICAL, str(ours))
    if right.end == "failed":
        detail = f"{theirs} of {ours}, then it failed"
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion("FAILED", 3, right.error, right.error_place),))
    if ours == theirs:
        detail = "the optimizers step in another order"
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion("ACCUMULATION", 1, detail),))
    detail = f"{theirs} instead of {ours}"
    suspicions = [Suspicion("ACCUMULATION", 2, detail, right.steps[0].place if right.steps else "")]
    dealt = sum(len(batch.samples) for rank in converted.ranks for batch in rank.batches)
    if dealt and ours % max(theirs, 1) == 0 and ours // max(theirs, 1) == converted.world > 1:
        suspicions.insert(0, Suspicion("BATCH-SCALE", 3, f"{detail}: one step for each {converted.world}"))
    return Answer(question, Verdict.DIFFERS, detail, tuple(suspicions))


def _same_rates(left: Rank, right: Rank) -> Answer:
    question = "the same learning rates"
    for ours, theirs in zip(left.steps, right.steps, strict=False):
        if ours.rates != theirs.rates:
            shown = f"{_few(theirs.rates)} instead of {_few(ours.rates)} at step {ours.number}"
            close = len(ours.rates) == len(theirs.rates) and all(
                math.isclose(a, b, rel_tol=1e-9) for a, b in zip(ours.rates, theirs.rates, strict=True)
            )
            if not close:
                weight = 3 if ours.number else 2
                return Answer(question, Verdict.DIFFERS, shown, (Suspicion("SCHEDULER", weight, shown, theirs.place),))
    return Answer(question, Verdict.IDENTICAL, f"{_few(left.steps[0].rates)} … {_few(left.steps[-1].rates)}")


def _few(rates: Sequence[float]) -> str:
    return "/".join(f"{rate:.4g}" for rate in rates[:3]) + ("/…" if len(rates) > 3 else "")


def losses_of(recording: Recording, step: int) -> list[float]:
    """The losses that reached backward before a step, averaged over the processes."""
    found = [rank.steps[step].losses for rank in recording.ranks if step < len(rank.steps)]
    return [
        math.fsum(value for value in values if value is not None) / len(values)
        for values in zip(*found, strict=False)
        if any(value is not None for value in values)
    ]


def _same_losses(original: Recording, converted: Recording, tolerance: Tolerance | None) -> Answer:
    question = "the same losses"
    worst = 0.0
    for step in range(min(len(original.main.steps), len(converted.main.steps))):
        ours, theirs = losses_of(original, step), losses_of(converted, step)
        if tolerance is None and original.main.steps[step].losses == converted.main.steps[step].losses:
            continue
        gap = _losses_differ(ours, theirs)
        worst = max(worst, gap)
        if gap and (tolerance is None or gap > 10 * max(tolerance.of(step), tolerance.of_gradients(step))):
            detail = f"step {step}: {_values(theirs)} instead of {_values(ours)}"
            # What is behind it is asked of gradients and parameters; here, whether it is a matter of scale.
            return Answer(question, Verdict.DIFFERS, detail, _scaled(ours, theirs, step, converted))
    if not worst:
        return Answer(question, Verdict.IDENTICAL)
    return Answer(question, Verdict.EQUIVALENT, f"{worst:.1e} relative difference")


def _losses_differ(ours: list[float], theirs: list[float]) -> float:
    gaps = [
        math.inf if a is None or b is None else abs(a - b) / max(abs(a), abs(b), 1e-12) if a != b else 0.0
        for a, b in zip_longest(ours, theirs)
    ]
    return max(gaps, default=0.0)


def _scaled(ours: list[float], theirs: list[float], step: int, converted: Recording) -> tuple[Suspicion, ...]:
    place = converted.main.steps[step].place
    if len(ours) != len(theirs):
        evidence = f"{len(theirs)} backward passes instead of {len(ours)} before step {step}"
        return (Suspicion("ACCUMULATION", 3, evidence, place),)
    ratios = [b / a for a, b in zip(ours, theirs, strict=True) if a]
    if ratios and step == 0 and _whole(ratios[0]) and all(math.isclose(r, ratios[0], rel_tol=1e-3) for r in ratios):
        return (Suspicion("LOSS-SCALE", 3, f"the loss is {ratios[0]:.4g} times the original's", place),)
    return ()


def _whole(ratio: float) -> bool:
    """Whether a ratio is a small whole number or one over it, other than 1."""
    if ratio <= 0:
        return False
    of = ratio if ratio > 1 else 1 / ratio
    return of > 1.2 and abs(of - round(of)) < 0.02


def _values(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values[:3]) + (", …" if len(values) > 3 else "")


def _same_parameters(original: Recording, converted: Recording, tolerance: Tolerance | None) -> Trained:
    question = "the same parameters"
    left, right = original.main, converted.main
    differences = []
    worst = 0.0
    for number, ours in left.optimizers.items():
        theirs = right.optimizers[number]
        gaps = _distances(ours.start, theirs.start)
        gap = max(gaps, default=0.0)
        if gap > (0.0 if tolerance is None else tolerance.of(0)):
            name = ours.names[gaps.index(gap)]
            detail = f"{name} is another one before the first step, by {_size(gap)}"
            # An optimizer whose first step comes late may differ by what happened before.
            weight = 3 if number == left.steps[0].optimizer else 1
            return Trained([Answer(question, Verdict.DIFFERS, detail, (Suspicion("INIT", weight, detail),))], 0, gap)
    for step, (a, b) in enumerate(zip(left.steps, right.steps, strict=False)):
        gaps = _distances(a.parameters, b.parameters)
        gap = max(gaps, default=0.0)
        differences.append(gap)
        worst = max(worst, gap)
        if gap > (0.0 if tolerance is None else tolerance.of(step)):
            name = left.optimizers[a.optimizer].names[gaps.index(gap)] if a.optimizer in left.optimizers else "?"
            detail = f"step {step}: {name} by {_size(gap)}"
            suspicions = explain(original, converted, step, tolerance)
            return Trained([Answer(question, Verdict.DIFFERS, detail, suspicions)], step, worst, differences)
    if worst == 0.0:
        return Trained([Answer(question, Verdict.IDENTICAL, "bit for bit")], None, 0.0, differences)
    allowed = max((tolerance.of(step) for step in range(len(differences))), default=0.0) if tolerance else 0.0
    detail = f"{worst:.1e} relative difference ({allowed:.0e} allowed)"
    return Trained([Answer(question, Verdict.EQUIVALENT, detail)], None, worst, differences)


def _size(gap: float) -> str:
    return "an infinite difference" if math.isinf(gap) else f"{gap:.1e} of its norm"


def _distances(left: Sequence[Values], right: Sequence[Values]) -> list[float]:
    return [a.relative(b) for a, b in zip(left, right, strict=False)]


def _gradient_distance(left: Step, right: Step) -> float:
    """How far gradients are apart, in units of the norm of all of them."""
    scale = max(left.gradient_norm, right.gradient_norm)
    pairs = zip(left.gradients, right.gradients, strict=False)
    gap = math.sqrt(
        sum((a or _none(b)).distance(b or _none(a)) ** 2 for a, b in pairs if (a is not None or b is not None))
    )
    return gap / scale if scale > 0 else gap


def _none(like: Values | None) -> Values:
    """No gradient is a gradient of zeros."""
    assert like is not None
    return Values(like.count, -1, 0.0, (0.0,) * len(like.sketch))


def explain(original: Recording, converted: Recording, step: int, tolerance: Tolerance | None) -> tuple[Suspicion, ...]:
    """What made parameters differ at their first different step."""
    left, right = original.main.steps[step], converted.main.steps[step]
    place = right.place
    if unsynced := _unsynced(converted, step):
        return (Suspicion("GRAD-SYNC", 3, unsynced, place),)
    allowed = 0.0 if tolerance is None else tolerance.of_gradients(step)
    if _gradient_distance(left, right) <= allowed:
        return _update(left, right, place)
    found = [*_missing(original, left, right, place), *_scale(left, right, step, place)]
    if _left_in(original, converted, step):
        found.append(Suspicion("ZERO-GRAD", 3, f"the gradients of step {step} contain those of step {step - 1}", place))
    same_loss = _losses_differ(losses_of(original, step), losses_of(converted, step)) <= max(allowed, 1e-12)
    if same_loss:
        found.append(Suspicion("GRAD-OTHER", 1, f"the loss of step {step} is the same, its gradients are not", place))
    elif not found or found[0].weight < 3:
        gap = _gradient_distance(left, right)
        if 1e-5 < gap < 3e-2:
            found.append(Suspicion("PRECISION", 2, f"gradients differ by {gap:.0e} of their norm", place))
        found.append(Suspicion("LOSS", 1, f"the loss of step {step} differs", place))
    return tuple(found)


def _unsynced(converted: Recording, step: int) -> str:
    """What of a step the processes do not agree on."""
    steps = [rank.steps[step] for rank in converted.ranks if step < len(rank.steps)]
    first = steps[0]
    names = converted.main.optimizers[first.optimizer].names
    for rank, other in enumerate(steps):
        for index, (a, b) in enumerate(zip(first.parameters, other.parameters, strict=False)):
            if a.checksum != b.checksum:
                return f"after step {step}, process {rank} has another {names[index]} than process 0"
    return ""


def _update(left: Step, right: Step, place: str) -> tuple[Suspicion, ...]:
    if left.rates != right.rates:
        evidence = f"the same gradients, but learning rate {_few(right.rates)} instead of {_few(left.rates)}"
        return (Suspicion("SCHEDULER", 3, evidence, place),)
    evidence = f"the gradients of step {left.number} are the same, the updates are not"
    return (Suspicion("OPTIMIZER", 3, evidence, place),)


def _missing(original: Recording, left: Step, right: Step, place: str) -> list[Suspicion]:
    names = original.main.optimizers[left.optimizer].names
    for name, a, b in zip(names, left.gradients, right.gradients, strict=False):
        if (a is None or a.norm == 0) != (b is None or b.norm == 0):
            has, lacks = ("original", "converted") if a is not None and a.norm else ("converted", "original")
            evidence = f"{name} has a gradient in the {has} script, none in the {lacks}"
            return [Suspicion("GRAD-OTHER", 3, evidence, place)]
    return []


def _scale(left: Step, right: Step, step: int, place: str) -> list[Suspicion]:
    """Whether the gradients point the same way, so that they differ in length alone."""
    ours = [value for one in left.gradients if one is not None for value in one.sketch]
    theirs = [value for one in right.gradients if one is not None for value in one.sketch]
    if len(ours) != len(theirs) or not ours:
        return []
    dot = math.fsum(a * b for a, b in zip(ours, theirs, strict=True))
    norms = math.hypot(*ours) * math.hypot(*theirs)
    if not norms or not dot / norms > 0.9999:
        return []
    ratio = right.gradient_norm / left.gradient_norm
    if _whole(ratio):
        return [Suspicion("LOSS-SCALE", 3, f"gradients are {ratio:.4g} times the original's", place)]
    evidence = f"gradients of step {step} point the same way, but their norm is {right.gradient_norm:.4g} instead of "
    evidence += f"{left.gradient_norm:.4g}"
    return [Suspicion("CLIP", 2, evidence, place), Suspicion("LOSS-SCALE", 2, evidence, place)]


def _left_in(original: Recording, converted: Recording, step: int) -> bool:
    """Whether the converted script's gradients are the original's plus its own of the step before."""
    left, right = original.main.steps[step], converted.main.steps[step]
    before = next((s for s in reversed(converted.main.steps[:step]) if s.optimizer == right.optimizer), None)
    if before is None:
        return False
    total, gap = 0.0, 0.0
    for a, b, c in zip(left.gradients, right.gradients, before.gradients, strict=False):
        if a is None or b is None or c is None:
            continue
        total += b.norm**2
        gap += math.fsum((x + z - y) ** 2 for x, y, z in zip(a.sketch, b.sketch, c.sketch, strict=False))
    return total > 0 and math.sqrt(gap / total) < 0.05
