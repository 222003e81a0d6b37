"""The prepared loader: the author's own, whose batches are dealt to the processes."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _DatasetKind, _SingleProcessDataLoaderIter

from accelift.containers import send_to_device
from accelift.data.indices import Record
from accelift.data.preparation import LoaderPass, Preparation
from accelift.data.resume import Begin, Place, from_state, to_state
from accelift.data.samplers import batch_sampler_of, get_sampler
from accelift.data.share import Plan, Share
from accelift.generators import restore, snapshot, undone
from accelift.random import synchronize_rng_states


class PreparedLoader(DataLoader[Any]):
    """Deals this process its part of each batch, on its device.

    A prepared loader is a copy of the author's, of a class derived from both this one and the
    author's: attributes, ``isinstance`` and overridden methods stay as they were.  An overridden
    ``__iter__`` must yield one batch for each one that it takes from ``super().__iter__()``.
    """

    _accelift: Preparation
    _skips: int

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError(f"{type(self).__name__} is made from a DataLoader, by accelerator.prepare(loader).")

    @property
    def _iterator(self) -> Any:
        # Not the loader's own, as loaders that skip batches have the same workers.
        return self._accelift.iterator

    @_iterator.setter
    def _iterator(self, iterator: Any) -> None:
        self._accelift.iterator = iterator

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
            length = preparation.plan.length(length, None)
        return max(length - self._skips, 0)

    def __iter__(self) -> Any:
        # Not a generator itself: making the iterator draws a seed here and now, as in torch.
        preparation = self._accelift
        records: deque[Record] = deque()
        preparation.bind(records)
        place = preparation.start(self._skips)
        if place.begin is not None:
            with undone(preparation.generators):
                restore(place.begin.made, preparation.generators)
                batches = self._make_anew(records, place.begin.worker_seed)
            return self._deal(batches, records, LoaderPass(self, place.position, place.begin), again=True)
        if preparation.rng_types:
            self._synchronize(preparation.rng_types)
        now = snapshot(preparation.generators) if preparation.draws else {}
        if self._iterator is not None:
            batches, worker_seed = self._make(records), self._iterator._base_seed
        else:
            batches, worker_seed = self._make_anew(records, place.worker_seed), place.worker_seed
        return self._deal(batches, records, LoaderPass(self, place.position, Begin(now, now, worker_seed)))

    def _make(self, records: deque[Record]) -> Iterator[Any]:
        """An iterator over what this process is dealt, which notes what is known of it in ``records``."""
        return iter(super().__iter__())

    def _make_anew(self, records: deque[Record], worker_seed: int | None) -> Iterator[Any]:
        """The same, with new workers, which are seeded as those of an earlier pass if that is known."""
        self._iterator = None
        if worker_seed is None:
            return self._make(records)
        maker = self if self._accelift.stream is None else self._accelift.stream.inner
        generator = maker.generator
        vars(maker)["generator"] = torch.Generator().manual_seed(worker_seed)
        try:
            return self._make(records)
        finally:
            vars(maker)["generator"] = generator

    def _deal(
        self, batches: Iterator[Any], records: deque[Record], current: LoaderPass, again: bool = False
    ) -> Iterator[Any]:
        preparation = self._accelift
        preparation.bind(records)  # an __iter__ of the author's may only begin to draw here
        device, non_blocking = preparation.device, preparation.non_blocking
        gradient_state, plan = preparation.gradient_state, preparation.plan
        passes = gradient_state.passes
        if preparation.fetch_ahead:
            batches = _fetching_ahead(batches, current)
        self._begin(batches, records, current, again)
        try:
            for batch in batches:
                if plan is not None and not records:
                    raise RuntimeError(not_drawn(self))
                current.advance(records.popleft() if records else None)
                gradient_state.by_hand = gradient_state.left = None
                if plan is not None and not preparation.warned:
                    self._warn_if_replicated(current.share, plan)
                if not passes or passes[-1] is not current:
                    if current in passes:
                        passes.remove(current)
                    passes.append(current)
                yield batch if device is None else send_to_device(batch, device, non_blocking)
        finally:
            # Also reached when the loop is left by break or an exception.
            if current in passes:
                passes.remove(current)
                gradient_state.left = current.share

    def _begin(self, batches: Iterator[Any], records: deque[Record], current: LoaderPass, again: bool) -> None:
        """Come to the first batch that is to be dealt; if ``again``, with what was drawn before."""
        generators, begin = self._accelift.generators, current.begin
        if again:
            with undone(generators):
                restore(begin.asked, generators)
                self._pass_over(current.skipped, batches, records)
            return
        if self._accelift.draws:
            begin.asked = snapshot(generators)
        if current.skipped:
            self._pass_over(current.skipped, batches, records)

    def _pass_over(self, count: int, batches: Iterator[Any], records: deque[Record]) -> None:
        """Go past the next batches, without fetching them where that makes no difference."""
        go_past = without_fetching(batches)
        for _ in range(count):
            try:
                go_past()
            except StopIteration:
                return
            if records:
                records.popleft()

    def _synchronize(self, rng_types: Sequence[str]) -> None:
        owners = (get_sampler(self), self.sampler, self.dataset)
        found = (getattr(owner, "generator", None) for owner in owners)
        generator = next((one for one in found if isinstance(one, torch.Generator)), None)
        types = [kind for kind in rng_types if kind != "generator" or generator is not None]
        synchronize_rng_states(types, generator)

    def _warn_if_replicated(self, share: Share | None, plan: Plan) -> None:
        if share is None or not share.replicated:
            return
        if plan.step_size not in (None, share.counts[0]):
            return  # a short last batch, not worth a word
        self._accelift.warned = True
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

    def state_dict(self) -> dict[str, Any]:
        """Where the newest pass over this loader stands, and what it takes to come there again.

        Made of whole numbers, words, tensors, lists and dicts.  Between two passes, and at the last
        batch of one, it tells to begin a new one.
        """
        preparation, current = self._accelift, self._accelift.newest_pass
        place = preparation.place
        if current is not None:
            place = Place(current.position, current.end_of_dataloader, current.begin)
        if self._iterator is not None:
            place.worker_seed = self._iterator._base_seed
        return to_state(place, preparation.batches_per_step, snapshot(preparation.generators))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next pass go on where a state was taken.

        With ``use_stateful_dataloader=True`` a plain loop does; otherwise
        :func:`accelift.data_loader.skip_first_batches` is told how far to go.

        Raises:
            ValueError: if the state is not of a loader like this one.
        """
        preparation = self._accelift
        preparation.place = from_state(state_dict, preparation.batches_per_step, preparation.generators)

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
        newest = self._accelift.newest_pass
        return newest is not None and newest.end_of_dataloader

    @property
    def total_batch_size(self) -> int | None:
        """Samples that all processes together get in a full step; ``None`` if not known."""
        size: int | None = self.batch_size or getattr(batch_sampler_of(self), "batch_size", None)
        return None if size is None else size * self._accelift.batches_per_step

    @property
    def total_dataset_length(self) -> int:
        """``len(dataset)``."""
        return len(self.dataset)  # type: ignore[arg-type]


