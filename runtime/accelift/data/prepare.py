"""Making a prepared loader of the author's."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from accelift.data.indices import DealtIndices
from accelift.data.loader import Preparation, PreparedLoader, batch_sampler_of, length_of
from accelift.data.share import Plan
from accelift.data.stream import StreamReader
from accelift.dataclasses import DataLoaderConfiguration
from accelift.random import drawn_as_on_main_process
from accelift.state import GradientState, PartialState


def prepare_data_loader(
    loader: DataLoader[Any],
    config: DataLoaderConfiguration,
    gradient_state: GradientState,
    device_placement: bool,
) -> PreparedLoader:
    """A copy of the loader that deals this process its part of each batch.

    Args:
        loader: the author's loader; one that is prepared already is returned as it is.
        config: how batches are dealt.
        gradient_state: the Accelerator's, which is told of the passes under way.
        device_placement: whether batches are moved to the process's device.

    Raises:
        ValueError: if the loader cannot be dealt in the way that ``config`` asks for.
    """
    if isinstance(loader, PreparedLoader):
        return loader
    state = PartialState()
    preparation = Preparation(
        gradient_state,
        state.device if device_placement and state.device.type != "cpu" else None,
        config.non_blocking,
    )
    gradient_state.deals_batches = gradient_state.deals_batches or state.num_processes > 1
    is_stream = isinstance(loader.dataset, IterableDataset)
    if state.num_processes > 1 and not _is_sharded_already(loader, state):
        preparation.plan = plan = _plan(loader, config, state)
    else:
        plan = None
    plugin = gradient_state.plugin
    end_matters = plugin.num_steps > 1 and gradient_state.sync_with_dataloader
    look_ahead = end_matters and length_of(loader) is None
    if is_stream:
        preparation.fetch_ahead = look_ahead
        if plan is not None:
            preparation.stream = StreamReader(loader, plan, _in_step(loader, state))
    elif plan is not None or look_ahead:
        source = loader._index_sampler
        batched = batch_sampler_of(loader) is not None
        in_step = None if plan is None else _in_step(loader, state)
        preparation.indices = DealtIndices(source, plan, batched, look_ahead, in_step, loader.num_workers > 0)
    prepared = object.__new__(_prepared_class(type(loader)))
    # Through __dict__, since a DataLoader does not let attributes be set once it is made.
    prepared.__dict__.update(loader.__dict__, _iterator=None, _accelift=preparation)
    return prepared


def _samplers_of(loader: DataLoader[Any]) -> list[Any]:
    """The samplers of a loader, and those in them."""
    found = [loader.sampler, loader.batch_sampler]
    found += [getattr(sampler, "sampler", None) for sampler in found]
    return [sampler for sampler in found if sampler is not None]


_classes: dict[type, type[PreparedLoader]] = {DataLoader: PreparedLoader}


def _prepared_class(authors: type) -> type[PreparedLoader]:
    if authors not in _classes:
        _classes[authors] = types.new_class(f"Prepared{authors.__name__}", (PreparedLoader, authors))
    return _classes[authors]


def _is_sharded_already(loader: DataLoader[Any], state: PartialState) -> bool:
    if not any(isinstance(sampler, DistributedSampler) for sampler in _samplers_of(loader)):
        return False
    if state.is_main_process:
        warnings.warn(
            "the DataLoader has a DistributedSampler and so gives each process its part already; "
            "it is not dealt again, and gather_for_metrics cannot tell which samples the sampler "
            "repeats: leave the sampler out and use shuffle=True.",
            stacklevel=4,
        )
    return True


def _plan(loader: DataLoader[Any], config: DataLoaderConfiguration, state: PartialState) -> Plan:
    world = state.num_processes
    if isinstance(loader.dataset, torch.utils.data.IterDataPipe):
        raise ValueError(
            "a DataLoader over an IterDataPipe cannot be dealt to several processes; use an IterableDataset."
        )
    if loader.num_workers > 1 and not getattr(loader, "in_order", True):
        raise ValueError(
            "DataLoader(in_order=False) cannot be dealt to several processes, which would get "
            "parts of different batches at the same time; leave the argument out."
        )
    sampler = batch_sampler_of(loader)
    if isinstance(loader.dataset, IterableDataset) or sampler is None:
        size: int | None = loader.batch_size or 1
        fixed, drop_last = True, loader.drop_last
    else:
        size = loader.batch_size or getattr(sampler, "batch_size", None)
        size = size if isinstance(size, int) else None
        fixed = type(sampler) is BatchSampler and size is not None
        drop_last = bool(getattr(sampler, "drop_last", False))
    if config.split_batches and config.even_batches is not None and (not size or size % world):
        raise ValueError(
            f"even_batches={config.even_batches} needs batches that {world} processes can share "
            f"evenly, but the batch size is {size or 'not known'}; leave even_batches out, which "
            "shares uneven batches exactly, or change the batch size."
        )
    return Plan(
        rank=state.process_index,
        world=world,
        split=config.split_batches,
        even=config.even_batches,
        batch_size=size,
        fixed=fixed,
        drop_last=drop_last,
    )


def _in_step(loader: DataLoader[Any], state: PartialState) -> Callable[[], AbstractContextManager[None]] | None:
    """The context that keeps what a loader draws in step with the main process's.

    ``None`` for a loader that draws nothing, so that iterating it is no collective operation.
    """
    samplers = _samplers_of(loader)
    draws = not all(type(sampler) in (BatchSampler, SequentialSampler) for sampler in samplers)
    if not state.use_distributed or not draws:
        return None
    generators = {
        id(generator): generator
        for owner in (loader, *samplers)
        if isinstance(generator := getattr(owner, "generator", None), torch.Generator)
    }
    return partial(drawn_as_on_main_process, list(generators.values()))
