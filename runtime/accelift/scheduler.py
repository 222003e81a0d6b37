"""Letting a learning rate scheduler step only when its optimizer did, without wrapping it."""

from __future__ import annotations

import types
import warnings
from typing import Any

from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from accelift.state import GradientState, PartialState

_MARK = "_accelift_prepared"


def prepare_scheduler(scheduler: LRScheduler, gradient_state: GradientState, steps_per_call: int) -> LRScheduler:
    """Make the scheduler, which is also returned, follow its optimizer's steps.

    It steps when gradients are due and its optimizer did not skip its step.  Its class becomes one
    derived from its own, with another ``step``; a copy or pickle of it is of the original class.

    Args:
        scheduler: the scheduler; one that is prepared already is left as it is.
        gradient_state: tells whether gradients are due.
        steps_per_call: how often to step for each call: as many batches as make one step.
    """
    authors = type(scheduler)
    if hasattr(authors, _MARK):
        return scheduler
    if isinstance(scheduler, ReduceLROnPlateau):
        steps_per_call = 1  # a metric is one observation, however many batches it is of
    may_count_epochs = steps_per_call > 1 and PartialState().is_main_process

    def step(self: LRScheduler, *args: Any, **kwargs: Any) -> None:
        if not gradient_state.sync_gradients:
            if gradient_state.adjust_scheduler and hasattr(self, "_step_count"):
                self._step_count += 1
            return
        if getattr(self.optimizer, "step_was_skipped", False):
            return
        nonlocal may_count_epochs
        if may_count_epochs and gradient_state.deals_batches and not gradient_state.in_dataloader:
            may_count_epochs = False
            _warn_of_epochs(self, steps_per_call)
        authors.step(self, *args, **kwargs)
        for _ in range(steps_per_call - 1):
            # OneCycleLR has an end, which the last call may overshoot.
            if self.last_epoch < getattr(self, "total_steps", float("inf")):
                authors.step(self, *args, **kwargs)

    def reduce_ex(self: LRScheduler, protocol: Any) -> Any:
        return object.__new__, (authors,), self.__dict__

    body = {
        "step": step,
        "__reduce_ex__": reduce_ex,
        "__module__": authors.__module__,
        "__qualname__": authors.__qualname__,
        "__doc__": authors.__doc__,
        _MARK: True,
    }
    scheduler.__class__ = types.new_class(authors.__name__, (authors,), exec_body=lambda scope: scope.update(body))
    return scheduler


def _warn_of_epochs(scheduler: LRScheduler, steps: int) -> None:
    warnings.warn(
        f"{type(scheduler).__name__}.step() was called outside of the loops over prepared loaders, perhaps once per "
        f"epoch, and steps {steps} times, once for each process, because each of them gets whole batches; do not "
        "prepare a schedule that counts epochs, or keep the batches with Accelerator(split_batches=True).",
        stacklevel=3,
    )
