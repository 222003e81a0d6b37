"""Walking through tuples (named ones too), lists and mappings of tensors.

Functions that give something back for every tensor keep the shape and the types of the containers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor


def is_torch_tensor(item: Any) -> bool:
    """Whether it is a tensor."""
    return isinstance(item, Tensor)


def is_namedtuple(data: Any) -> bool:
    """Whether it is a named tuple."""
    return isinstance(data, tuple) and hasattr(data, "_fields")


def honor_type(obj: Any, generator: Iterable[Any]) -> Any:
    """A tuple (named or not) or list of the type of ``obj`` with other items."""
    return type(obj)(*generator) if is_namedtuple(obj) else type(obj)(generator)


def rebuild(container: Any, function: Callable[[Any], Any]) -> Any:
    """A tuple, list or mapping of the same type whose items are replaced by ``function``."""
    if isinstance(container, Mapping):
        return rebuild_mapping(container, lambda key: function(container[key]))
    return honor_type(container, [function(item) for item in container])


def rebuild_mapping(mapping: Mapping[Any, Any], value_of: Callable[[Any], Any]) -> Any:
    """A mapping of the same type and keys, whose values ``value_of`` tells."""
    if not isinstance(mapping, MutableMapping):
        return type(mapping)({key: value_of(key) for key in mapping})  # type: ignore[call-arg]
    clone = copy.copy(mapping)  # keeps what a subclass knows besides its items
    for key in mapping:
        clone[key] = value_of(key)
    return clone


def map_leaves(function: Callable[[Any], Any], data: Any) -> Any:
    """Call ``function`` on everything in nested containers that is not one itself."""
    if isinstance(data, (tuple, list, Mapping)):
        return rebuild(data, lambda item: map_leaves(function, item))
    return function(data)


def apply(function: Callable[[Tensor], Any], data: Any, verb: str) -> Any:
    """Call ``function`` on every tensor of nested containers and put the results in their place.

    Raises:
        TypeError: naming ``verb``, if there is anything but tensors in the containers.
    """
    if isinstance(data, Tensor):
        return function(data)

    def checked(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return function(leaf)
        raise TypeError(f"{verb} works on tensors in tuples, lists and dicts; it was given a {type(leaf).__name__}.")

    return map_leaves(checked, data)


def recursively_apply(
    func: Callable[..., Any],
    data: Any,
    *args: Any,
    test_type: Callable[[Any], bool] = is_torch_tensor,
    error_on_other_type: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a function on every tensor of nested containers and put the results in their place.

    Args:
        func: called as ``func(item, *args, **kwargs)``.
        data: the containers, or a tensor.
        args: see ``func``.
        test_type: tells which items it is called on.
        error_on_other_type: whether other items are errors; they stay as they are if not.
        kwargs: see ``func``.

    Raises:
        TypeError: see ``error_on_other_type``.
    """

    def tested(leaf: Any) -> Any:
        if test_type(leaf):
            return func(leaf, *args, **kwargs)
        if error_on_other_type:
            raise TypeError(f"recursively_apply was given a {type(leaf).__name__}, which {test_type.__name__} refuses.")
        return leaf

    return map_leaves(tested, data)


def tensors_of(data: Any) -> Iterator[Tensor]:
    """The tensors in nested containers, in order."""
    if isinstance(data, Tensor):
        yield data
    elif isinstance(data, (tuple, list, Mapping)):
        for item in data.values() if isinstance(data, Mapping) else data:
            yield from tensors_of(item)


def has_tensor(data: Any) -> bool:
    """Whether there is a tensor somewhere in nested containers."""
    return next(tensors_of(data), None) is not None


def find_device(data: Any) -> torch.device | None:
    """The device of the first tensor in nested containers."""
    first = next(tensors_of(data), None)
    return None if first is None else first.device


def find_batch_size(data: Any) -> int:
    """The number of rows of the first tensor in nested containers that has rows.

    Raises:
        ValueError: if there is none.
    """
    for tensor in tensors_of(data):
        if tensor.ndim:
            return tensor.shape[0]
    raise ValueError(f"find_batch_size found no tensor with rows in the {type(data).__name__}.")


