"""Making a prepared loader of the author's."""

from __future__ import annotations

import copy
import types
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from accelift.data.dispatch import DispatchedLoader
from accelift.data.indices import DealtIndices, InStep
from accelift.data.loader import PreparedLoader
from accelift.data.preparation import Preparation, length_of
from accelift.data.samplers import (
    BatchSamplerShard,
    SeedableRandomSampler,
    batch_sampler_of,
    evenness,
    get_sampler,
    plan_of,
)
from accelift.data.share import Plan
from accelift.data.stream import StreamReader
from accelift.dataclasses import DataLoaderConfiguration
from accelift.generators import generators_of
from accelift.random import drawn_as_on_main_process
from accelift.state import GradientState, PartialState


class Target(NamedTuple):
    """For whom a loader is prepared.

    Attributes:
        rank: the index of the process.
        world: the number of processes among which batches are dealt.
        device: where batches are moved; ``None`` leaves them where they are.
        rng_types: the generators that are synchronised when a pass begins.
    """

    rank: int
    world: int
    device: torch.device | None = None
    rng_types: Sequence[str] = ()


def prepare(
    loader: DataLoader[Any], config: DataLoaderConfiguration, gradient_state: GradientState, target: Target
) -> PreparedLoader:
    """A copy of the loader that deals a process its part of each batch.

    Args:
        loader: the author's loader; one that is prepared already is returned as it is.
        config: how batches are dealt.
        gradient_state: the Accelerator's, which is told of the passes under way.
        target: the process.

    Raises:
        ValueError: if the loader cannot be dealt in the way that ``config`` asks for.
    """
    if isinstance(loader, PreparedLoader):
        return loader
    state = PartialState()
    attributes = {name: value for name, value in vars(loader).items() if name != "_iterator"} | {"_skips": 0}
    if config.use_seedable_sampler and isinstance(get_sampler(loader), RandomSampler):
        attributes.update(_seedable(loader, config.data_seed))
    samplers = _samplers_of(loader)
    deals = target.world > 1 and not _is_sharded_already(samplers, state)
    everyones = deals and bool(config.dispatch_batches)
    prepared = object.__new__(_prepared_class(type(loader), everyones))
    # Through __dict__, since a DataLoader does not let attributes be set once it is made.
    vars(prepared).update(attributes)
    samplers = _samplers_of(prepared)
    vars(prepared)["_accelift"] = preparation = Preparation(
        gradient_state,
        state,
        device=None if target.device is None or target.device.type == "cpu" else target.device,
        non_blocking=config.non_blocking,
        draws=not (_is_sequential(samplers) and _is_plain(loader)),
        generators=generators_of(loader, *samplers, loader.dataset),
        rng_types=tuple(target.rng_types),
        stateful=config.use_stateful_dataloader,
    )
    gradient_state.deals_batches = gradient_state.deals_batches or target.world > 1
    preparation.plan = plan = _plan(prepared, config, target) if deals else None
    look_ahead = _look_ahead(prepared, gradient_state)
    in_step = None if plan is None or everyones else _in_step(loader, samplers, state)
    if isinstance(loader.dataset, IterableDataset):
        preparation.fetch_ahead = look_ahead > 0
        if plan is not None:
            preparation.stream = StreamReader(loader, plan, in_step, everyones)
    elif plan is not None or look_ahead:
        source = prepared._index_sampler
        batched = batch_sampler_of(loader) is not None
        workers = loader.num_workers > 0
        preparation.indices = DealtIndices(source, plan, batched, look_ahead, in_step, workers, everyones)
        if plan is not None:
            _warn_if_too_small(source, plan)
            if prepared.batch_sampler is not None:
                vars(prepared)["batch_sampler"] = BatchSamplerShard.view(source, plan)
    return prepared


def _seedable(loader: DataLoader[Any], seed: int | None) -> dict[str, Any]:
    """The samplers of a loader that shuffles, with one that shuffles by a seed."""
    random: Any = get_sampler(loader)
    sampler = SeedableRandomSampler(random.data_source, random.replacement, random._num_samples, data_seed=seed)
    batch_sampler = copy.copy(batch_sampler_of(loader))
    batch_sampler.sampler = sampler
    if loader.batch_sampler is None:
        return {"sampler": batch_sampler}
    return {"sampler": sampler, "batch_sampler": batch_sampler}


def _samplers_of(loader: DataLoader[Any]) -> list[Any]:
    """The samplers of a loader, and those in them."""
    found = [loader.sampler, loader.batch_sampler]
    found += [getattr(sampler, "sampler", None) for sampler in found]
    return [sampler for sampler in found if sampler is not None]


