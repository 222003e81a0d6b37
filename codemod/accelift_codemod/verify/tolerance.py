"""How far rounding may take two runs apart that compute the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from accelift_codemod.verify.recording import Rank, Recording, Step, Values

_EPS = 2.0**-23  # of float32, of which nearly all parameters are
_BASE = 64 * _EPS
_LOSS_BASE = 1e-4
_ALLOWANCE = 30.0
_UPDATE = 0.5  # of what a step does: nearer than that, it is no other step


@dataclass(frozen=True)
class Tolerance:
    """How far rounding alone takes a run from another one that computes the same.

    Measured on the script itself: a run of the original whose parameters are moved by one unit of rounding after every
    step drifts from the original; 30 times that much is allowed for each parameter, and 64 units of rounding from the
    start.  Without such a run only those.  What is allowed for a step may be as much as the step itself does: then
    nobody can tell whether it is the same step (`hides`).
    """

    parameters: tuple[tuple[float, ...], ...] = ()
    gradients: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()

    rounding = _BASE

    @classmethod
    def measured(cls, original: Rank, disturbed: Rank) -> Tolerance:
        """From a run of the original and one of it disturbed."""
        worst: dict[int, list[float]] = {}
        parameters, gradients, losses = [], [0.0], [0.0]
        for left, right in zip(original.steps, disturbed.steps, strict=False):
            gaps = distances(left.parameters, right.parameters)
            known = worst.get(left.optimizer, [0.0] * len(gaps))
            worst[left.optimizer] = [max(pair) for pair in zip(known, gaps, strict=False)]
            parameters.append(tuple(worst[left.optimizer]))
            gradients.append(max(gradients[-1], gradient_distance(left, right)))
            gap = relative_difference(left.losses, right.losses)
            losses.append(max(losses[-1], gap if math.isfinite(gap) else 0.0))
        return cls(tuple(parameters), tuple(gradients[1:]), tuple(losses[1:]))

    def of(self, step: int, parameter: int) -> float:
        """For the relative difference of a parameter after a step."""
        drift = self.parameters[min(step, len(self.parameters) - 1)] if self.parameters else ()
        return max(_BASE, _ALLOWANCE * (drift[parameter] if parameter < len(drift) else 0.0))

    def hides(self, gaps: Sequence[float], moves: Sequence[float]) -> bool:
        """Whether a step may be another one although it differs by no more than is allowed.

        Args:
            gaps: how far each parameter is from its counterpart, in the parameters' own units.
            moves: how far the step has moved each of them.
        """
        unlike = [gap for gap, move in zip(gaps, moves, strict=False) if gap > _UPDATE * move]
        return bool(self.parameters) and math.hypot(*unlike) > _UPDATE * math.hypot(*moves)

    def of_gradients(self, step: int) -> float:
        """For the difference of gradients, in units of the norm of all of them."""
        return max(_BASE, _ALLOWANCE * _at(self.gradients, step))

    def of_losses(self, step: int) -> float:
        """For the relative difference of losses."""
        return max(_LOSS_BASE, _ALLOWANCE * _at(self.losses, step))


def _at(drift: Sequence[float], step: int) -> float:
    return drift[min(step, len(drift) - 1)] if drift else 0.0


def units_of_rounding(rank: Rank) -> float:
    """How many units of its parameters' dtype a run rounds by: more than one where it computes in another dtype.

    Autocast rounds inputs and results of single operations, to the nearest number: by a quarter of the distance of
    neighbors on average, whereas long sums in the parameters' own dtype are rounded again and again.
    """
    return max((_COARSE[dtype] / _EPS / 4 for dtype in rank.autocasts if dtype in _COARSE), default=1.0)


_COARSE = {"bfloat16": 2.0**-7, "float16": 2.0**-10}


def distances(left: Sequence[Values], right: Sequence[Values]) -> list[float]:
    """The relative distance of each parameter from its counterpart."""
    return [a.relative(b) for a, b in zip(left, right, strict=False)]


def gradient_distance(left: Step, right: Step) -> float:
    """How far gradients are apart, in units of the norm of all of them; no gradient is one of zeros."""
    scale = max(left.gradient_norm, right.gradient_norm)
    gaps = [
        (a.distance(b) if b is not None else a.norm) if a is not None else (b.norm if b is not None else 0.0)
        for a, b in zip(left.gradients, right.gradients, strict=False)
    ]
    gap = math.hypot(*gaps)
    return gap / scale if scale > 0 else gap


def relative_difference(ours: Sequence[float | None], theirs: Sequence[float | None]) -> float:
    """The largest relative difference of two series of numbers; infinite if one is longer."""
    gaps = [
        0.0 if a == b else math.inf if a is None or b is None else abs(a - b) / max(abs(a), abs(b), 1e-12)
        for a, b in zip_longest(ours, theirs)
    ]
    return max(gaps, default=0.0)


def losses_of(recording: Recording, step: int) -> list[float]:
    """The losses that reached backward before a step, averaged over the processes."""
    found = [rank.steps[step].losses for rank in recording.ranks if step < len(rank.steps)]
    return [
        math.fsum(value for value in values if value is not None) / len(values)
        for values in zip(*found, strict=False)
        if any(value is not None for value in values)
    ]


def loss_difference(ours: Recording, theirs: Recording, step: int) -> float:
    """The relative difference of the losses before a step, one by one or, if that is less, of their sum.

    A batch that is taken in pieces is in other pieces where it is shared out: there only the sum is the same.
    """
    losses = losses_of(ours, step), losses_of(theirs, step)
    found = relative_difference(*losses)
    if found and ours.world != theirs.world:
        found = min(found, relative_difference([_sum_of(ours, step)], [_sum_of(theirs, step)]))
    return found


def difference_of_shares(ours: Recording, theirs: Recording, step: int) -> float:
    """The same, if the loss of each process is a sum over its share: of their total over the processes."""
    totals = [loss * theirs.world for loss in losses_of(theirs, step)]
    return relative_difference(losses_of(ours, step), totals)


def _sum_of(recording: Recording, step: int) -> float | None:
    """The sum of the losses before a step, averaged over the processes; None if one of them is no number."""
    known = [rank.steps[step].losses for rank in recording.ranks if step < len(rank.steps)]
    values = [value for losses in known for value in losses]
    if not values or None in values:
        return None
    return math.fsum(value for value in values if value is not None) / len(known)
