"""Packing the gradients that DistributedDataParallel sends, as torch's communication hooks do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from accelift.dataclasses import DDPCommunicationHookType, DistributedDataParallelKwargs


def register_comm_hook(model: DistributedDataParallel, kwargs: DistributedDataParallelKwargs) -> None:
    """Let the model's gradients travel as ``kwargs`` asks."""
    if kwargs.comm_hook == DDPCommunicationHookType.NO:
        return
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    hooks: dict[DDPCommunicationHookType | str, Callable[..., Any]] = {
        DDPCommunicationHookType.FP16: default_hooks.fp16_compress_hook,
        DDPCommunicationHookType.BF16: default_hooks.bf16_compress_hook,
        DDPCommunicationHookType.POWER_SGD: powerSGD_hook.powerSGD_hook,
        DDPCommunicationHookType.BATCHED_POWER_SGD: powerSGD_hook.batched_powerSGD_hook,
    }
    wrappers: dict[DDPCommunicationHookType | str, Callable[..., Any]] = {
        DDPCommunicationHookType.FP16: default_hooks.fp16_compress_wrapper,
        DDPCommunicationHookType.BF16: default_hooks.bf16_compress_wrapper,
    }
    hook = hooks[kwargs.comm_hook]
    wrapper = wrappers.get(kwargs.comm_wrapper)
    state = None
    if kwargs.comm_hook in (DDPCommunicationHookType.POWER_SGD, DDPCommunicationHookType.BATCHED_POWER_SGD):
        state = powerSGD_hook.PowerSGDState(None, **kwargs.comm_state_option)
    model.register_comm_hook(state, hook if wrapper is None else wrapper(hook))
