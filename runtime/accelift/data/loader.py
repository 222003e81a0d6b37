"""The prepared loader: the author's own, whose batches are dealt to the processes."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader

from accelift.data.indices import DealtIndices, Record
from accelift.data.share import Plan, Share
from accelift.data.stream import StreamReader
from accelift.operations import send_to_device
from accelift.state import GradientState


class LoaderPass:
    """One pass over a prepared loader.

    Attributes:
        loader: the loader.
        share: who was dealt how much of the current batch; ``None`` where batches are not dealt.
        counted: whether gradient accumulation has begun counting this pass.
        last: whether the current batch is the last one; ``None`` where ``len(loader)`` tells.
    """

    __slots__ = ("_length", "_position", "counted", "last", "loader", "share")

    def __init__(self, loader: PreparedLoader) -> None:
        self.loader = loader
        self.share: Share | None = None
        self.counted = False
        self.last: bool | None = None
        self._position = 0
        self._length: int | None = None

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the current batch is the last one; ``False`` if that cannot be known."""
        if self.last is not None:
            return self.last
        if self._length is None:
            self._length = length_of(self.loader) or -1
        return self._position == self._length

    def advance(self, record: Record | None) -> None:
        """Go on to the next batch."""
        self._position += 1
        if record is not None:
            self.share = record.share
            if record.last is not None:
                self.last = record.last


@dataclass
class Preparation:
    """What a prepared loader knows besides what the author's does.

    Attributes:
        gradient_state: where the Accelerator keeps the passes that are under way.
        device: where batches are moved; ``None`` leaves them where they are.
        non_blocking: move them without waiting.
        plan: how batches are dealt; ``None`` where they are not.
        indices: stands in for the index sampler, where that is needed.
        stream: reads the dataset, where it is a stream that is dealt.
        fetch_ahead: fetch one batch ahead, to know which one is the last.
    """

    gradient_state: GradientState
    device: torch.device | None
    non_blocking: bool
    plan: Plan | None = None
    indices: DealtIndices | None = None
    stream: StreamReader | None = None
    fetch_ahead: bool = False
    warned: bool = False

    def bind(self, records: deque[Record]) -> None:
        """Let what is known of the batches drawn from now on go to ``records``."""
        for source in (self.indices, self.stream):
            if source is not None:
                source.records = records


class PreparedLoader(DataLoader[Any]):
    """Deals this process its part of each batch, on its device.

    A prepared loader is a copy of the author's, of a class derived from both this one and the
    author's: attributes, ``isinstance`` and overridden methods stay as they were.  An overridden
    ``__iter__`` must yield one batch for each one that it takes from ``super().__iter__()``.
    """

    _accelift: Preparation

    @property
    def _index_sampler(self) -> Any:
        indices = self._accelift.indices
        return super()._index_sampler if indices is None else indices

    def _get_iterator(self) -> Any:
        preparation = self._accelift
        if preparation.stream is not None:
            return preparation.stream.make_iterator()
        if preparation.indices is not None:
            return preparation.indices.make_iterator(super()._get_iterator)
        return super()._get_iterator()

    def __len__(self) -> int:
        length = super().__len__()
        preparation = self._accelift
        if preparation.stream is not None and preparation.plan is not None:
            return preparation.plan.length(length, None)
        return length

    def __iter__(self) -> Any:
        # Not a generator itself: making the iterator draws a seed here and now, as in torch.
        records: deque[Record] = deque()
        self._accelift.bind(records)
        return self._deal(iter(super().__iter__()), records)

    def _deal(self, batches: Iterator[Any], records: deque[Record]) -> Iterator[Any]:
        preparation = self._accelift
        preparation.bind(records)  # an __iter__ of the author's may only begin to draw here
        device, non_blocking = preparation.device, preparation.non_blocking
        passes = preparation.gradient_state.passes
        current = LoaderPass(self)
        if preparation.fetch_ahead:
            batches = _fetching_ahead(batches, current)
        try:
            for batch in batches:
                if preparation.plan is not None and not records:
                    raise RuntimeError(_NOT_DRAWN.format(type(self).__name__.removeprefix("Prepared")))
                current.advance(records.popleft() if records else None)
                if preparation.plan is not None:
                    self._warn_if_replicated(current.share, preparation)
                if not passes or passes[-1] is not current:
                    if current in passes:
                        passes.remove(current)
                    passes.append(current)
                yield batch if device is None else send_to_device(batch, device, non_blocking)
        finally:
            # Also reached when the loop is left by break or an exception.
            if current in passes:
                passes.remove(current)

    def _warn_if_replicated(self, share: Share | None, preparation: Preparation) -> None:
        plan = preparation.plan
        if share is None or plan is None or not share.replicated or preparation.warned:
            return
        if plan.batch_size not in (None, share.counts[0]):
            return  # a short last batch, not worth a word
        preparation.warned = True
        if plan.rank == 0:
            what = (
                f"batches of {share.counts[0]} cannot be shared out among {plan.world} processes"
                if batch_sampler_of(self) is not None
                else "a loader with batch_size=None yields items that cannot be cut"
            )
            warnings.warn(
                f"{what}, so every process gets all of them, which is exact but no faster; "
                "enlarge the batches, or deal whole ones in turn with "
                "DataLoaderConfiguration(split_batches=False).",
                stacklevel=3,
            )

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "a prepared loader belongs to its process and cannot be copied or pickled; copy the "
            "loader that was given to prepare."
        )

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch to the author's class, or to whichever of samplers and dataset asks."""
        parent = getattr(super(), "set_epoch", None)
        if parent is not None:
            parent(epoch)
            return
        for listener in (self.batch_sampler, self.sampler, self.dataset):
            set_epoch = getattr(listener, "set_epoch", None)
            if set_epoch is not None:
                set_epoch(epoch)

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the current batch of the newest pass over this loader is the last one."""
        passes = reversed(self._accelift.gradient_state.passes)
        newest = next((one for one in passes if one.loader is self), None)
        return newest is not None and newest.end_of_dataloader

    @property
    def total_batch_size(self) -> int | None:
        """Samples that all processes together get in a full step; ``None`` if not known."""
        size: int | None = self.batch_size or getattr(batch_sampler_of(self), "batch_size", None)
        plan = self._accelift.plan
        return size if size is None or plan is None or plan.split else size * plan.world


_NOT_DRAWN = (
    "{} yields batches that it did not draw from its batch sampler since it was prepared, so every "
    "process would get all data; prepare a plain DataLoader, or let its __iter__ take each batch "
    "from super().__iter__()."
)


def batch_sampler_of(loader: DataLoader[Any]) -> Any:
    """What yields the index batches of a loader; ``None`` if it loads one index at a time.

    A ``BatchSampler`` may also be the *sampler* of a loader with ``batch_size=None``, whose dataset
    then is asked for whole batches.
    """
    if loader.batch_sampler is not None:
        return loader.batch_sampler
    return loader.sampler if isinstance(loader.sampler, BatchSampler) else None


def length_of(loader: DataLoader[Any]) -> int | None:
    """``len(loader)``, or ``None`` where it has none."""
    try:
        return len(loader)
    except (TypeError, NotImplementedError, AttributeError):
        return None


def _fetching_ahead(batches: Iterator[Any], current: LoaderPass) -> Iterator[Any]:
    """The same batches, each with the knowledge whether it is the last one."""
    nothing = object()
    ahead = next(batches, nothing)
    while ahead is not nothing:
        batch, ahead = ahead, next(batches, nothing)
        current.last = ahead is nothing
        yield batch
