"""Collective operations on tensors, and on containers of tensors.

Tuples (named ones too), lists and mappings are walked; the result has their shape.  On one
process every operation returns its input itself.  On several, what comes from other processes
carries no gradients, and tensors that the backend cannot reach are moved there and back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from accelift.collective import Collective, describe
from accelift.collective import DistributedOperationException as DistributedOperationException
from accelift.containers import apply
from accelift.state import PartialState

F = TypeVar("F", bound=Callable[..., Any])

_REDUCTIONS = ("sum", "mean", "max", "min", "none")
_REDUCE_OPS = {"max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}
# all_gather_into_tensor is the name before torch 2.13 and deprecated since.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
# The element types that gloo and nccl both move; others travel as bytes.
_MOVABLE = frozenset(
    {
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.uint8,
        torch.int8,
        torch.int32,
        torch.int64,
    }
)


def _collective(brings: Callable[..., str]) -> Callable[[F], F]:
    """Have the watchdog know of an operation, and debug mode compare what ``brings`` says of its arguments."""

    def decorate(function: F) -> F:
        @wraps(function)
        def operation(*args: Any, **kwargs: Any) -> Any:
            state = PartialState()
            if not state.use_distributed:
                return function(*args, **kwargs)
            with Collective(function.__name__, state, lambda: brings(*args, **kwargs)):
                return function(*args, **kwargs)

        return cast(F, operation)

    return decorate


def _sendable(tensor: Tensor, state: PartialState) -> Tensor:
    """The tensor as the backend wants it: detached, contiguous, on its device."""
    device = state.collective_device
    tensor = tensor.detach()
    if tensor.device != device:
        tensor = tensor.to(device)
    return tensor.contiguous()


def gather_rows(tensor: Tensor, state: PartialState) -> Tensor:
    """Concatenate the tensors of all processes, of equal shape, along their first dimension."""
    ours = _sendable(tensor, state)
    if ours.dim() == 0:
        ours = ours[None]
    if ours.dtype not in _MOVABLE and ours.numel():
        rows = gather_rows(ours.flatten().view(torch.uint8), state).view(ours.dtype)
        rows = rows.view(state.num_processes * ours.shape[0], *ours.shape[1:])
    else:
        rows = ours.new_empty((state.num_processes * ours.shape[0], *ours.shape[1:]))
        _all_gather(rows, ours)
    return rows if rows.device == tensor.device else rows.to(tensor.device)


def gather_ragged_rows(tensor: Tensor, state: PartialState) -> Tensor:
    """Like :func:`gather_rows`, for tensors whose first dimension may differ."""
    if tensor.dim() == 0:
        return gather_rows(tensor, state)
    size = torch.tensor([tensor.shape[0]], device=state.collective_device)
    sizes: list[int] = gather_rows(size, state).tolist()
    longest = max(sizes)
    if min(sizes) == longest:
        return gather_rows(tensor, state)
    padded = tensor.new_zeros((longest, *tensor.shape[1:]))
    padded[: tensor.shape[0]] = tensor.detach()
    rows = gather_rows(padded, state)
    return torch.cat([rows[rank * longest : rank * longest + size] for rank, size in enumerate(sizes)])


@_collective(lambda tensor: describe(tensor))
def gather(tensor: Any) -> Any:
    """Concatenate the tensors of all processes along their first dimension.

    Args:
        tensor: tensors of the same shape on every process; a 0-dim one counts as one row.

    Returns:
        Tensors of ``num_processes`` times the rows, in the order of the processes, everywhere.

    Raises:
        TypeError: if there is anything but tensors in the containers.
        DistributedOperationException: in debug mode, if shapes differ.
    """
    state = PartialState()
    if not state.use_distributed:
        return tensor
    return apply(lambda leaf: gather_rows(leaf, state), tensor, "gather")


@_collective(lambda object: type(object).__name__)
def gather_object(object: Any) -> Any:
    """Concatenate the lists (or tuples) of picklable objects of all processes.

    Raises:
        TypeError: if the argument is neither a list nor a tuple.
    """
    if not isinstance(object, (list, tuple)):
        raise TypeError(f"gather_object joins lists (or tuples) of objects; put the {type(object).__name__} in a list.")
    state = PartialState()
    if not state.use_distributed:
        return object
    lists: list[Any] = [None] * state.num_processes
    dist.all_gather_object(lists, object)
    joined = [item for items in lists for item in items]
    return joined if isinstance(object, list) else tuple(joined)


@_collective(lambda tensor, from_process=0: f"{describe(tensor)} from rank {from_process}")
def broadcast(tensor: Any, from_process: int = 0) -> Any:
    """Give every process the tensors of one of them.

    Args:
        tensor: tensors of the same shape and type on every process; not changed.
        from_process: the process whose values everyone gets.

    Raises:
        TypeError: if there is anything but tensors in the containers.
        ValueError: if there is no such process.
    """
    state = PartialState()
    _check_process(from_process, state)
    if not state.use_distributed:
        return tensor

    def send(leaf: Tensor) -> Tensor:
        received = _sendable(leaf, state).clone()
        moved = received.flatten()  # a view: the clone is contiguous
        if received.dtype not in _MOVABLE:
            moved = moved.view(torch.uint8)
        dist.broadcast(moved, from_process)
        return received.to(leaf.device)

    return apply(send, tensor, "broadcast")


@_collective(lambda object_list, from_process=0: f"{len(object_list)} objects from rank {from_process}")
def broadcast_object_list(object_list: list[Any], from_process: int = 0) -> list[Any]:
    """Replace the objects of the list, in place, by those of one process.

    Raises:
        ValueError: if there is no such process.
    """
    state = PartialState()
    _check_process(from_process, state)
    if state.use_distributed:
        dist.broadcast_object_list(object_list, from_process)
    return object_list


def copy_tensor_to_devices(tensor: Tensor | None = None) -> Tensor:
    """Give every process the tensor of the one that has it; the others need not know what it looks like.

    Args:
        tensor: the tensor on one process, ``None`` on the others.

    Returns:
        The tensor, on this process's device.

    Raises:
        ValueError: unless exactly one process has a tensor.
    """
    state = PartialState()
    mine = None if tensor is None else (tuple(tensor.shape), tensor.dtype)
    everyones = gather_object([mine])
    owners = [index for index, found in enumerate(everyones) if found is not None]
    if len(owners) != 1:
        raise ValueError(f"copy_tensor_to_devices needs a tensor on exactly one process; it is on {owners or 'none'}.")
    if tensor is None:
        shape, dtype = everyones[owners[0]]
        tensor = torch.empty(shape, dtype=dtype)
    copied: Tensor = broadcast(tensor.to(state.device), owners[0])
    return copied


@_collective(lambda tensor, reduction="mean", scale=1.0: f"{describe(tensor)} by {reduction}")
def reduce(tensor: Any, reduction: str = "mean", scale: float = 1.0) -> Any:
    """Combine the tensors of all processes element by element.

    Args:
        tensor: tensors of the same shape on every process; not changed.
        reduction: ``"sum"``, ``"mean"``, ``"max"``, ``"min"``, or ``"none"`` for each process's
            own.  All but the mean keep the element type.
        scale: a factor for the result.

    Raises:
        TypeError: if there is anything but tensors in the containers.
        ValueError: for an unknown reduction, or the mean of whole numbers.
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduce knows no reduction {reduction!r}; choose one of {', '.join(_REDUCTIONS)}.")
    state = PartialState()
    if (not state.use_distributed or reduction == "none") and scale == 1.0:
        return tensor

    def combine(leaf: Tensor) -> Tensor:
        if reduction == "mean" and not (leaf.is_floating_point() or leaf.is_complex()):
            raise ValueError(
                f"reduce cannot take the mean of {leaf.dtype} tensors; convert them with .float() "
                'first or use reduction="sum".'
            )
        total = _combined(leaf, reduction, state) if state.use_distributed else leaf
        return total if scale == 1.0 else total * scale

    return apply(combine, tensor, "reduce")


