"""The samplers that scripts import from ``accelerate.data_loader``."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from accelift.data.share import Plan
from accelift.generators import Epochs


class SeedableRandomSampler(RandomSampler):
    """Shuffles by a seed and the number of the epoch, whatever was drawn before.

    The order of epoch ``e`` is that of a generator seeded with ``seed + e``, on every process the
    main process's.

    Args:
        data_source: the dataset.
        replacement: draw indices with replacement.
        num_samples: how many to draw; by default as many as there are.
        generator: accepted, but not used: neither its state nor its seed decides the order.
        data_seed: the seed; by default the one that torch was seeded with.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: torch.Generator | None = None,
        data_seed: int | None = None,
    ) -> None:
        super().__init__(data_source, replacement, num_samples)
        self.epochs = Epochs(torch.initial_seed() if data_seed is None else data_seed)

    @property
    def initial_seed(self) -> int:
        """The seed of epoch 0."""
        return self.epochs.seed

    @property
    def epoch(self) -> int:
        """The number of the next epoch; each time the sampler is iterated it goes on by one."""
        return self.epochs.epoch

    def __iter__(self) -> Iterator[int]:
        # A sampler of its own, so that the order of an epoch under way stays what it is.
        generator = torch.Generator().manual_seed(self.epochs.next())
        return iter(RandomSampler(self.data_source, self.replacement, self._num_samples, generator))

    def set_epoch(self, epoch: int) -> None:
        """Let the next epoch be this one."""
        self.epochs.epoch = epoch


class BatchSamplerShard(BatchSampler):
    """This process's part of the index batches of a batch sampler.

    Everything else that is asked of it is the batch sampler's.

    Args:
        batch_sampler: the author's.
        num_processes: how many processes there are.
        process_index: the index of this one.
        split_batches: share out each batch, instead of dealing whole batches in turn.
        even_batches: as in :class:`accelift.DataLoaderConfiguration`.

    Raises:
        ValueError: if the batches cannot be dealt in this way.
    """

    batch_sampler: Any
    _plan: Plan

    def __init__(
        self,
        batch_sampler: Any,
        num_processes: int = 1,
        process_index: int = 0,
        split_batches: bool = False,
        even_batches: bool | str | None = True,
    ) -> None:
        plan = plan_of(batch_sampler, process_index, num_processes, split_batches)
        plan.set_even(evenness(even_batches, split_batches))
        vars(self).update(batch_sampler=batch_sampler, _plan=plan)

    @classmethod
    def view(cls, batch_sampler: Any, plan: Plan) -> BatchSamplerShard:
        """One that shows what a prepared loader deals."""
        shard = object.__new__(cls)
        vars(shard).update(batch_sampler=batch_sampler, _plan=plan)
        return shard

    @property
    def even_batches(self) -> bool | str:
        """What happens where batches cannot be dealt evenly; can be set, for the next pass."""
        return "exact" if self._plan.even is None else self._plan.even

    def __iter__(self) -> Iterator[Any]:
        return (part for part, _ in self._plan.deal(self.batch_sampler))

    def __len__(self) -> int:
        return self._plan.length_of(self.batch_sampler)

    def __getattr__(self, name: str) -> Any:
        if name in ("batch_sampler", "_plan"):  # while a copy of this is being made
            raise AttributeError(name)
        return getattr(self.batch_sampler, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "even_batches":
            self._plan.set_even(evenness(value, self._plan.split))
        else:
            setattr(self.batch_sampler, name, value)


def evenness(even_batches: bool | str | None, split_batches: bool) -> bool | None:
    """``DataLoaderConfiguration.even_batches`` as a :class:`Plan` has it."""
    if even_batches is None:
        return None if split_batches else True
    return None if even_batches == "exact" else bool(even_batches)


def plan_of(batch_sampler: Any, rank: int, world: int, split: bool, batch_size: int | None = None) -> Plan:
    """How what a batch sampler yields is dealt; ``batch_size`` where it does not tell itself."""
    size = batch_size or getattr(batch_sampler, "batch_size", None)
    size = size if isinstance(size, int) else None
    fixed = type(batch_sampler) is BatchSampler and size is not None
    drop_last = bool(getattr(batch_sampler, "drop_last", False))
    return Plan(rank, world, split, batch_size=size, fixed=fixed, drop_last=drop_last)


def batch_sampler_of(loader: DataLoader[Any]) -> Any:
    """What yields the index batches of a loader; ``None`` if it loads one index at a time.

    A ``BatchSampler`` may also be the *sampler* of a loader with ``batch_size=None``, whose dataset
    then is asked for whole batches.
    """
    if loader.batch_sampler is not None:
        return loader.batch_sampler
    return loader.sampler if isinstance(loader.sampler, BatchSampler) else None


def get_sampler(dataloader: DataLoader[Any]) -> Any:
    """The sampler from which a loader's batch sampler takes its indices; ``None`` if there is none."""
    return getattr(batch_sampler_of(dataloader), "sampler", None)
