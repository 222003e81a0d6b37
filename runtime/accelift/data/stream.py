"""Dealing a stream: an ``IterableDataset``, whose samples can only be read one after the other.

Every process reads the whole stream and keeps its share of each batch; only that is collated.  So
the stream must be the same on every process: it must not draw from random generators that are
seeded differently, nor pick its own part by process.  With ``num_workers > 0`` each worker reads
its own stream, as in plain torch, and the batches of each are shared out in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice, repeat
from typing import Any, NamedTuple

from torch.utils.data import DataLoader, IterableDataset

from accelift.data.indices import InStep, Record
from accelift.data.share import Plan, Share


class _Dealt(NamedTuple):
    """Batches of a step and what is known of it, on the way from where they were read (maybe a worker)."""

    batches: list[Any]
    share: Share


class DealtStream(IterableDataset[tuple[list[Any], Share]]):
    """This process's samples of each step of a stream; or those of every process that gets some."""

    def __init__(self, dataset: IterableDataset[Any], plan: Plan, batch_size: int, everyones: bool = False) -> None:
        self.dataset = dataset
        self.plan = plan
        self.batch_size = batch_size
        self.everyones = everyones

    def __iter__(self) -> Iterator[tuple[list[Any], Share]]:
        batches = self._batches(iter(self.dataset))
        if self.everyones:
            return self.plan.deal_all(batches)
        return (([part], share) for part, share in self.plan.deal(batches))

    def _batches(self, samples: Iterator[Any]) -> Iterator[list[Any]]:
        while batch := list(islice(samples, self.batch_size)):
            if self.plan.drop_last and len(batch) < self.batch_size:
                return
            yield batch


class _Collate:
    """The author's collate function, applied to the samples of each process."""

    def __init__(self, collate: Callable[[Any], Any], batched: bool) -> None:
        self.collate = collate
        self.batched = batched

    def __call__(self, fetched: list[tuple[list[Any], Share]]) -> _Dealt:
        ((parts, share),) = fetched
        return _Dealt([self.collate(part if self.batched else part[0]) for part in parts], share)


class _OneByOne:
    """An endless batch sampler: the dataset decides when to stop."""

    def __iter__(self) -> Iterator[list[None]]:
        return repeat([None])


class StreamReader:
    """Makes the iterators of a prepared loader over a stream.

    Args:
        loader: the author's loader.
        plan: how its batches are dealt.
        in_step: for making iterators, which may draw; ``None`` where that is done as torch does.
        everyones: yield the batch of one process after the other, for a main process that reads for all.
    """

    def __init__(
        self, loader: DataLoader[Any], plan: Plan, in_step: InStep | None = None, everyones: bool = False
    ) -> None:
        assert isinstance(loader.dataset, IterableDataset)
        batched = loader.batch_size is not None
        self.records: deque[Record] = deque()
        self._in_step = in_step or nullcontext
        self.inner: DataLoader[Any] = object.__new__(DataLoader)
        # Through __dict__, since a DataLoader does not let these be set once it is made.
        self.inner.__dict__ = {
            **loader.__dict__,
            "dataset": DealtStream(loader.dataset, plan, loader.batch_size or 1, everyones),
            "collate_fn": _Collate(loader.collate_fn, batched),
            "batch_sampler": _OneByOne(),
            "drop_last": False,
            "_IterableDataset_len_called": None,
            "_iterator": None,
        }

    def make_iterator(self) -> _StreamIterator:
        """A new iterator over the loader's batches."""
        with self._in_step():
            return _StreamIterator(self.inner._get_iterator(), self)


class _StreamIterator:
    """Torch's iterator, which notes the share of each batch and hands out the batch."""

    def __init__(self, iterator: Any, reader: StreamReader) -> None:
        self._iterator = iterator
        self._reader = reader
        self._begin()

    def _begin(self) -> None:
        self._records = self._reader.records
        self._batches: deque[tuple[Any, Record]] = deque()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self._batches:
            batches, share = next(self._iterator)
            self._batches.extend((batch, Record(share)) for batch in batches)
        batch, record = self._batches.popleft()
        self._records.append(record)
        return batch

    @property
    def _base_seed(self) -> int:
        """What torch seeded the workers with."""
        seed: int = self._iterator._base_seed
        return seed

    def _reset(self, loader: DataLoader[Any]) -> None:
        """Start anew; what torch calls where workers persist."""
        self._begin()
        self._iterator._reset(loader)
