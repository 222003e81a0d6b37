"""Mixed precision: autocast around a model's forward, and loss scaling for float16."""

from __future__ import annotations

import copy
import types
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from accelift.containers import convert_to_fp32
from accelift.dataclasses import AutocastKwargs, GradScalerKwargs

_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}

# For each autocasting model, the author's that it shares everything with.
_originals: WeakKeyDictionary[nn.Module, nn.Module] = WeakKeyDictionary()


def check(mixed_precision: str, device: torch.device) -> str:
    """The given precision, if it is one that can be had.

    Raises:
        ValueError: if it is not.
    """
    if mixed_precision != "no" and mixed_precision not in _DTYPES:
        raise ValueError(f"mixed_precision={mixed_precision!r} is not offered; choose one of no, fp16, bf16.")
    if mixed_precision == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise ValueError(
            f'mixed_precision="bf16" is beyond the GPU {torch.cuda.get_device_name(device)}; use "fp16" or "no".'
        )
    return mixed_precision


def autocast(mixed_precision: str, device: torch.device, handler: AutocastKwargs) -> AbstractContextManager[Any]:
    """A context in which torch computes in the given precision; a plain one for ``"no"``."""
    if mixed_precision == "no":
        return nullcontext()
    return torch.autocast(
        device.type,
        dtype=_DTYPES[mixed_precision],
        enabled=handler.enabled,
        cache_enabled=handler.cache_enabled,
    )


def autocasting(model: nn.Module, mixed_precision: str, device: torch.device, handler: AutocastKwargs) -> nn.Module:
    """A model that runs under autocast, and whose outputs are float32 again.

    It is the author's model under another class: both objects share one ``__dict__``, so that
    parameters, buffers, mode, hooks and attributes are the same ones, and the author's object
    itself keeps its forward.  A deep copy runs under autocast too; a pickle is the author's model.

    Raises:
        ValueError: for a TorchScript model, which lives outside of Python.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(
            "a TorchScript model cannot be prepared with mixed_precision; call it under accelerator.autocast() instead."
        )
    authors = type(model)

    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with autocast(mixed_precision, device, handler):
            outputs = authors.__call__(self, *args, **kwargs)
        return convert_to_fp32(outputs)

    def reduce_ex(self: nn.Module, protocol: Any) -> Any:
        return cast, (None, _originals[self])  # a function of the stdlib that returns its second

    def deepcopy(self: nn.Module, memo: dict[int, Any]) -> nn.Module:
        twin = copy.deepcopy(_originals[self], memo)
        return autocasting(twin, mixed_precision, device, handler)

    body = {
        "__call__": call,
        "__deepcopy__": deepcopy,
        "__reduce_ex__": reduce_ex,
        "__module__": authors.__module__,
        "__qualname__": authors.__qualname__,
        "__doc__": authors.__doc__,
    }
    kind = types.new_class(authors.__name__, (authors,), exec_body=lambda scope: scope.update(body))
    twin: nn.Module = object.__new__(kind)
    twin.__dict__ = model.__dict__
    _originals[twin] = model
    return twin


def is_autocasting(model: nn.Module) -> bool:
    """Whether :func:`autocasting` made this model."""
    return model in _originals


def without_autocast(model: nn.Module) -> nn.Module:
    """The author's model behind an autocasting one, or the model itself."""
    return _originals.get(model, model)


class LossScaler:
    """Scales losses with torch's ``GradScaler``, for optimizers that do not know of it.

    The scale is updated when the next loss is scaled, not at each optimizer step: where several
    optimizers step, all of their gradients were computed under one scale.
    """

    def __init__(self, device: torch.device, handler: GradScalerKwargs) -> None:
        self._scaler = torch.amp.GradScaler(device.type, **handler.to_kwargs())
        self._losses = 0
        self._unscaled: dict[int, int] = {}
        self._stepping: Optimizer | None = None
        self._update_is_due = False

    @property
    def grad_scaler(self) -> torch.amp.GradScaler:
        """Torch's scaler, up to date."""
        if self._update_is_due:
            self._scaler.update()
            self._unscaled.clear()
            self._update_is_due = False
        return self._scaler

    def scale(self, loss: Tensor) -> Tensor:
        """The loss multiplied by the scale."""
        self._losses += 1
        scaled = self.grad_scaler.scale(loss)
        assert isinstance(scaled, Tensor)
        return scaled

    def unscale(self, optimizer: Optimizer) -> None:
        """Divide the optimizer's gradients by the scale, unless that was done since backward.

        Raises:
            RuntimeError: by torch, if gradients that are divided already were added to.
        """
        if self._unscaled.get(id(optimizer)) != self._losses:
            self._scaler.unscale_(optimizer)
            self._unscaled[id(optimizer)] = self._losses

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Step, unless a gradient overflowed.

        Raises:
            RuntimeError: if a closure is given, which would compute unscaled gradients.
        """
        if kwargs.get("closure") is not None or (args and args[0] is not None):
            raise RuntimeError(
                'optimizer.step(closure) does not go with mixed_precision="fp16", which must scale '
                'the loss inside of the closure; use "bf16" or "no".'
            )
        optimizer.step_was_skipped = True  # type: ignore[attr-defined]
        self._stepping = optimizer
        try:
            result = self._scaler.step(optimizer)
        finally:
            self._stepping = None
        self._update_is_due = True
        return result

    def is_stepping(self, optimizer: Optimizer) -> bool:
        """Whether torch's scaler is calling the ``step`` of this optimizer right now."""
        return self._stepping is optimizer

    def stepped(self, optimizer: Optimizer, result: Any) -> Any:
        """Note that the optimizer's own ``step`` has run, and pass its result on."""
        # Fused optimizers are always called, and told of the overflow.
        overflow = getattr(optimizer, "found_inf", None)
        skipped = overflow is not None and bool(overflow.item())
        optimizer.step_was_skipped = skipped  # type: ignore[attr-defined]
        return result