def _combined(leaf: Tensor, reduction: str, state: PartialState) -> Tensor:
    if reduction == "none":
        return leaf.detach()
    ours = _sendable(leaf, state)
    # A sum of bools is a logical or, as in torch; 16-bit integers are beyond the backends.
    wide = ours.to(torch.int32) if ours.dtype in (torch.bool, torch.int16) else ours.clone()
    dist.all_reduce(wide, _REDUCE_OPS.get(reduction, dist.ReduceOp.SUM))
    if reduction == "mean":
        wide /= state.num_processes
    return wide.to(leaf.device, leaf.dtype)


@_collective(lambda tensor, dim=0, pad_index=0, pad_first=False: describe(tensor, skip_dim=dim))
def pad_across_processes(tensor: Any, dim: int = 0, pad_index: float = 0, pad_first: bool = False) -> Any:
    """Pad tensors to the longest one of all processes along a dimension.

    Args:
        tensor: tensors whose sizes may differ along ``dim`` only.
        dim: the dimension; tensors that do not have it are returned as they are.
        pad_index: the value to pad with.
        pad_first: pad at the start instead of the end.

    Raises:
        TypeError: if there is anything but tensors in the containers.
        DistributedOperationException: in debug mode, if they differ in more than that.
    """
    state = PartialState()
    if not state.use_distributed:
        return tensor

    def pad(leaf: Tensor) -> Tensor:
        if not -leaf.dim() <= dim < leaf.dim():
            return leaf
        size = torch.tensor([leaf.shape[dim]], device=state.collective_device)
        longest = int(gather_rows(size, state).max().item())
        missing = longest - leaf.shape[dim]
        if not missing:
            return leaf
        shape = list(leaf.shape)
        shape[dim] = longest
        padded = leaf.new_full(shape, pad_index)
        padded.narrow(dim, missing if pad_first else 0, leaf.shape[dim]).copy_(leaf)
        return padded

    return apply(pad, tensor, "pad_across_processes")


def _check_process(index: int, state: PartialState) -> None:
    if not 0 <= index < state.num_processes:
        raise ValueError(f"from_process={index} is not among the {state.num_processes} processes of the job.")


def wait_for_everyone() -> None:
    """Wait until every process has come here."""
    PartialState().wait_for_everyone()
