"""Dealing the index batches of a map-style dataset."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from inspect import isgeneratorfunction
from typing import Any, NamedTuple

from accelift.data.share import Plan, Share

InStep = Callable[[], AbstractContextManager[None]]
"""Makes the context in which the processes draw what the main process draws."""


class Record(NamedTuple):
    """What is known of a batch when its indices are drawn.

    Attributes:
        share: who gets how much of it; ``None`` on one process.
        following: how many more will come, as far as was looked ahead; ``None`` if that was not done.
    """

    share: Share | None
    following: int | None = None


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
        look_ahead: how many index batches to draw ahead, to know how many follow.
        in_step: for the first draw; ``None`` where indices are drawn as torch does.
        ahead: whether there are workers, for which torch draws indices ahead.
        everyones: yield the part of one process after the other, for a main process that reads for all.
    """

    def __init__(
        self,
        source: Any,
        plan: Plan | None,
        batched: bool,
        look_ahead: int = 0,
        in_step: InStep | None = None,
        ahead: bool = False,
        everyones: bool = False,
    ) -> None:
        self.source = source
        self.plan = plan
        self.batched = batched
        self.look_ahead = look_ahead
        self.in_step = in_step
        self.ahead = ahead
        self.everyones = everyones
        self.records: deque[Record] = deque()
        self._iterator_in_making = False
        self._newest = _Pass(iter(()), self.records)

    def __len__(self) -> int:
        return len(self.source) if self.plan is None else self.plan.length_of(self.source)

    def __iter__(self) -> Iterator[Any]:
        in_step = self.in_step
        if in_step is None or self._iterator_in_making:
            return self._new_pass()
        if self.ahead:
            # Persistent workers: torch reuses its iterator, so make_iterator is not called again.
            with in_step():
                new = self._new_pass()
                new.draw_first()
            return new
        # A generator draws nothing before it is asked for something; others may.
        with nullcontext() if isgeneratorfunction(type(self.source).__iter__) else in_step():
            new = self._new_pass()
        new.in_step = in_step
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

    def _new_pass(self) -> _Pass:
        self._newest = _Pass(self._draw(iter(self.source)), self.records)
        return self._newest

    def _draw(self, batches: Iterator[Any]) -> Iterator[tuple[Any, Record]]:
        """Index batches for the loader, and what is known of the step that each belongs to."""
        if self.plan is None:
            return _with_following(((batch, None) for batch in batches), self.look_ahead)
        if not self.batched:
            batches = ([index] for index in batches)
        if not self.everyones:
            dealt = _with_following(self.plan.deal(batches), self.look_ahead)
        else:
            steps = _with_following(self.plan.deal_all(batches), self.look_ahead)
            dealt = ((part, record) for parts, record in steps for part in parts)
        return dealt if self.batched else ((part[0], record) for part, record in dealt)


class _Pass:
    """One pass over the indices; can draw the first ones before they are asked for."""

    def __init__(self, drawn: Iterator[tuple[Any, Record]], records: deque[Record]) -> None:
        self._drawn = drawn
        self._records = records
        self._first: list[tuple[Any, Record]] | None = None
        self._started = False
        self.in_step: InStep | None = None

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


def _with_following(dealt: Iterable[tuple[Any, Share | None]], look_ahead: int) -> Iterator[tuple[Any, Record]]:
    """The same, and how many follow each, as far as ``look_ahead`` tells."""
    if not look_ahead:
        return ((indices, Record(share)) for indices, share in dealt)
    return _looking_ahead(dealt, look_ahead)


def _looking_ahead(dealt: Iterable[tuple[Any, Share | None]], look_ahead: int) -> Iterator[tuple[Any, Record]]:
    held: deque[tuple[Any, Share | None]] = deque()
    for item in dealt:
        held.append(item)
        if len(held) > look_ahead:
            indices, share = held.popleft()
            yield indices, Record(share, look_ahead)
    while held:
        indices, share = held.popleft()
        yield indices, Record(share, len(held))
