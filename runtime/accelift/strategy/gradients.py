"""Averaging gradients over the processes where no DistributedDataParallel does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer

from accelift.state import PartialState


def average_gradients(parameters: Sequence[Tensor], group: dist.ProcessGroup | None = None) -> None:
    """Average gradients that are there on some process, whatever an average of the same ones has left in them."""
    if not parameters:
        return
    device = PartialState().collective_device
    present = torch.tensor([parameter.grad is not None for parameter in parameters], device=device).int()
    dist.all_reduce(present, dist.ReduceOp.MAX, group)
    world = dist.get_world_size(group)
    for parameter, has_gradient in zip(parameters, present.tolist(), strict=True):
        if not has_gradient:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        parameter.grad /= world
        sent = parameter.grad.to(device)
        dist.all_reduce(sent, group=group)
        if sent is not parameter.grad:
            parameter.grad.copy_(sent)


class UncoveredParameters:
    """The parameters of prepared optimizers that are in no model as it was wrapped.

    A parameter that the script made by itself, a loss with parameters of its own that was not
    prepared, or a layer that a model was given later would become another one on each process.  So
    they start as they are on the main process, and their gradients are averaged after every
    backward that ends a step.
    """

    def __init__(self) -> None:
        self._found: list[Tensor] = []
        self._known: list[int] = []

    def look_again(self) -> None:
        """There is a new model."""
        self._known = []

    def of(self, optimizers: Sequence[Optimizer], wrapped: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """Those of the optimizers, in their order, that were not wrapped; looked up anew when something is new."""
        known = [len(wrapped)]
        for optimizer in optimizers:  # in every step: a loop is what costs least
            for group in optimizer.param_groups:
                parameters = group["params"]
                known += (id(parameters), len(parameters), id(parameters[-1]) if parameters else 0)
        if known != self._known:
            covered = {id(parameter) for parameters in wrapped for parameter in parameters}
            groups = [group["params"] for optimizer in optimizers for group in optimizer.param_groups]
            self._found = [parameter for group in groups for parameter in group if id(parameter) not in covered]
            self._known = known
        return [parameter for parameter in self._found if parameter.requires_grad] if self._found else []


def start_as_on_main_process(parameters: Iterable[Tensor]) -> None:
    """Give the parameters the values that they have on the main process.  A collective operation."""
    device = PartialState().collective_device
    for parameter in parameters:
        values = parameter.detach().to(device).contiguous()
        dist.broadcast(values, 0)
        if values.data_ptr() != parameter.data_ptr():
            parameter.detach().copy_(values)
