"""Training on loaders that give the processes different numbers of batches."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn
from torch.distributed.algorithms.join import Join, Joinable

from accelift.registry import Registry
from accelift.state import PartialState


@contextmanager
def join_uneven_inputs(
    joinables: Sequence[Any], registry: Registry, state: PartialState, even: bool, override: bool
) -> Iterator[None]:
    """A context in which processes that run out of batches take part in the gradient averages of the others.

    On one process, or where batches are even, it does nothing.

    Args:
        joinables: the prepared models.
        registry: the prepared loaders.
        state: the processes.
        even: whether every process is dealt as many batches as the others.
        override: whether the loaders are to deal like that in this context, whatever they do otherwise.

    Raises:
        TypeError: if something is given that cannot take part.
        ValueError: if a loader cannot deal like that.
    """
    if not state.use_distributed:
        yield
        return
    if not str(state.distributed_type).startswith("MULTI_"):
        warnings.warn(
            f"join_uneven_inputs is only supported for multi-GPU and multi-CPU jobs whose models are replicated, not "
            f"for {state.distributed_type}: it does nothing here.",
            stacklevel=3,
        )
        yield
        return
    with ExitStack() as stack:
        if override:
            _deal_otherwise(registry, even, stack)
        if not even:
            stack.enter_context(Join(_joinable(joinables), throw_on_early_termination=False))
        yield


def _deal_otherwise(registry: Registry, even: bool, stack: ExitStack) -> None:
    for loader in registry.loaders.all():
        plan = loader._accelift.plan
        if plan is not None and loader._accelift.stream is None:
            stack.callback(setattr, plan, "even", plan.even)
            plan.set_even(even)
    if registry.streams:
        warnings.warn(
            "join_uneven_inputs(even_batches=...) is only supported for map-style datasets; loaders over an "
            "IterableDataset deal as before.",
            stacklevel=5,
        )


def _joinable(joinables: Sequence[Any]) -> list[Joinable]:
    found = []
    for one in joinables:
        if isinstance(one, Joinable):
            found.append(one)
        elif not isinstance(one, nn.Module) or any(parameter.requires_grad for parameter in one.parameters()):
            raise TypeError(
                f"join_uneven_inputs takes models that accelerator.prepare returned, not a {type(one).__name__}."
            )
    return found
