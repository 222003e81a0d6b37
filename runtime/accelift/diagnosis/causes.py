"""Why a parameter may differ between processes, judged by what each of them knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

AVERAGED, LOCAL, OUTSIDE = "averaged", "local", "outside"


@dataclass(frozen=True)
class Evidence:
    """What a process knows of a parameter, right after an optimizer step.

    Attributes:
        in_model: it is in a prepared model.
        was_frozen: it was frozen when that was prepared.
        optimizer: the class of its optimizer.
        prepared: whether that is prepared.
        source: where its gradient was last added to since the step before: in an
            ``accelerator.backward`` that averages (``AVERAGED``) or in one that does not
            (``LOCAL``), somewhere else (``OUTSIDE``), or not at all (``None``).
        gradient: a checksum of its gradient, if it has one.
        settings: those of its parameter group.
        state: a checksum of what its optimizer keeps for it.
    """

    in_model: bool
    was_frozen: bool
    optimizer: str
    prepared: bool
    source: str | None
    gradient: int | None
    settings: dict[str, Any]
    state: int

    def to_note(self) -> dict[str, Any]:
        """The evidence as JSON can tell it."""
        return asdict(self)


def likely_cause(evidence: Sequence[Evidence]) -> str:
    """The most likely reason for which a parameter differs, and what to do.

    Args:
        evidence: that of each process, in their order.
    """
    one = evidence[0]
    for name in one.settings:
        values = [other.settings.get(name) for other in evidence]
        if any(value != values[0] for value in values):
            rank = next(rank for rank, value in enumerate(values) if value != values[0])
            return (
                f"the {name} of {one.optimizer} is {values[0]} on rank 0 and {values[rank]} on rank {rank}; set it "
                "from numbers that are the same everywhere, for instance gathered or reduced ones"
            )
    if one.gradient is not None and all(other.gradient == one.gradient for other in evidence):
        if any(other.state != one.state for other in evidence):
            return (
                f"its gradients agree but the state that {one.optimizer} keeps for it does not; load the same "
                "optimizer state on every process"
            )
        return (
            "its gradients agree, so the script itself gave it another value on some processes (weights that are "
            "loaded, initialised, clamped or made noisy there), or an earlier step did; change it alike everywhere"
        )
    sources = {other.source for other in evidence}
    if not one.prepared and (LOCAL in sources or not one.in_model):
        where = "" if one.in_model else ", and the parameter is in no prepared model"
        return f"{one.optimizer} was not prepared{where}, so gradients were not averaged for its step; prepare it"
    if one.was_frozen and AVERAGED not in sources:
        return (
            "it was frozen when its model was prepared, and loss.backward() does not average its gradient then; call "
            "accelerator.backward(loss), or unfreeze it before prepare"
        )
    if sources == {None}:
        return (
            "its gradient does not come from a backward but from torch.autograd.grad or the script itself; average it "
            'with accelerator.reduce(gradient, "mean")'
        )
    if LOCAL in sources:
        return (
            "the optimizer stepped after a backward that averages nothing, under no_sync or between the steps of "
            "accumulate; step only if accelerator.sync_gradients"
        )
    if OUTSIDE in sources:
        what = (
            "the loss did not come from a call of the prepared model (but of the unwrapped one, a part of it or "
            "another method), or had a second backward"
            if one.in_model
            else "it is in no prepared model (a loss with parameters, or one that the script made by itself)"
        )
        return f"{what}, and loss.backward() does not average its gradient then; call accelerator.backward(loss)"
    return (
        "its gradient was averaged but changed after that by something that differs between processes; change "
        "gradients by numbers that are the same everywhere"
    )
