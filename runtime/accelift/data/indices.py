"""Dealing the index batches of a map-style dataset."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from accelift.data.share import Plan, Share


class Record(NamedTuple):
    """What is known of a batch when its indices are drawn.

    Attributes:
        share: who gets how much of it; ``None`` on one process.
        last: whether it is the last one; ``None`` where the length of the loader tells.
    """

    share: Share | None
    last: bool | None


class DealtIndices:
    """Stands in for the index sampler of a loader: this process's part of every index batch.

    What is known of each batch goes to ``records`` in the order in which the batches will come.
    The first draw of the sampler, which is where samplers draw their seed or permutation, happens
    where it does in plain torch: with the first batch, or with workers, which fetch ahead, right
    after the loader's iterator was made.

    Args:
        source: the author's batch sampler, or sampler if the loader does not batch.
        plan: how it is dealt; ``None`` on one process.
        batched: whether ``source`` yields batches of indices.
        peek: draw one index batch ahead, to know which one is the last.
        in_step: makes the context in which the first indices are drawn; ``None`` where they are
            drawn as torch does.
        ahead: whether there are workers, for which torch draws indices ahead.
    """

    def __init__(
        self,
        source: Any,
        plan: Plan | None,
        batched: bool,
        peek: bool,
        in_step: Callable[[], AbstractContextManager[None]] | None = None,
        ahead: bool = False,
    ) -> None:
        self.source = source
        self.plan = plan
        self.batched = batched
        self.peek = peek
        self.in_step = in_step
        self.ahead = ahead
        self.records: deque[Record] = deque()
        self._iterator_in_making = False
        self._newest = _Pass(iter(()), self.records)

    def __len__(self) -> int:
        length = len(self.source)
        if self.plan is None:
            return length
        sampler: Any = getattr(self.source, "sampler", None)
        samples = len(sampler) if self.plan.even is False and hasattr(sampler, "__len__") else None
        return self.plan.length(length, samples)

    def __iter__(self) -> Iterator[Any]:
        self._newest = new = _Pass(self._draw(iter(self.source)), self.records)
        if self.in_step is not None and not self.ahead:
            new.in_step = self.in_step
        elif self.in_step is not None and not self._iterator_in_making:
            # Persistent workers: torch reuses its iterator, so make_iterator is not called again.
            with self.in_step():
                new.draw_first()
        return new

    def make_iterator(self, make: Callable[[], Any]) -> Any:
        """Make the loader's iterator, which iterates this object; with workers, draw the first indices."""
        if self.in_step is None or not self.ahead:
            return make()
        self._iterator_in_making = True
        try:
            with self.in_step():
                iterator = make()
                self._newest.draw_first()
        finally:
            self._iterator_in_making = False
        return iterator

    def _draw(self, batches: Iterator[Any]) -> Iterator[tuple[Any, Record]]:
        dealt = self._deal(batches)
        if not self.peek:
            return ((indices, Record(share, None)) for indices, share in dealt)
        return _peeking(dealt)

    def _deal(self, batches: Iterator[Any]) -> Iterator[tuple[Any, Share | None]]:
        if self.plan is None:
            return ((indices, None) for indices in batches)
        if self.batched:
            return self.plan.deal(batches)
        return ((part[0], share) for part, share in self.plan.deal([i] for i in batches))


class _Pass:
    """One pass over the indices; can draw the first ones before they are asked for."""

    def __init__(self, drawn: Iterator[tuple[Any, Record]], records: deque[Record]) -> None:
        self._drawn = drawn
        self._records = records
        self._first: list[tuple[Any, Record]] | None = None
        self._started = False
        self.in_step: Callable[[], AbstractContextManager[None]] | None = None

    def draw_first(self) -> None:
        if not self._started and self._first is None:
            self._first = [item for item in [next(self._drawn, None)] if item is not None]

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self._started and self.in_step is not None:
            with self.in_step():
                self.draw_first()
        self._started = True
        if self._first is None:
            indices, record = next(self._drawn)
        elif self._first:
            indices, record = self._first.pop()
            self._first = None
        else:
            raise StopIteration
        self._records.append(record)
        return indices


def _peeking(dealt: Iterator[tuple[Any, Share | None]]) -> Iterator[tuple[Any, Record]]:
    ahead = next(dealt, None)
    while ahead is not None:
        indices, share = ahead
        ahead = next(dealt, None)
        yield indices, Record(share, last=ahead is None)