def ignorant_find_batch_size(data: Any) -> int | None:
    """Like :func:`find_batch_size`, but ``None`` where there is none."""
    return next((tensor.shape[0] for tensor in tensors_of(data) if tensor.ndim), None)


def send_to_device(
    tensor: Any,
    device: torch.device | str | int,
    non_blocking: bool = False,
    skip_keys: str | Sequence[str] | None = None,
) -> Any:
    """Move every tensor, and every object that has a ``to`` method, to ``device``.

    Anything else stays as it is.

    Args:
        tensor: the tensors, in containers.
        device: where to.
        non_blocking: do not wait for the copies, where the device can.
        skip_keys: keys of mappings whose values stay where they are.
    """
    if isinstance(tensor, Tensor):
        return tensor.to(device, non_blocking=non_blocking)
    if hasattr(tensor, "to"):
        try:
            return tensor.to(device, non_blocking=non_blocking)
        except TypeError:  # its `to` knows no non_blocking
            return tensor.to(device)
    if skip_keys and isinstance(tensor, Mapping):
        skipped = {skip_keys} if isinstance(skip_keys, str) else set(skip_keys)
        return rebuild_mapping(
            tensor,
            lambda key: tensor[key] if key in skipped else send_to_device(tensor[key], device, non_blocking, skip_keys),
        )
    if isinstance(tensor, (tuple, list, Mapping)):
        return rebuild(tensor, lambda item: send_to_device(item, device, non_blocking, skip_keys))
    return tensor


def slice_tensors(data: Any, tensor_slice: slice) -> Any:
    """A slice of the rows of every tensor."""
    return recursively_apply(lambda tensor: tensor[tensor_slice], data)


def concatenate(data: Sequence[Any], dim: int = 0) -> Any:
    """Join batches, containers of one form, tensor by tensor.

    Raises:
        TypeError: if there is something else than tensors in several batches.
    """
    first = data[0]
    if isinstance(first, (tuple, list)):
        return honor_type(first, [concatenate(items, dim) for items in zip(*data, strict=True)])
    if isinstance(first, Mapping):
        return rebuild_mapping(first, lambda key: concatenate([batch[key] for batch in data], dim))
    if isinstance(first, Tensor):
        return torch.cat(list(data), dim)
    if len(data) == 1:
        return first
    raise TypeError(f"concatenate joins tensors, not items of type {type(first).__name__}.")


def listify(data: Any) -> Any:
    """Every tensor as nested lists of numbers."""
    return recursively_apply(lambda tensor: tensor.detach().cpu().tolist(), data)


def pad_input_tensors(tensor: Any, batch_size: int, num_processes: int, dim: int = 0) -> Any:
    """Repeat the last row of every tensor until the rows can be dealt evenly.

    Args:
        tensor: tensors of ``batch_size`` rows along ``dim``, in containers.
        batch_size: how many rows there are.
        num_processes: what their number will be a multiple of.
        dim: the dimension of the rows.
    """
    missing = -batch_size % num_processes

    def pad(leaf: Tensor) -> Tensor:
        shape = list(leaf.shape)
        shape[dim] = missing
        return torch.cat([leaf, leaf.narrow(dim, leaf.shape[dim] - 1, 1).expand(shape)], dim)

    return apply(pad, tensor, "pad_input_tensors") if missing else tensor


def convert_to_fp32(tensor: Any) -> Any:
    """Convert the float16 and bfloat16 tensors of nested containers to float32."""
    return recursively_apply(lambda leaf: leaf.float(), tensor, test_type=_is_half)


def _is_half(item: Any) -> bool:
    return isinstance(item, Tensor) and item.dtype in (torch.float16, torch.bfloat16)


def convert_outputs_to_fp32(model_forward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the function, with float16 and bfloat16 tensors in its result converted to float32."""

    @wraps(model_forward)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return convert_to_fp32(model_forward(*args, **kwargs))

    return forward
