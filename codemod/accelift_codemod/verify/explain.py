"""What made two runs part at an optimizer step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from accelift_codemod.verify.answers import Suspicion
from accelift_codemod.verify.recording import Recording, Step, Values
from accelift_codemod.verify.tolerance import (
    Tolerance,
    distances,
    gradient_distance,
    loss_difference,
    losses_of,
    relative_difference,
)

_ROUNDING = 1e-5
_PARALLEL = 0.9999  # cosine
_RATIO = 1e-3  # relative


def explain(original: Recording, converted: Recording, step: int, tolerance: Tolerance | None) -> tuple[Suspicion, ...]:
    """What may be behind the first difference of losses, gradients or parameters, at a step that both runs make."""
    return tuple(_Difference(original, converted, step, tolerance).causes())


class _Difference:
    def __init__(self, original: Recording, converted: Recording, step: int, tolerance: Tolerance | None) -> None:
        self._original = original
        self._converted = converted
        self._number = step
        self._tolerance = tolerance
        self._left, self._right = original.main.steps[step], converted.main.steps[step]
        self._losses = losses_of(original, step), losses_of(converted, step)

    def causes(self) -> Iterator[Suspicion]:
        if apart := disagreement(self._converted, self._number):
            yield self._because("GRAD-SYNC", 3, apart)
            return
        gap = loss_difference(self._original, self._converted, self._number)
        same_loss = gap <= self._allowed("losses")
        same_gradients = gradient_distance(self._left, self._right) <= self._allowed("gradients")
        if same_loss and same_gradients:
            yield from self._update()
            return
        yield from self._passes()
        yield from self._circumstances()
        yield from self._missing()
        yield from self._scale(same_loss)
        if self._converted.world > 1 and not same_gradients and (shares := self._uneven()):
            yield self._because("LOSS-WEIGHT", 2, shares)
        if same_loss:
            yield self._because("GRAD-OTHER", 1, f"the loss of step {self._number} is the same, its gradients are not")
        else:
            yield self._because("LOSS", 1, f"the loss of step {self._number} differs")

    def _because(self, code: str, weight: int, evidence: str) -> Suspicion:
        return Suspicion(code, weight, evidence, self._right.place)

    def _allowed(self, what: str) -> float:
        if self._tolerance is None:
            return 0.0
        of = self._tolerance.of_gradients if what == "gradients" else self._tolerance.of_losses
        return max(_ROUNDING, of(self._number))

    # ---- causes by their evidence

    def _passes(self) -> Iterator[Suspicion]:
        ours, theirs = len(self._left.losses), len(self._right.losses)
        if ours != theirs:
            evidence = f"{theirs} backward passes instead of {ours} before step {self._number}"
            yield self._because("ACCUMULATION", 3, evidence)

    def _update(self) -> Iterator[Suspicion]:
        """The same gradients, other parameters."""
        if relative_difference(self._left.rates, self._right.rates) > 1e-9:
            return  # which is a difference of its own
        number = self._left.optimizer
        settings = zip(
            self._original.main.optimizers[number].settings,
            self._converted.main.optimizers[number].settings,
            strict=False,
        )
        changed = [
            f"{name}={theirs.get(name)} instead of {value}"
            for ours, theirs in settings
            for name, value in ours.items()
            if theirs.get(name) != value
        ]
        if changed:
            yield self._because("OPTIMIZER", 3, ", ".join(changed[:3]))
        else:
            evidence = f"the gradients of step {self._number} are the same, the updates are not"
            yield self._because("OPTIMIZER", 2, evidence)

    def _circumstances(self) -> Iterator[Suspicion]:
        """What was recorded beside the numbers."""
        ours, theirs = self._left, self._right
        if ours.mode and theirs.mode and ours.mode != theirs.mode:
            yield self._because("TRAIN-MODE", 3, f"the model is in mode {theirs.mode} instead of {ours.mode}")
        dtypes = sorted(self._original.main.autocasts), sorted(self._converted.main.autocasts)
        if dtypes[0] != dtypes[1]:
            shown = [" and ".join(one) or "no autocast" for one in dtypes]
            yield self._because("PRECISION", 3, f"{shown[1]} instead of {shown[0]}")
        if ours.clips != theirs.clips:
            shown = [few_numbers(one) or "nothing" for one in (ours.clips, theirs.clips)]
            yield self._because("CLIP", 3, f"clipped to {shown[1]} instead of {shown[0]}")
        if len(ours.stale) == len(theirs.stale) and ours.stale != theirs.stale:
            left_in = any(b and not a for a, b in zip(ours.stale, theirs.stale, strict=True))
            what = "were left in" if left_in else "are gone"
            yield self._because(
                "ZERO-GRAD", 3, f"gradients from before the backward pass of step {self._number} {what}"
            )

    def _missing(self) -> Iterator[Suspicion]:
        names = self._original.main.optimizers[self._left.optimizer].names
        for name, a, b in zip(names, self._left.gradients, self._right.gradients, strict=False):
            if (a is None or a.norm == 0) != (b is None or b.norm == 0):
                has, lacks = ("original", "converted") if a is not None and a.norm else ("converted", "original")
                evidence = f"{name} has a gradient in the {has} script, none in the {lacks}"
                yield self._because("GRAD-OTHER", 3, evidence)
                return

    def _scale(self, same_loss: bool) -> Iterator[Suspicion]:
        """Gradients that point the same way differ in length alone."""
        gradients = _ratio(self._left, self._right)
        ratios = [b / a for a, b in zip(*self._losses, strict=False) if a]
        if gradients is None or not ratios or max(ratios) - min(ratios) > _RATIO * abs(ratios[0]):
            return
        loss = ratios[0]
        clipped = bool(self._left.clips and self._right.clips)
        if same_loss:
            evidence = f"the loss is the same, but gradients are {gradients:.4g} times the original's"
            yield self._because("LOSS-SCALE", 3 if _whole(gradients) else 2, evidence)
        elif abs(loss - 1) > 10 * _RATIO and (clipped or abs(gradients / loss - 1) <= 10 * _RATIO):
            certain = _whole(loss) or not clipped
            yield self._because("LOSS-SCALE", 3 if certain else 2, f"the loss is {loss:.4g} times the original's")

    def _uneven(self) -> str:
        """The shares of the processes of the samples of this step, if they differ in size."""
        shares = [
            sum(len(batch.samples) for batch in rank.batches if batch.step == self._number)
            for rank in self._converted.ranks
        ]
        if len(set(shares)) == 1:
            return ""
        return f"the processes have {' and '.join(map(str, shares))} samples, the first step that differs is such a one"


def disagreement(converted: Recording, step: int) -> str:
    """A parameter on which the processes do not agree after a step, in words; empty if there is none."""
    steps = [rank.steps[step] for rank in converted.ranks if step < len(rank.steps)]
    first = steps[0]
    optimizer = converted.main.optimizers[first.optimizer]
    for rank, other in enumerate(steps):
        if [values.count for values in first.parameters] != [values.count for values in other.parameters]:
            return ""  # each process has a part of the model
        for index, gap in enumerate(distances(first.parameters, other.parameters)):
            if gap > _ROUNDING:
                return f"after step {step}, process {rank} has another {optimizer.name(index)} than process 0"
    return ""


def few_numbers(values: Sequence[float]) -> str:
    """The first of them, for people."""
    return ", ".join(f"{value:.6g}" for value in values[:3]) + (", …" if len(values) > 3 else "")


def _ratio(left: Step, right: Step) -> float | None:
    """How many times as long the right gradients are, if they point the same way."""
    ours, theirs = _sketches(left.gradients), _sketches(right.gradients)
    if len(ours) != len(theirs) or not left.gradient_norm:
        return None
    dot = math.fsum(a * b for a, b in zip(ours, theirs, strict=True))
    norms = math.hypot(*ours) * math.hypot(*theirs)
    if not norms or not dot / norms > _PARALLEL:
        return None
    return right.gradient_norm / left.gradient_norm


def _sketches(gradients: Sequence[Values | None]) -> list[float]:
    return [value for one in gradients if one is not None for value in one.sketch]


def _whole(ratio: float) -> bool:
    """Whether a ratio is a small whole number or one over it, other than 1."""
    if ratio <= 0:
        return False
    of = ratio if ratio > 1 else 1 / ratio
    return of > 1.2 and abs(of - round(of)) < 0.02
