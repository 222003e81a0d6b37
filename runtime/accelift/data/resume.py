"""Going on in the middle of a pass over a loader, with the very batches that would have come.

A pass is made again from where it began: its iterator is made, and its first indices are drawn, with the random
generators in the states they had then; what was dealt already is passed over; and the generators are put back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accelift.generators import Snapshot, from_tensors, restore, to_tensors


@dataclass
class Begin:
    """The states of the generators from which a pass draws.

    Attributes:
        made: when its iterator was made.
        asked: when its first batch was asked for.
        worker_seed: what the workers were seeded with, where they are those of an earlier pass.
    """

    made: Snapshot
    asked: Snapshot
    worker_seed: int | None = None


@dataclass
class Place:
    """A place in a pass over a loader.

    Attributes:
        position: how many batches this process was dealt; 0 between two passes.
        finished: whether these were all of them.
        begin: where the pass began to draw; ``None`` if there was none.
        worker_seed: what the workers were seeded with that are there for the next pass, too.
    """

    position: int = 0
    finished: bool = False
    begin: Begin | None = None
    worker_seed: int | None = None


def to_state(place: Place, batches_per_step: int, generators: Snapshot) -> dict[str, Any]:
    """The state dict of a loader: whole numbers, words, tensors, and lists and dicts of these."""
    state: dict[str, Any] = {
        "position": place.position,
        "finished": place.finished,
        "batches_per_step": batches_per_step,
        "generators": to_tensors(generators.get("own", [])),
    }
    if place.worker_seed is not None:
        state["worker_seed"] = place.worker_seed
    if place.begin is not None:
        state["begin"] = to_tensors(vars(place.begin))
    return state


def from_state(state: Any, batches_per_step: int, generators: list[Any]) -> Place:
    """The place that a state dict tells of; the given generators are set to the states they had there.

    Raises:
        ValueError: if it is not the state of a prepared loader, or not of one that is dealt like this.
    """
    if not isinstance(state, Mapping) or not {"position", "finished", "batches_per_step", "generators"} <= state.keys():
        raise ValueError("this is not the state of a prepared loader: load what its state_dict() returned.")
    position = state["position"]
    if position and state["batches_per_step"] != batches_per_step:
        raise ValueError(
            f"the state is of a loader that dealt {state['batches_per_step']} batches in a step, while this one deals "
            f"{batches_per_step}: go on with as many processes as before, or use split_batches=True, with which their "
            "number does not matter."
        )
    if len(state["generators"]) != len(generators):
        raise ValueError(
            f"the state is of a loader with {len(state['generators'])} random generators of its own, while this one "
            f"has {len(generators)}: load it into a loader that was made in the same way."
        )
    restore({"own": from_tensors(state["generators"])}, generators)
    begin = None
    if "begin" in state:
        begin = Begin(**from_tensors(state["begin"]))
    return Place(position, state["finished"], begin, state.get("worker_seed"))
