"""Letting an optimizer step only when gradients are due, without wrapping it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import Optimizer

from accelift.operations import reduce
from accelift.state import GradientState

if TYPE_CHECKING:
    from accelift.precision import LossScaler

_MARK = "_accelift_prepared"


def prepare_optimizer(
    optimizer: Optimizer,
    gradient_state: GradientState,
    scaler: LossScaler | None,
    device_placement: bool,
    several: bool = False,
) -> Optimizer:
    """Make the optimizer, which is also returned, heed accumulation and loss scaling.

    ``step`` and ``zero_grad`` are replaced on the object itself, and only where there is something
    to heed: hooks, custom methods, parameter groups and ``isinstance`` stay what they were.  A copy
    of the optimizer steps unconditionally, as copies of optimizers keep no attributes.

    Args:
        optimizer: the optimizer; one that is prepared already is left as it is.
        gradient_state: tells whether gradients are due.
        scaler: scales the losses, if any does.
        device_placement: whether to move state to the device of its parameters.
        several: whether there are several processes.
    """
    if getattr(optimizer, _MARK, False):
        return optimizer
    if device_placement:
        _move_state(optimizer)
    optimizer.step_was_skipped = False  # type: ignore[attr-defined]
    if several:
        _share_losses(optimizer, gradient_state)
    if gradient_state.num_steps > 1 or scaler is not None:
        _gate(optimizer, "zero_grad", gradient_state, None)
        _gate(optimizer, "step", gradient_state, scaler)

    def note(stepped: Optimizer, *_: Any) -> None:
        stepped.stepped_after = gradient_state.backwards  # type: ignore[attr-defined]

    optimizer.register_step_post_hook(note)  # for checkpoints, which have gradients that are still to be used
    setattr(optimizer, _MARK, True)
    return optimizer


def _share_losses(optimizer: Optimizer, state: GradientState) -> None:
    """Let a closure return the loss of the whole batch: what decides by it (L-BFGS) has to decide alike everywhere."""
    method = optimizer.step
    call = method.__func__ if isinstance(method, MethodType) else _ignoring_self(method)

    def shared(loss: Any) -> Any:
        if isinstance(loss, torch.Tensor):
            return reduce(loss.detach() * state.factor, "mean")
        if isinstance(loss, float):
            return float(reduce(torch.tensor(loss * state.factor, dtype=torch.float64), "mean"))
        return loss

    # No reference to the optimizer itself: it has to go when the script drops it, on every process at the same time.
    owner = weakref.ref(optimizer)

    # A scheduler that was made before leaves a function in the place of `step`, with a mark that it looks for.
    @wraps(call if isinstance(method, MethodType) else method)
    def step(self: Any, closure: Callable[[], Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        if closure is None:
            return call(owner(), *args, **kwargs)
        given = closure
        return call(owner(), lambda: shared(given()), *args, **kwargs)

    setattr(optimizer, "step", MethodType(step, weakref.proxy(optimizer)))  # noqa: B010


def _gate(optimizer: Optimizer, name: str, state: GradientState, scaler: LossScaler | None) -> None:
    method = getattr(optimizer, name)
    # A learning rate scheduler made before leaves a plain function in the place of `step`.
    call = method.__func__ if isinstance(method, MethodType) else _ignoring_self(method)

    if scaler is None:

        @wraps(method)
        def gated(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
            return call(self, *args, **kwargs) if state.sync_gradients else None

    else:

        @wraps(method)
        def gated(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if not state.sync_gradients:
                return None
            if scaler.is_stepping(self):  # it calls back, if there is no overflow
                return scaler.stepped(self, call(self, *args, **kwargs))
            return scaler.step(self, *args, **kwargs)

    # A bound method, since schedulers made later look for its __func__.
    setattr(optimizer, name, MethodType(gated, optimizer))


def _ignoring_self(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def _move_state(optimizer: Optimizer) -> None:
    """Move state that was there before its parameters moved, as loading it now would place it."""
    for group in optimizer.param_groups:
        stays = not (group.get("capturable") or group.get("fused"))
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            for key, value in state.items():
                if not isinstance(value, torch.Tensor) or value.device == parameter.device:
                    continue
                if key == "step" and stays:  # kept on the CPU by choice, see torch.optim
                    continue
                state[key] = value.to(parameter.device)
