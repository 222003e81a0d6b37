"""Collective operations on tensors, and on containers of tensors.

Tuples (named ones too), lists and mappings are walked; the result has their shape.  On one
process every operation returns its input itself.  On several, what comes from other processes
carries no gradients, and tensors that the backend cannot reach are moved there and back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping
from functools import wraps
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

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


class DistributedOperationException(Exception):
    """In debug mode: the processes bring tensors of different shapes to one operation."""


def apply(function: Callable[[Tensor], Any], data: Any, verb: str) -> Any:
    """Call ``function`` on every tensor of nested containers and put the results in their place.

    Raises:
        TypeError: naming ``verb``, if there is anything but tensors in the containers.
    """
    if isinstance(data, Tensor):
        return function(data)
    if isinstance(data, (tuple, list, Mapping)):
        return rebuild(data, lambda item: apply(function, item, verb))
    raise TypeError(f"{verb} works on tensors in tuples, lists and dicts; it was given a {type(data).__name__}.")


def rebuild(container: Any, function: Callable[[Any], Any]) -> Any:
    """A tuple, list or mapping of the same type whose items are replaced by ``function``."""
    if isinstance(container, MutableMapping):
        clone = copy.copy(container)  # keeps what a subclass knows besides its items
        for key in container:
            clone[key] = function(container[key])
        return clone
    if isinstance(container, Mapping):
        return type(container)({key: function(container[key]) for key in container})  # type: ignore[call-arg]
    items = [function(item) for item in container]
    if hasattr(container, "_fields"):
        return type(container)(*items)
    return type(container)(items)


def send_to_device(data: Any, device: torch.device, non_blocking: bool = False) -> Any:
    """Move every tensor, and every object that has a ``to`` method, to ``device``.

    Anything else stays as it is.
    """
    if isinstance(data, Tensor):
        return data.to(device, non_blocking=non_blocking)
    if hasattr(data, "to"):
        try:
            return data.to(device, non_blocking=non_blocking)
        except TypeError:  # its `to` knows no non_blocking
            return data.to(device)
    if isinstance(data, (tuple, list, Mapping)):
        return rebuild(data, lambda item: send_to_device(item, device, non_blocking))
    return data


def has_tensor(data: Any) -> bool:
    """Whether there is a tensor somewhere in nested containers."""
    if isinstance(data, Tensor):
        return True
    if isinstance(data, Mapping):
        return any(has_tensor(item) for item in data.values())
    return isinstance(data, (tuple, list)) and any(has_tensor(item) for item in data)


def _shapes(data: Any) -> Any:
    return apply(lambda tensor: tuple(tensor.shape), data, "debug mode")


def _checked(function: F) -> F:
    """In debug mode, compare the shapes that the processes bring before they communicate."""

    @wraps(function)
    def operation(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        state = PartialState()
        if state.debug and state.use_distributed:
            shapes: list[Any] = [None] * state.num_processes
            dist.all_gather_object(shapes, _shapes(tensor))
            if any(shape != shapes[0] for shape in shapes):
                listed = "; ".join(f"process {rank}: {shape}" for rank, shape in enumerate(shapes))
                raise DistributedOperationException(
                    f"{function.__name__} needs the same shapes on every process, got {listed}."
                )
        return function(tensor, *args, **kwargs)

    return cast(F, operation)


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


@_checked
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


@_checked
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
        if received.dtype not in _MOVABLE and received.numel():
            moved = moved.view(torch.uint8)
        dist.broadcast(moved, from_process)
        return received.to(leaf.device)

    return apply(send, tensor, "broadcast")


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


@_checked
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


def pad_across_processes(tensor: Any, dim: int = 0, pad_index: float = 0, pad_first: bool = False) -> Any:
    """Pad tensors to the longest one of all processes along a dimension.

    Args:
        tensor: tensors whose sizes may differ along ``dim`` only.
        dim: the dimension; tensors that do not have it are returned as they are.
        pad_index: the value to pad with.
        pad_first: pad at the start instead of the end.

    Raises:
        TypeError: if there is anything but tensors in the containers.
        DistributedOperationException: in debug mode, if the numbers of dimensions differ.
    """
    state = PartialState()
    if not state.use_distributed:
        return tensor
    if state.debug:
        _same_dimensions(tensor, state)

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


def _same_dimensions(tensor: Any, state: PartialState) -> None:
    dims = apply(lambda leaf: leaf.dim(), tensor, "pad_across_processes")
    everyone: list[Any] = [None] * state.num_processes
    dist.all_gather_object(everyone, dims)
    if any(theirs != dims for theirs in everyone):
        raise DistributedOperationException(
            f"pad_across_processes needs tensors of as many dimensions on every process, got {everyone}."
        )


def _check_process(index: int, state: PartialState) -> None:
    if not 0 <= index < state.num_processes:
        raise ValueError(f"from_process={index} is not among the {state.num_processes} processes of the job.")


def wait_for_everyone() -> None:
    """Wait until every process has come here."""
    PartialState().wait_for_everyone()
