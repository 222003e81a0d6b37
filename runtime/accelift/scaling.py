"""The verbs about scaled gradients, and about gradients that must not be scaled."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from accelift.arguments import check_type
from accelift.gradients import GradientState
from accelift.precision import LossScaler
from accelift.registry import Registry


class ScalingVerbs:
    """What an Accelerator does with the scale of float16 training, and with the norm of gradients."""

    registry: Registry
    gradient_state: GradientState
    _scaler: LossScaler | None

    @property
    def scaler(self) -> torch.amp.GradScaler | None:
        """The scaler of losses, with ``mixed_precision="fp16"``."""
        return None if self._scaler is None else self._scaler.grad_scaler

    @property
    def optimizer_step_was_skipped(self) -> bool:
        """Whether a prepared optimizer skipped its last step, as gradients overflowed."""
        return any(getattr(optimizer, "step_was_skipped", False) for optimizer in self.registry.optimizers.all())

    def unscale_gradients(self, optimizer: Optimizer | Iterable[Optimizer] | None = None) -> None:
        """Divide gradients by the scale of float16 training, unless that was done already.

        Args:
            optimizer: whose gradients; by default those of all prepared optimizers.

        Raises:
            RuntimeError: if gradients are scaled and still accumulate.
            TypeError: if there is something else than optimizers.
        """
        if self._scaler is None:
            return
        self._refuse_while_accumulating("unscale_gradients")
        if optimizer is None:
            optimizer = self.registry.optimizers.all()
        for one in [optimizer] if isinstance(optimizer, Optimizer) else optimizer:
            check_type("unscale_gradients", one, Optimizer)
            self._scaler.unscale(one)

    def clip_grad_norm_(self, parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
        """``torch.nn.utils.clip_grad_norm_``, on gradients that are not scaled.

        Raises:
            RuntimeError: if gradients are scaled and still accumulate; clip
                ``if accelerator.sync_gradients:``.
        """
        parameters = self._unscaled("clip_grad_norm_", parameters)
        return nn.utils.clip_grad_norm_(parameters, max_norm, norm_type=norm_type)

    def clip_grad_value_(self, parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
        """``torch.nn.utils.clip_grad_value_``, on gradients that are not scaled.

        Raises:
            RuntimeError: if gradients are scaled and still accumulate; clip
                ``if accelerator.sync_gradients:``.
        """
        parameters = self._unscaled("clip_grad_value_", parameters)
        nn.utils.clip_grad_value_(parameters, clip_value)

    def _unscaled(self, verb: str, parameters: Tensor | Iterable[Tensor]) -> Tensor | Iterable[Tensor]:
        """The parameters, after their gradients were divided by the scale."""
        if self._scaler is None:
            return parameters
        self._refuse_while_accumulating(verb)
        parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        wanted = {id(parameter) for parameter in parameters}
        for optimizer in self.registry.optimizers.all():
            groups = optimizer.param_groups
            if any(id(parameter) in wanted for group in groups for parameter in group["params"]):
                self._scaler.unscale(optimizer)
        return parameters

    def _refuse_while_accumulating(self, verb: str) -> None:
        if not self.gradient_state.sync_gradients:
            raise RuntimeError(
                f"{verb} was called while gradients still accumulate, scaled for float16; call it "
                "under `if accelerator.sync_gradients:`."
            )
