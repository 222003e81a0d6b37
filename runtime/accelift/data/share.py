"""How the batches of one process become the shares of several: pure arithmetic on sequences.

The sequences are batches of indices, or of raw samples where the dataset is a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain, cycle, islice, repeat
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

    @property
    def receivers(self) -> Sequence[int]:
        """The processes that are dealt something of their own; the first one if all get the same."""
        return (0,) if self.replicated else [rank for rank, samples in enumerate(self.dealt) if samples]

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """For each process, where its samples begin and end in a batch that is dealt in the order of processes."""
        if self.replicated:
            return ((0, self.counts[0]),) * len(self.counts)
        ends = tuple(accumulate(self.counts))
        return tuple(zip((0, *ends), ends, strict=False))

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """For each process, the factor that makes the mean over the processes of their mean losses exact.

        The mean over ``n`` samples is ``sum_r n_r / n * mean_r``, and averaging gradients over
        ``N`` processes computes ``sum_r 1 / N * mean_r``; so process ``r`` owes ``n_r * N / n``.
        """
        world, samples = len(self.counts), sum(self.counts)
        if self.replicated or self.padded:
            return (1.0,) * world
        return tuple(count * world / samples for count in self.counts)


Parts = Callable[[int], Sequence[Any]]
"""What a process holds of a step, by its index."""


@dataclass
class Plan:
    """How one loader is dealt.

    Attributes:
        rank: the index of this process.
        world: the number of processes.
        split: share out each batch, instead of dealing whole batches in turn.
        even: where that is not possible evenly, ``True`` pads with samples from the start,
            ``False`` lets the last processes go without, and ``None`` shares out what there is.
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

    def set_even(self, even: bool | None) -> None:
        """Deal otherwise from the next pass on.

        Raises:
            ValueError: if batches are shared out and their size cannot be.
        """
        size = self.batch_size
        if self.split and even is not None and (not size or size % self.world):
            raise ValueError(
                f"even_batches={even} needs batches that {self.world} processes can share "
                f"evenly, but the batch size is {size or 'not known'}; change it, or share uneven batches out with "
                'even_batches="exact".'
            )
        self.even = even

    @property
    def step_size(self) -> int | None:
        """How many samples a full step has, of all processes together."""
        return self.batch_size if self.split or self.batch_size is None else self.batch_size * self.world

    def deal(self, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[Sequence[Any], Share]]:
        """This process's part of every step, and everyone's share of it.

        Reads no further ahead than the step at hand.  Steps in which this process goes without
        (``even=False``) are left out.
        """
        if self.split and self.even is None:
            return self._cut_out(batches)
        parts = ((part_of(self.rank), share) for part_of, share in self._steps(batches))
        return (dealt for dealt in parts if len(dealt[0]))

    def deal_all(self, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[list[Sequence[Any]], Share]]:
        """The part of each process that gets one in a step (see :attr:`Share.receivers`), and everyone's share."""
        for part_of, share in self._steps(batches):
            yield [part_of(rank) for rank in share.receivers], share

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
        if self.even is False:
            return steps + (self.rank < rest)
        return steps + (rest > 0)

    def length_of(self, source: Any) -> int:
        """How many parts :meth:`deal` yields of what a batch sampler (or sampler) yields."""
        sampler: Any = getattr(source, "sampler", None)
        samples = len(sampler) if self.even is False and hasattr(sampler, "__len__") else None
        return self.length(len(source), samples)

    def _cut_out(self, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[Sequence[Any], Share]]:
        # What :meth:`_split` comes to for one process, as this is done for every batch of most loaders.
        rank, world, size = self.rank, self.world, self.batch_size
        for batch in batches:
            if type(batch) is not list:
                batch = _sized(batch)
            share = share_out(len(batch), world, size)
            begin, end = share.spans[rank]
            yield batch[begin:end], share

    def _steps(self, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[Parts, Share]]:
        source = map(_sized, batches)
        if not self.split:
            return self._in_turn(source)
        return self._split(source) if self.even is None else self._pad_split(source)

    def _split(self, batches: Iterator[Sequence[Any]]) -> Iterator[tuple[Parts, Share]]:
        for batch in batches:
            yield _shared_out(batch, self.world, self.batch_size)

    def _pad_split(self, batches: Iterator[Sequence[Any]]) -> Iterator[tuple[Parts, Share]]:
        assert self.batch_size is not None
        each = self.batch_size // self.world
        start: Sequence[Any] = ()
        for batch in batches:
            start = start or batch
            yield self._fill(batch, start, each)

    def _in_turn(self, batches: Iterator[Sequence[Any]]) -> Iterator[tuple[Parts, Share]]:
        start: list[Sequence[Any]] = []
        while step := list(islice(batches, self.world)):
            start = start or step
            missing = self.world - len(step)
            if self.drop_last and missing:
                return
            sizes = (*map(len, step), *repeat(0, missing))
            if not missing and (not self.fixed or set(sizes) == {self.batch_size}):
                yield step.__getitem__, Share(sizes, sizes)
            elif self.even is None:
                yield _shared_out(list(chain(*step)), self.world, self.step_size)
            elif self.fixed and self.batch_size is not None:
                yield self._fill(list(chain(*step)), list(chain(*start)), self.batch_size)
            else:
                step += islice(cycle(start), missing) if self.even else repeat((), missing)
                yield step.__getitem__, Share(sizes, tuple(map(len, step)))

    def _fill(self, samples: Sequence[Any], start: Sequence[Any], each: int) -> tuple[Parts, Share]:
        """Give every process ``each`` samples as far as they go, then pad from the start."""
        counts = tuple(min(max(len(samples) - rank * each, 0), each) for rank in range(self.world))
        dealt = counts
        if self.even and sum(counts) < each * self.world:
            samples = [*samples, *islice(cycle(start), each * self.world - len(samples))]
            dealt = (each,) * self.world
        return (lambda rank: samples[rank * each : (rank + 1) * each]), Share(counts, dealt)


def _shared_out(samples: Sequence[Any], world: int, full: int | None) -> tuple[Parts, Share]:
    share = share_out(len(samples), world, full)
    return (lambda rank: samples[slice(*share.spans[rank])]), share


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


def _sized(batch: Sequence[Any]) -> Sequence[Any]:
    """Batch samplers may yield any iterable of indices."""
    return batch if hasattr(batch, "__len__") and hasattr(batch, "__getitem__") else list(batch)
