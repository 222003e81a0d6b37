"""What tensors in nested containers look like, without the tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from accelift.containers import recursively_apply


@dataclass(frozen=True)
class TensorInformation:
    """What a tensor looks like."""

    shape: torch.Size
    dtype: torch.dtype


def get_data_structure(data: Any) -> Any:
    """A :class:`TensorInformation` in place of every tensor."""
    return recursively_apply(lambda tensor: TensorInformation(tensor.shape, tensor.dtype), data)


def is_tensor_information(item: Any) -> bool:
    """Whether it is a :class:`TensorInformation`."""
    return isinstance(item, TensorInformation)


def initialize_tensors(data_structure: Any) -> Any:
    """A tensor of any content in place of every :class:`TensorInformation`."""
    return recursively_apply(
        lambda info: torch.empty(info.shape, dtype=info.dtype), data_structure, test_type=is_tensor_information
    )