_NOT_DRAWN = (
    "{} yields batches that it did not draw from its batch sampler since it was prepared, so every "
    "process would get all data; prepare a plain DataLoader, or let its __iter__ take each batch "
    "from super().__iter__()."
)


def not_drawn(loader: PreparedLoader) -> str:
    """What is wrong with a loader of which more batches come than were drawn."""
    return _NOT_DRAWN.format(type(loader).__name__.removeprefix("Prepared"))


def without_fetching(batches: Iterator[Any]) -> Callable[[], Any]:
    """What goes past the next batch of an iterator.

    Fetching it makes no difference where torch fetches by indices in this process.  A worker draws random numbers
    for it, a stream has to be read, and an ``__iter__`` of the author's may count.
    """
    if isinstance(batches, _SingleProcessDataLoaderIter) and batches._dataset_kind == _DatasetKind.Map:
        go_past: Callable[[], Any] = batches._next_index
        return go_past
    return batches.__next__


def _fetching_ahead(batches: Iterator[Any], current: LoaderPass) -> Iterator[Any]:
    """The same batches, each with the knowledge whether it is the last one."""
    nothing = object()
    ahead = next(batches, nothing)
    while ahead is not nothing:
        batch, ahead = ahead, next(batches, nothing)
        current.following = int(ahead is not nothing)
        yield batch
