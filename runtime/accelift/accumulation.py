"""The context of one micro-batch of gradient accumulation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from torch import nn

from accelift.state import GradientState
from accelift.strategy import Strategy


class MicroBatch(AbstractContextManager[None]):
    """Counts a micro-batch when entered and, unless it ends a step, keeps gradients local.

    Args:
        gradient_state: does the counting.
        strategy: how the models were wrapped.
        models: those whose gradients are not to be averaged before the step.
    """

    def __init__(self, gradient_state: GradientState, strategy: Strategy, models: Sequence[nn.Module]) -> None:
        self._gradient_state = gradient_state
        self._strategy = strategy
        self._models = models
        self._local = ExitStack()

    def __enter__(self) -> None:
        state = self._gradient_state
        state.count_micro_batch()
        if not (state.sync_gradients or state.plugin.sync_each_batch):
            for model in self._models:
                self._local.enter_context(self._strategy.no_sync(model))

    def __exit__(self, *exception: Any) -> None:
        self._local.close()
