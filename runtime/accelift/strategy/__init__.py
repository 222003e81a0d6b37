"""How a model is placed, wrapped, kept from synchronising, and unwrapped."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from accelift.dataclasses import DistributedDataParallelKwargs
from accelift.state import PartialState


class Strategy(Protocol):
    """What the Accelerator asks of a way to train on the processes there are."""

    def wrap(self, model: nn.Module, state: PartialState) -> nn.Module:
        """The model whose backward averages gradients over the processes."""
        ...

    def no_sync(self, model: nn.Module) -> AbstractContextManager[Any]:
        """A context in which backward leaves gradients as they are on each process."""
        ...

    def trigger_sync(self, model: nn.Module) -> AbstractContextManager[None]:
        """A context in which backward averages gradients, whatever was not averaged before."""
        ...

    def backward(self, loss: Tensor, optimizers: Sequence[Optimizer] | None = None, **kwargs: Any) -> None:
        """``loss.backward``, after which the gradients of wrapped models are averaged.

        Args:
            loss: the loss.
            optimizers: all that are prepared, if a step is due: what they have that is in no wrapped model has its
                gradients averaged, too.
            kwargs: arguments of ``Tensor.backward``.
        """
        ...

    def cover(self, optimizer: Optimizer) -> None:
        """Let the parameters of an optimizer that are in no wrapped model start as they are on the main process."""
        ...

    def unwrap(self, model: nn.Module) -> nn.Module:
        """The model that was wrapped."""
        ...


def choose(state: PartialState, ddp: DistributedDataParallelKwargs) -> Strategy:
    """The strategy for the processes there are."""
    if not state.use_distributed:
        from accelift.strategy.single import SingleProcess

        return SingleProcess()
    from accelift.strategy.ddp import DataParallel

    return DataParallel(ddp)
