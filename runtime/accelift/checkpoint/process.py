"""What each process has for itself in a training run: random numbers, places in loops, unreduced gradients."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from accelift.checkpoint.run import parameters_of
from accelift.generators import bytes_of, from_tensors, restore, snapshot, to_tensors
from accelift.unwrap import extract_model_from_parallel

if TYPE_CHECKING:
    from accelift.gradients import GradientState


def generators_of(device: torch.device, alone: bool) -> dict[str, Any]:
    """The states of the global generators, of this device's and, on one process, of all devices of the kind.

    Returns:
        A dict that ``torch.load(weights_only=True)`` reads.
    """
    states: dict[str, Any] = {"host": to_tensors(snapshot()), "kind": device.type}
    if device.type != "cpu":
        module = getattr(torch, device.type)
        states["device"] = module.get_rng_state(*_index(device))
        if alone and hasattr(module, "get_rng_state_all"):
            states["all"] = module.get_rng_state_all()
    return states


def set_generators(states: dict[str, Any], device: torch.device) -> None:
    """Put the generators into the states that :func:`generators_of` found.

    Raises:
        RuntimeError: if that is not possible.
    """
    host = from_tensors(states["host"])
    if "numpy" in host:
        _import_numpy()
    restore(host)
    if states["kind"] != device.type or device.type == "cpu":
        return
    module = getattr(torch, device.type)
    for index, state in enumerate(states.get("all", [])[: module.device_count()]):
        module.set_rng_state(state, index)
    module.set_rng_state(states["device"], *_index(device))


def _index(device: torch.device) -> list[Any]:
    return [] if device.index is None else [device]


def _import_numpy() -> None:
    try:
        import numpy.random  # noqa: F401
    except ImportError:
        raise RuntimeError(
            "the checkpoint has the state of numpy's random generator, but numpy is not installed; install it."
        ) from None


def progress_of(
    gradient_state: GradientState, models: Sequence[nn.Module], optimizers: Sequence[Any]
) -> dict[str, Any]:
    """Where this process stands between two optimizer steps."""
    return {
        "step": gradient_state.step,
        "sync_gradients": gradient_state.sync_gradients,
        "group": gradient_state._group,
        "skipped": [bool(getattr(optimizer, "step_was_skipped", False)) for optimizer in optimizers],
        "broadcasts": [getattr(model, "require_forward_param_sync", None) for model in models],
    }


def set_progress(
    progress: dict[str, Any], gradient_state: GradientState, models: Sequence[nn.Module], optimizers: Sequence[Any]
) -> None:
    """Put this process where :func:`progress_of` found it."""
    gradient_state.step = progress["step"]
    gradient_state.sync_gradients = progress["sync_gradients"]
    gradient_state._group = progress["group"]
    for optimizer, skipped in zip(optimizers, progress["skipped"], strict=False):
        optimizer.step_was_skipped = skipped
    for model, broadcasts in zip(models, progress["broadcasts"], strict=False):
        # Whether the next forward takes the main process's buffers depends on the last one.
        if broadcasts is not None and isinstance(model, DistributedDataParallel):
            model.require_forward_param_sync = broadcasts


def gradients_of(optimizers: Iterable[Optimizer], gradient_state: GradientState) -> list[dict[int, Tensor]]:
    """For each optimizer the gradients that it has not stepped with yet, by the number of the parameter."""
    found = []
    for optimizer in optimizers:
        used = getattr(optimizer, "stepped_after", None) == gradient_state.backwards
        parameters = enumerate(() if used else parameters_of(optimizer))
        found.append({index: parameter.grad for index, parameter in parameters if parameter.grad is not None})
    return found


def set_gradients(
    optimizers: Iterable[Optimizer], saved: Sequence[Sequence[dict[int, Tensor]]], processes: int
) -> None:
    """Give the parameters of optimizers the gradients that :func:`gradients_of` found, and no others.

    Args:
        optimizers: the optimizers.
        saved: what it found on those processes that had any.
        processes: of how many processes that is the average.
    """
    for number, optimizer in enumerate(optimizers):
        optimizer.stepped_after = None  # type: ignore[attr-defined]
        for index, parameter in enumerate(parameters_of(optimizer)):
            parameter.grad = None
            for of_process in saved:
                if index not in of_process[number]:
                    continue
                gradient = of_process[number][index].to(parameter.device, copy=True)
                if processes > 1:
                    gradient /= processes
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


def buffers_of(model: nn.Module) -> dict[str, Tensor]:
    """The buffers of a model which, unlike its parameters, may differ from process to process."""
    return {
        name: buffer
        for name, buffer in extract_model_from_parallel(model).named_buffers()
        if buffer.layout == torch.strided and not buffer.is_meta
    }


def set_buffers(models: Sequence[nn.Module], saved: dict[int, dict[str, Tensor]]) -> None:
    """Give models the buffers that :func:`buffers_of` found."""
    for number, buffers in saved.items():
        live = buffers_of(models[number])
        for name, buffer in buffers.items():
            live[name].copy_(buffer)


def digest(tensors: dict[str, Tensor]) -> int:
    """A checksum of the values of tensors."""
    checksum = 0
    for tensor in tensors.values():
        content = tensor.detach().cpu().contiguous().flatten().view(torch.uint8) if tensor.numel() else tensor
        checksum = zlib.crc32(bytes_of(content), checksum)
    return checksum
