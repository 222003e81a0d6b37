"""Local SGD: processes train by themselves and average their models every few steps."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

import torch
from torch import nn

from accelift.operations import reduce

if TYPE_CHECKING:
    from accelift.accelerator import Accelerator


class LocalSGD:
    """A context in which gradients stay on each process, and parameters are averaged instead.

    They are averaged by every ``local_sgd_steps``-th call of :meth:`step`, and at the end of the
    block.  On one process nothing happens.  See Stich, Local SGD Converges Fast and Communicates
    Little, ICLR 2019.

    Args:
        accelerator: the Accelerator that prepared the model.
        model: the prepared model.
        local_sgd_steps: steps from one average to the next.
        enabled: ``False`` averages gradients in every step, as without this class.

    Raises:
        ValueError: if ``local_sgd_steps`` is less than 1.
    """

    def __init__(self, accelerator: Accelerator, model: nn.Module, local_sgd_steps: int, enabled: bool = True) -> None:
        if local_sgd_steps < 1:
            raise ValueError(f"LocalSGD(local_sgd_steps={local_sgd_steps}) is not possible: give at least 1.")
        self.enabled = enabled and accelerator.use_distributed
        self.num_steps = 0
        self.local_sgd_steps = local_sgd_steps
        self._accelerator = accelerator
        self._model = model
        self._alone = ExitStack()

    def __enter__(self) -> LocalSGD:
        if self.enabled:
            self._alone.enter_context(self._accelerator.no_sync(self._model))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._alone.close()
        # After an error the other processes may not come here.
        if self.enabled and error is None and self.num_steps % self.local_sgd_steps:
            self._average()

    def step(self) -> None:
        """Count a step of the optimizer; average where it is time to."""
        self.num_steps += 1
        if self.enabled and self.num_steps % self.local_sgd_steps == 0:
            self._average()

    @torch.no_grad()
    def _average(self) -> None:
        """Give every process the mean of each parameter, computed in float32 at least."""
        for parameter in self._model.parameters():
            if parameter.requires_grad:
                wide = torch.promote_types(parameter.dtype, torch.float32)
                parameter.copy_(reduce(parameter.to(wide), "mean"))
