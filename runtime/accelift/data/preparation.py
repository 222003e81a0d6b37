"""What a prepared loader knows besides what the author's does, and each pass over it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from accelift.data.indices import DealtIndices, Record
from accelift.data.resume import Begin, Place
from accelift.data.share import Plan, Share
from accelift.data.stream import StreamReader
from accelift.state import GradientState, PartialState

if TYPE_CHECKING:
    from accelift.data.loader import PreparedLoader


class LoaderPass:
    """One pass over a prepared loader.

    Attributes:
        loader: the loader.
        skipped: how many batches were passed over at its start.
        position: how many were dealt, with these.
        begin: where it began to draw.
        share: who was dealt how much of the current batch; ``None`` where batches are not dealt.
        following: how many batches follow the current one, as far as was looked ahead; ``None``
            where ``len(loader)`` tells.
        counted: whether gradient accumulation has begun counting this pass.
    """

    __slots__ = ("_length", "begin", "counted", "following", "loader", "position", "share", "skipped")

    def __init__(self, loader: PreparedLoader, skipped: int, begin: Begin) -> None:
        self.loader = loader
        self.skipped = skipped
        self.position = skipped
        self.begin = begin
        self.share: Share | None = None
        self.following: int | None = None
        self.counted = False
        self._length: int | None = None

    @property
    def length(self) -> int | None:
        """How many batches there are, with those passed over; ``None`` if that cannot be known."""
        if self._length is None:
            known = length_of(self.loader)
            self._length = -1 if known is None else known + self.loader._skips
        return None if self._length < 0 else self._length

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the current batch is the last one; ``False`` if that cannot be known."""
        return self.position == self.length if self.following is None else self.following == 0

    def batches_left(self, at_most: int) -> int | None:
        """How many batches there are from the current one on; ``None`` if that cannot be known."""
        if self.following is not None:
            return min(self.following + 1, at_most)
        return None if self.length is None else min(self.length - self.position + 1, at_most)

    def advance(self, record: Record | None) -> None:
        """Go on to the next batch."""
        self.position += 1
        if record is not None:
            self.share = record.share
            if record.following is not None:
                self.following = record.following


@dataclass(eq=False, repr=False)
class Preparation:
    """What a prepared loader knows besides what the author's does.

    Attributes:
        gradient_state: where the Accelerator keeps the passes that are under way.
        state: the processes.
        device: where batches are moved; ``None`` leaves them where they are.
        non_blocking: move them without waiting.
        plan: how batches are dealt; ``None`` where they are not.
        indices: stands in for the index sampler, where that is needed.
        stream: reads the dataset, where it is a stream that is dealt.
        fetch_ahead: fetch one batch ahead, to know which one is the last.
        draws: whether something is drawn from random generators to find out what comes.
        generators: those that belong to the loader, its samplers and its dataset.
        rng_types: the generators that are synchronised when a pass begins.
        stateful: whether a pass goes on by itself where the state that was loaded was taken.
        place: where that was, until a pass begins.
        iterator: torch's, where workers persist.
    """

    gradient_state: GradientState
    state: PartialState
    device: torch.device | None = None
    non_blocking: bool = False
    plan: Plan | None = None
    indices: DealtIndices | None = None
    stream: StreamReader | None = None
    fetch_ahead: bool = False
    draws: bool = True
    generators: list[Any] = field(default_factory=list)
    rng_types: Sequence[str] = ()
    stateful: bool = False
    place: Place = field(default_factory=Place)
    iterator: Any = None
    warned: bool = False

    @property
    def batches_per_step(self) -> int:
        """How many batches of the author's loader all processes together are dealt in a step."""
        return 1 if self.plan is None or self.plan.split else self.plan.world

    @property
    def newest_pass(self) -> LoaderPass | None:
        """The newest pass that is under way over the loader."""
        passes = reversed(self.gradient_state.passes)
        return next((one for one in passes if one.loader._accelift is self), None)

    def bind(self, records: deque[Record]) -> None:
        """Let what is known of the batches drawn from now on go to ``records``."""
        for source in (self.indices, self.stream):
            if source is not None:
                source.records = records

    def start(self, skips: int) -> Place:
        """Where a new pass starts that is to pass over so many batches, and where it began to draw, if it did."""
        place, self.place = self.place, Place()
        if skips:
            return Place(skips, begin=place.begin, worker_seed=place.worker_seed)
        if self.stateful and not place.finished:
            return place
        return Place(worker_seed=place.worker_seed)


def length_of(loader: DataLoader[Any]) -> int | None:
    """``len(loader)``, or ``None`` where it has none."""
    try:
        return len(loader)
    except (TypeError, NotImplementedError, AttributeError):
        return None
