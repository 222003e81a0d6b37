"""What can be seen to go wrong later when things are prepared."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

if TYPE_CHECKING:
    from accelift.state import PartialState

Part = list[Any]  # name, shape, type, and whether it is trained


def check_optimizer(optimizer: Optimizer, models: Sequence[nn.Module], scaled: bool, state: PartialState) -> None:
    """Refuse, or warn of, an optimizer that cannot train the prepared models.

    Args:
        optimizer: the optimizer.
        models: the prepared models.
        scaled: whether losses are scaled for float16.
        state: the processes.

    Raises:
        ValueError: if it trains float16 parameters, whose gradients cannot be unscaled.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    kind = type(optimizer).__name__
    names = {id(p): f"{name!r} of {type(model).__name__}" for model in models for name, p in model.named_parameters()}
    if scaled:
        for parameter in trained:
            if parameter.dtype == torch.float16:
                name = names.get(id(parameter), f"of shape {tuple(parameter.shape)}")
                raise ValueError(
                    f'{kind} trains float16 parameters (first: {name}), whose gradients mixed_precision="fp16" cannot '
                    "unscale; make the model in float32, which autocast computes with in float16."
                )
    if parameters and not trained:
        _warn(
            f"{kind} has nothing to train: all of its {len(parameters)} parameters are frozen (requires_grad=False); "
            "unfreeze what is to be trained before prepare.",
            state,
        )
    elif trained and not any(id(parameter) in names for parameter in trained):
        shapes = [parameter.shape for parameter in parameters]
        for model in models:
            if shapes == [parameter.shape for parameter in model.parameters()]:
                _warn(
                    f"{kind} trains no parameter of the prepared {type(model).__name__} but those of another one "
                    "just like it, so this one stays as it is; make the optimizer from the parameters of the "
                    "model that is prepared.",
                    state,
                )
                return


def parts_of(model: nn.Module) -> list[Part]:
    """What the processes must have alike: the parameters and buffers of a model."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return [[name, *_looks(tensor)] for name, tensor in tensors if not is_lazy(tensor)]


def parts_of_all(parameters: Sequence[Tensor]) -> list[Part]:
    """What the processes must have alike: parameters that are in no model."""
    return [[f"parameter {index}", *_looks(parameter)] for index, parameter in enumerate(parameters)]


def _looks(tensor: Tensor) -> list[Any]:
    return [list(tensor.shape), str(tensor.dtype).removeprefix("torch."), tensor.requires_grad]


def agree_on(what: str, parts: list[Part], state: PartialState) -> None:
    """Make sure that every process prepares the same thing.  A collective operation.

    Args:
        what: what is prepared.
        parts: its parts.
        state: the processes.

    Raises:
        ValueError: naming the first part that is not the same everywhere.
        DistributedOperationException: if a process prepares nothing now.
    """
    from accelift.diagnosis import agreement
    from accelift.diagnosis.frames import call_site

    exchange = agreement.of(state).exchange
    where = f"the prepare of {what} at {call_site()}"
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    if len(set(exchange(digest, where))) == 1:
        return
    notes = exchange([what, parts], where)
    difference = first_difference([note[0] for note in notes], [note[1] for note in notes])
    raise ValueError(f"prepare was given different things by the processes: {difference}; make them alike everywhere.")


def first_difference(whats: Sequence[str], everyones: Sequence[list[Part]]) -> str:
    """The first part that is not the same on all processes.

    Args:
        whats: what each process prepares.
        everyones: the parts of what it prepares.
    """
    from accelift.diagnosis.agreement import grouped

    if len(set(whats)) > 1:
        return grouped([f"a {what}" for what in whats])
    for index in range(max(map(len, everyones))):
        said = [_said(parts[index]) if index < len(parts) else "nothing more" for parts in everyones]
        if len(set(said)) > 1:
            return f"{whats[0]}: {grouped(said)}"
    return whats[0]


def _said(part: Part) -> str:
    name, shape, dtype, trained = part
    return f"{name!r}, {dtype} {tuple(shape)}{'' if trained else ', frozen'}"


def _warn(message: str, state: PartialState) -> None:
    if state.is_main_process:
        from accelift.diagnosis.frames import stack_level

        warnings.warn(message, stacklevel=stack_level())
