"""Loaders that only the main process reads from; the others are sent what they are dealt."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from accelift.data.channel import Channel
from accelift.data.indices import Record
from accelift.data.loader import PreparedLoader, not_drawn, without_fetching


class DispatchedLoader(PreparedLoader):
    """A prepared loader that the main process alone reads from.

    Each process gets what it would have read itself, collated on its own; so batches may hold
    anything that can be pickled.  Only the main process's random generators are drawn from.  An
    error while reading is raised on every process.
    """

    def _make(self, records: deque[Record]) -> Iterator[Any]:
        preparation = self._accelift
        channel = Channel(preparation.state, preparation.device)
        if not preparation.state.is_main_process:
            return _Receiver(channel, records)
        return _Reader(self, super()._make(records), channel, records)

    def _pass_over(self, count: int, batches: Iterator[Any], records: deque[Record]) -> None:
        if isinstance(batches, _Reader):
            batches.pass_over(count)
        elif not isinstance(batches, _Receiver):  # it is fetched ahead, on every process
            super()._pass_over(count, batches, records)


class _Reader:
    """On the main process: reads a step of all processes, sends the others their parts and yields its own."""

    def __init__(self, loader: PreparedLoader, parts: Iterator[Any], channel: Channel, records: deque[Record]) -> None:
        self._loader = loader
        self._parts = parts
        self._channel = channel
        self._records = records

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            record, batches = self._step(self._parts.__next__)
            # All are packed before anything is sent: one that cannot be must not leave the others waiting.
            messages = self._channel.pack([None if batch is None else (batch, record) for batch in batches])
        except StopIteration:
            self._channel.end()
            raise
        except Exception as error:
            self._channel.fail(error)
            raise
        self._channel.send(messages)
        self._records.appendleft(record)  # where workers fetch ahead, those of later steps are there already
        return batches[0]

    def pass_over(self, count: int) -> None:
        """Go past the next steps."""
        go_past = without_fetching(self._parts)
        for _ in range(count):
            try:
                self._step(go_past)
            except StopIteration:
                return

    def _step(self, get: Callable[[], Any]) -> tuple[Record, list[Any]]:
        """What is known of the next step, and for each process its batch, or ``None``."""
        first = get()
        if not self._records:
            raise RuntimeError(not_drawn(self._loader))
        record = self._records.popleft()
        share = record.share
        assert share is not None
        if share.replicated:
            return record, [first] * len(share.counts)
        batches: list[Any] = [None] * len(share.counts)
        for rank in share.receivers:
            batches[rank] = get() if rank else first
            if rank:
                self._records.popleft()
        return record, batches


class _Receiver:
    """On the other processes: yields what the main process sends."""

    def __init__(self, channel: Channel, records: deque[Record]) -> None:
        self._channel = channel
        self._records = records

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        received = None
        while received is None:  # a step in which this process goes without
            received = self._channel.receive()
        batch, record = received
        self._records.append(record)
        return batch
