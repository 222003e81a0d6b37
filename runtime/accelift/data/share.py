"""How the batches of one process become the shares of several: pure arithmetic on sequences.

The sequences are batches of indices, or of raw samples where the dataset is a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, cycle, islice
from typing import Any


@dataclass(frozen=True)
class Share:
    """Who got how much of what is being dealt in one step.  Every process knows all of it.

    Attributes:
        counts: for each process, the samples that only it got.
        dealt: for each process, the samples that it holds; more than it counts where its batch
            was padded with repeated ones.
        replicated: every process holds the whole batch instead.
    """

    counts: tuple[int, ...]
    dealt: tuple[int, ...]
    replicated: bool = False

    @property
    def even(self) -> bool:
        """Whether the processes hold equally many samples, none of them twice."""
        return not self.replicated and not self.padded and len(set(self.counts)) == 1

    @property
    def padded(self) -> bool:
        """Whether there are samples that count for nobody."""
        return self.counts != self.dealt

    def weight(self, rank: int) -> float:
        """The factor that makes the mean over the processes of their mean losses exact.

        The mean over ``n`` samples is ``sum_r n_r / n * mean_r``, and averaging gradients over
        ``N`` processes computes ``sum_r 1 / N * mean_r``; so process ``r`` owes ``n_r * N / n``.
        """
        if self.replicated or self.padded:
            return 1.0
        return self.counts[rank] * len(self.counts) / sum(self.counts)


@dataclass(frozen=True)
class Plan:
    """How one loader is dealt.

    Attributes:
        rank: the index of this process.
        world: the number of processes.
        split: share out each batch, instead of dealing whole batches in turn.
        even: ``DataLoaderConfiguration.even_batches``.
        batch_size: the size of a full batch, or ``None`` where the batch sampler does not tell.
        fixed: only the last batch may be smaller than that.
        drop_last: leave out what does not fill a step.
    """

    rank: int
    world: int
    split: bool
    even: bool | None = None
    batch_size: int | None = None
    fixed: bool = True
    drop_last: bool = False

    @property
    def pads(self) -> bool:
        """Whether the tail is filled up with samples from the start."""
        return self.even is True or (self.even is None and not self.split)

    def deal(self, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[Sequence[Any], Share]]:
        """This process's part of every step, and everyone's share of it.

        Reads no further ahead than the step at hand.  Steps in which this process goes without
        (``even=False``) are left out.
        """
        if self.split:
            steps = self._pad_split(batches) if self.even is not None else self._split(batches)
        else:
            steps = self._in_turn(batches)
        return ((part, share) for part, share in steps if len(part))

    def length(self, batches: int, samples: int | None) -> int:
        """How many parts :meth:`deal` yields for so many batches, of so many samples in all."""
        if self.split:
            if self.even is False and self.batch_size and samples is not None:
                tail = samples % self.batch_size
                goes_without = 0 < tail <= self.rank * (self.batch_size // self.world)
                return batches - (goes_without and not self.drop_last)
            return batches
        steps, rest = divmod(batches, self.world)
        if self.drop_last:
            return steps
        if self.pads:
            return steps + (rest > 0)
        return steps + (self.rank < rest)

    def _split(self, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[Sequence[Any], Share]]:
        for batch in batches:
            batch = _sized(batch)
            share = share_out(len(batch), self.world, self.batch_size)
            yield (batch if share.replicated else _cut(batch, share.counts, self.rank)), share

    def _pad_split(self, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[Sequence[Any], Share]]:
        assert self.batch_size is not None
        each = self.batch_size // self.world
        start: Sequence[Any] = ()
        for batch in batches:
            batch = _sized(batch)
            start = start or batch
            yield self._fill(batch, start, each)

    def _in_turn(self, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[Sequence[Any], Share]]:
        source = map(_sized, batches)
        start: list[Sequence[Any]] = []
        while step := list(islice(source, self.world)):
            start = start or step
            complete = len(step) == self.world
            if self.drop_last and not complete:
                return
            if self.fixed and self.batch_size is not None:
                samples = step[0] if self.world == 1 else list(chain(*step))
                yield self._fill(samples, list(chain(*start)), self.batch_size)
            elif complete or not self.pads:
                counts = tuple(map(len, step)) + (0,) * (self.world - len(step))
                part = step[self.rank] if self.rank < len(step) else ()
                yield part, Share(counts, counts)
            else:
                filled = step + list(islice(cycle(start), self.world - len(step)))
                counts = tuple(map(len, step)) + (0,) * (self.world - len(step))
                yield filled[self.rank], Share(counts, tuple(map(len, filled)))

    def _fill(self, samples: Sequence[Any], start: Sequence[Any], each: int) -> tuple[Sequence[Any], Share]:
        """Give every process ``each`` samples as far as they go, then pad from the start."""
        counts = tuple(min(max(len(samples) - rank * each, 0), each) for rank in range(self.world))
        if not self.pads or sum(counts) == each * self.world:
            return samples[self.rank * each : (self.rank + 1) * each], Share(counts, counts)
        filler = islice(cycle(start), each * self.world - len(samples))
        filled = [*samples, *filler]
        part = filled[self.rank * each : (self.rank + 1) * each]
        return part, Share(counts, (each,) * self.world)


@lru_cache(maxsize=1024)
def share_out(samples: int, world: int, batch_size: int | None) -> Share:
    """Share a batch out as evenly as possible, larger shares first; or replicate a short one.

    A batch that leaves some process with nothing, or a short one that leaves some with a single
    sample (with which BatchNorm cannot train), goes to every process whole.  All then compute the
    same gradient, and its average over the processes is exact as it is.
    """
    if samples >= world and (samples == batch_size or samples >= 2 * world):
        each, rest = divmod(samples, world)
        counts = (each + 1,) * rest + (each,) * (world - rest)
        return Share(counts, counts)
    everyone = (samples,) * world
    return Share(everyone, everyone, replicated=True)


def _cut(batch: Sequence[Any], counts: tuple[int, ...], rank: int) -> Sequence[Any]:
    ends = tuple(accumulate(counts))
    return batch[ends[rank] - counts[rank] : ends[rank]]


def _sized(batch: Sequence[Any]) -> Sequence[Any]:
    """Batch samplers may yield any iterable of indices."""
    return batch if hasattr(batch, "__len__") and hasattr(batch, "__getitem__") else list(batch)
