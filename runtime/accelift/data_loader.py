"""The names that scripts import from ``accelerate.data_loader``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from accelift.arguments import check_type
from accelift.data.dispatch import DispatchedLoader
from accelift.data.loader import PreparedLoader
from accelift.data.prepare import Target, prepare
from accelift.data.samplers import BatchSamplerShard, SeedableRandomSampler, get_sampler
from accelift.data.share import Plan
from accelift.data.stream import DealtStream
from accelift.dataclasses import DataLoaderConfiguration
from accelift.state import GradientState, PartialState

__all__ = [
    "BatchSamplerShard",
    "DataLoaderDispatcher",
    "DataLoaderShard",
    "IterableDatasetShard",
    "SeedableRandomSampler",
    "get_sampler",
    "prepare_data_loader",
    "skip_first_batches",
]

DataLoaderShard = PreparedLoader
DataLoaderDispatcher = DispatchedLoader


def prepare_data_loader(
    dataloader: DataLoader[Any],
    device: torch.device | None = None,
    num_processes: int | None = None,
    process_index: int | None = None,
    split_batches: bool = False,
    put_on_device: bool = False,
    rng_types: Sequence[str] | None = None,
    dispatch_batches: bool | None = None,
    even_batches: Any = True,
    slice_fn_for_dispatch: Callable[..., Any] | None = None,
    use_seedable_sampler: bool = False,
    data_seed: int | None = None,
    non_blocking: bool = False,
    use_stateful_dataloader: bool = False,
    torch_device_mesh: Any = None,
) -> PreparedLoader:
    """A copy of the loader that deals one process its part of each batch.

    What :meth:`Accelerator.prepare` does, for scripts that have no Accelerator at hand.

    Args:
        dataloader: the author's loader.
        device: where batches are moved if ``put_on_device``; by default this process's device.
        num_processes: how many processes there are; by default those of the job.
        process_index: the index of the process; by default this one's.
        put_on_device: whether batches are moved.
        rng_types: the random generators that are synchronised when a pass begins.
        split_batches, dispatch_batches, even_batches, use_seedable_sampler, data_seed, non_blocking,
            use_stateful_dataloader: see :class:`accelift.DataLoaderConfiguration`.
        slice_fn_for_dispatch: not needed, as batches are collated for each process.
        torch_device_mesh: must be left out.

    Raises:
        ValueError: if the loader cannot be dealt like this.
    """
    if slice_fn_for_dispatch is not None:
        raise ValueError(
            "prepare_data_loader(slice_fn_for_dispatch=...) is not offered: batches are not cut, but made for each "
            "process; give the DataLoader a collate_fn instead."
        )
    if torch_device_mesh is not None:
        raise ValueError(
            "prepare_data_loader(torch_device_mesh=...) is not offered: give num_processes and process_index, the "
            "size of the mesh's data dimensions and this process's place in them."
        )
    state = PartialState()
    world = state.num_processes if num_processes is None else num_processes
    if dispatch_batches and world != state.num_processes:
        raise ValueError(
            f"prepare_data_loader(dispatch_batches=True, num_processes={world}) is not possible in a job of "
            f"{state.num_processes}: the main process sends to all others."
        )
    config = DataLoaderConfiguration(
        split_batches=split_batches,
        dispatch_batches=dispatch_batches,
        even_batches=even_batches,
        use_seedable_sampler=use_seedable_sampler,
        data_seed=data_seed,
        non_blocking=non_blocking,
        use_stateful_dataloader=use_stateful_dataloader,
    )
    target = Target(
        rank=state.process_index if process_index is None else process_index,
        world=world,
        device=(device or state.device) if put_on_device else None,
        rng_types=tuple(rng_types or ()),
    )
    return prepare(dataloader, config, GradientState(), target)


def skip_first_batches(dataloader: DataLoader[Any], num_batches: int = 0) -> PreparedLoader:
    """The same loader, each pass over which begins after some batches.

    If the state of the loader was loaded, the first pass is the one in which it was taken: the order
    of its samples is the same, and after the batches that are passed over the random generators are
    as if they had not been touched.  Batches are not fetched to be passed over where they are
    fetched in this process, by indices, without an ``__iter__`` of the author's.

    Args:
        dataloader: the loader, prepared or not.
        num_batches: how many batches of this process to pass over.

    Raises:
        TypeError: if it is not a ``DataLoader``.
        ValueError: if the number is negative.
    """
    check_type("skip_first_batches", dataloader, DataLoader)
    if num_batches < 0:
        raise ValueError(f"skip_first_batches(num_batches={num_batches}) is not possible: give 0 or more.")
    if not isinstance(dataloader, PreparedLoader):
        dataloader = prepare(dataloader, DataLoaderConfiguration(), GradientState(), Target(rank=0, world=1))
    skipping = object.__new__(type(dataloader))
    vars(skipping).update(vars(dataloader), _skips=dataloader._skips + num_batches)
    return skipping


class IterableDatasetShard(IterableDataset[Any]):
    """This process's samples of a stream, which every process reads whole.

    Args:
        dataset: the stream.
        batch_size: how many samples a batch has.
        drop_last: leave out samples at the end that do not fill a step.
        num_processes: how many processes there are.
        process_index: the index of this one.
        split_batches: share out each batch, instead of dealing whole batches in turn.
    """

    def __init__(
        self,
        dataset: IterableDataset[Any],
        batch_size: int = 1,
        drop_last: bool = False,
        num_processes: int = 1,
        process_index: int = 0,
        split_batches: bool = False,
    ) -> None:
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.num_processes = num_processes
        self.process_index = process_index
        self.split_batches = split_batches
        plan = Plan(process_index, num_processes, split_batches, batch_size=batch_size, drop_last=drop_last)
        plan.set_even(True)
        self._dealt = DealtStream(dataset, plan, batch_size)

    def __iter__(self) -> Iterator[Any]:
        for (part,), _ in self._dealt:
            yield from part

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch to the stream, if it asks."""
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)
