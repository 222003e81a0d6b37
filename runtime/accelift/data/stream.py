"""Dealing a stream: an ``IterableDataset``, whose samples can only be read one after the other.

Every process reads the whole stream and keeps its share of each batch; only that is collated.  So
the stream must be the same on every process: it must not draw from random generators that are
seeded differently, nor pick its own part by process.  With ``num_workers > 0`` each worker reads
its own stream, as in plain torch, and the batches of each are shared out in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice, repeat
from typing import Any, NamedTuple

from torch.utils.data import DataLoader, IterableDataset

from accelift.data.indices import Record
from accelift.data.share import Plan, Share


class _Dealt(NamedTuple):
    """A batch and what is known of it, on the way from where it was read (maybe a worker)."""

    batch: Any
    share: Share


class _DealtStream(IterableDataset[tuple[Any, Share]]):
    """This process's samples of each batch of a stream."""

    def __init__(self, dataset: IterableDataset[Any], plan: Plan, batch_size: int) -> None:
        self.dataset = dataset
        self.plan = plan
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[tuple[Any, Share]]:
        return self.plan.deal(self._batches(iter(self.dataset)))

    def _batches(self, samples: Iterator[Any]) -> Iterator[list[Any]]:
        while batch := list(islice(samples, self.batch_size)):
            if self.plan.drop_last and len(batch) < self.batch_size:
                return
            yield batch


class _Collate:
    """The author's collate function, applied to this process's samples."""

    def __init__(self, collate: Callable[[Any], Any], batched: bool) -> None:
        self.collate = collate
        self.batched = batched

    def __call__(self, fetched: list[tuple[Any, Share]]) -> _Dealt:
        ((samples, share),) = fetched
        return _Dealt(self.collate(samples if self.batched else samples[0]), share)


class _OneByOne:
    """An endless batch sampler: the dataset decides when to stop."""

    def __iter__(self) -> Iterator[list[None]]:
        return repeat([None])


class StreamReader:
    """Makes the iterators of a prepared loader over a stream.

    Args:
        loader: the author's loader.
        plan: how its batches are dealt.
        in_step: makes the context in which iterators are made, which may draw.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        plan: Plan,
        in_step: Callable[[], AbstractContextManager[None]] | None,
    ) -> None:
        assert isinstance(loader.dataset, IterableDataset)
        batched = loader.batch_size is not None
        self.records: deque[Record] = deque()
        self._in_step = in_step or nullcontext
        self._inner: DataLoader[Any] = object.__new__(DataLoader)
        # Through __dict__, since a DataLoader does not let these be set once it is made.
        self._inner.__dict__ = {
            **loader.__dict__,
            "dataset": _DealtStream(loader.dataset, plan, loader.batch_size or 1),
            "collate_fn": _Collate(loader.collate_fn, batched),
            "batch_sampler": _OneByOne(),
            "drop_last": False,
            "_IterableDataset_len_called": None,
            "_iterator": None,
        }

    def make_iterator(self) -> _StreamIterator:
        """A new iterator over the loader's batches."""
        with self._in_step():
            return _StreamIterator(self._inner._get_iterator(), self)


class _StreamIterator:
    """Torch's iterator, which notes the share of each batch and hands out the batch."""

    def __init__(self, iterator: Any, reader: StreamReader) -> None:
        self._iterator = iterator
        self._reader = reader
        self._records = reader.records

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch, share = next(self._iterator)
        self._records.append(Record(share, None))
        return batch

    def _reset(self, loader: DataLoader[Any]) -> None:
        """Start anew; what torch calls where workers persist."""
        self._records = self._reader.records
        self._iterator._reset(loader)