def _is_sequential(samplers: Sequence[Any]) -> bool:
    return all(type(sampler) in (BatchSampler, SequentialSampler) for sampler in samplers)


def _is_plain(loader: DataLoader[Any]) -> bool:
    """Whether torch itself iterates over the loader, by indices and in this process."""
    plain = type(loader).__iter__ is DataLoader.__iter__ and not loader.num_workers
    return plain and not isinstance(loader.dataset, IterableDataset)


def _look_ahead(loader: PreparedLoader, gradient_state: GradientState) -> int:
    """How many batches gradient accumulation must know of before they come.

    Raises:
        ValueError: if they would have to be fetched, not only drawn.
    """
    plugin = gradient_state.plugin
    end_matters = plugin.num_steps > 1 and gradient_state.sync_with_dataloader
    if not end_matters or length_of(loader) is not None:
        return 0
    if not plugin.average_leftover:
        return 1
    if isinstance(loader.dataset, IterableDataset):
        raise ValueError(
            "GradientAccumulationPlugin(average_leftover=True) must know how many batches are left, but the "
            "DataLoader's IterableDataset has no length; give it a __len__, or leave average_leftover out."
        )
    return plugin.num_steps - 1


_classes: dict[tuple[type, type], type[PreparedLoader]] = {}


def _prepared_class(authors: type, dispatched: bool) -> type[PreparedLoader]:
    ours: type[PreparedLoader] = DispatchedLoader if dispatched else PreparedLoader
    if authors is DataLoader:
        return ours
    if (ours, authors) not in _classes:
        _classes[ours, authors] = types.new_class(f"Prepared{authors.__name__}", (ours, authors))
    return _classes[ours, authors]


def _is_sharded_already(samplers: Sequence[Any], state: PartialState) -> bool:
    if not any(isinstance(sampler, DistributedSampler) for sampler in samplers):
        return False
    if state.is_main_process:
        warnings.warn(
            "the DataLoader has a DistributedSampler and so gives each process its part already; "
            "it is not dealt again, and gather_for_metrics cannot tell which samples the sampler "
            "repeats: leave the sampler out and use shuffle=True.",
            stacklevel=4,
        )
    return True


def _plan(loader: DataLoader[Any], config: DataLoaderConfiguration, target: Target) -> Plan:
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
    split = config.split_batches
    if isinstance(loader.dataset, IterableDataset) or sampler is None:
        size = loader.batch_size or 1
        plan = Plan(target.rank, target.world, split, batch_size=size, drop_last=loader.drop_last)
    else:
        plan = plan_of(sampler, target.rank, target.world, split, loader.batch_size)
    plan.set_even(evenness(config.even_batches, split))
    if sampler is None and loader.batch_size is None and plan.even is None and not split:
        raise ValueError(
            'even_batches="exact" is not possible for a DataLoader with batch_size=None, whose items cannot be cut '
            "where they are dealt in turn; use split_batches=True, or even_batches=True or False."
        )
    return plan


def _warn_if_too_small(source: Any, plan: Plan) -> None:
    """Tell of a batch sampler (or sampler) that does not have enough for every process."""
    batches = _length(source)
    if plan.rank or not batches:
        return
    samples = _length(getattr(source, "sampler", None)) or batches
    first, last = (replace(plan, rank=rank).length_of(source) for rank in (0, plan.world - 1))
    what = ""
    if not first:
        what = f"with drop_last=True it deals nothing at all, as {batches} batches do not make a step"
    elif not last:
        what = "the last processes are dealt nothing, and those that are wait for them in collective operations"
    elif plan.even and samples < plan.world:
        what = 'samples are repeated so that each process gets a batch; even_batches="exact" repeats none'
    if what:
        warnings.warn(f"a DataLoader has only {samples} samples for {plan.world} processes: {what}.", stacklevel=4)


def _length(source: Any) -> int:
    """How many things there are in it, 0 if that is not known."""
    try:
        return len(source)
    except (TypeError, NotImplementedError):
        return 0


def _in_step(loader: DataLoader[Any], samplers: Sequence[Any], state: PartialState) -> InStep | None:
    """The context that keeps what a loader draws in step with the main process's.

    ``None`` for a loader that draws nothing, so that iterating it is no collective operation.
    """
    if not state.use_distributed or _is_sequential(samplers):
        return None
    return partial(drawn_as_on_main_process, generators_of(loader, *samplers))
