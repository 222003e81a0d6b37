"""The part of some inputs that falls to one process."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from accelift.containers import rebuild


def part_of(inputs: Any, index: int, count: int, apply_padding: bool = False) -> Any:
    """The part of the inputs that falls to process ``index`` of ``count``: a run of neighbours.

    The first processes get one more where the inputs cannot be dealt evenly.

    Args:
        inputs: a list, tuple or other sequence, a tensor or array (cut along the first dimension),
            a dataset of ``torch`` or ``datasets``, or a dict of these, also nested.  Anything else,
            a text for instance, goes to every process as it is.
        index: the process.
        count: how many there are; one gets the inputs themselves.
        apply_padding: repeat the last item, so that every process gets as many.

    Raises:
        ValueError: if what is in a dict differs in length.
    """
    if count == 1:
        return inputs
    length = _length(inputs)
    if length is None:
        return inputs
    size, extras = divmod(length, count)
    start = index * size + min(index, extras)
    stop = start + size + (index < extras)
    missing = size + (extras > 0) - (stop - start) if apply_padding else 0
    return _cut(inputs, start, stop, missing)


def _length(inputs: Any) -> int | None:
    """How many items there are, in all that is in a dict alike; ``None`` if they are not dealt."""
    if isinstance(inputs, Mapping):
        found = {key: length for key, item in inputs.items() if (length := _length(item)) is not None}
        if len(set(found.values())) > 1:
            raise ValueError(f"split_between_processes needs items of one length in a dict, not {found}.")
        return next(iter(found.values()), None)
    if isinstance(inputs, (str, bytes)):
        return None
    if isinstance(inputs, Tensor) or _is(inputs, "numpy", "ndarray"):
        return len(inputs) if inputs.ndim else None
    known = isinstance(inputs, (Sequence, torch.utils.data.Dataset)) or _is(inputs, "datasets", "Dataset")
    return len(inputs) if known and hasattr(inputs, "__len__") else None


def _cut(inputs: Any, start: int, stop: int, missing: int) -> Any:
    """The items from ``start`` to ``stop``, and the last of all ``missing`` times more."""
    if isinstance(inputs, Mapping):
        return rebuild(inputs, lambda item: _cut(item, start, stop, missing))
    length = _length(inputs)
    if length is None:
        return inputs
    if isinstance(inputs, Tensor):
        part = inputs[start:stop]
        return torch.cat([part, inputs[length - 1 :].expand(missing, *inputs.shape[1:])]) if missing else part
    indices = [*range(start, stop), *[length - 1] * missing]
    if _is(inputs, "datasets", "Dataset"):
        return inputs.select(indices)
    if isinstance(inputs, torch.utils.data.Dataset):
        return torch.utils.data.Subset(inputs, indices)
    if _is(inputs, "numpy", "ndarray"):
        return inputs[indices]
    if not missing:
        return inputs[start:stop]
    kind = tuple if isinstance(inputs, tuple) else list
    return kind(inputs[i] for i in indices)


def _is(item: Any, module: str, name: str) -> bool:
    """Whether the item is of a type of a library that may not be there."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(item, kind)
