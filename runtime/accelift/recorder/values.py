"""Small descriptions of large tensors, from which the distance of two tensors can be told."""

from __future__ import annotations

import ctypes
import math
import zlib
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

BUCKETS = 32


def describe(tensor: Tensor) -> dict[str, Any]:
    """What is recorded of a tensor.

    Returns:
        ``n`` elements; ``crc``: the CRC-32 of its bytes, equal for equal bits; ``norm``: its Euclidean norm;
        ``sketch``: a count sketch (Charikar, Chen and Farach-Colton, 2002): 32 sums of elements with random signs, the
        same for every tensor of the size, or the values themselves if there are no more.  The norm of the difference
        of two sketches estimates that of the tensors: its square is unbiased, with a relative deviation of 1/4.
    """
    values = _on_cpu(tensor)
    flat = values.flatten()
    if not (flat.is_floating_point() or flat.dtype in _WHOLE):
        flat = flat.to(torch.uint8)
    count = flat.numel()
    # The norm overflows in float16, and is slow in float64: sums of squares are taken in float32 and added in float64.
    norm = math.sqrt(float((flat.float() ** 2).sum(dtype=torch.float64))) if count else 0.0
    return {"n": count, "crc": checksum(values), "norm": _finite(norm), "sketch": _sketch(flat, count)}


_WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def _sketch(flat: Tensor, count: int) -> list[float | None]:
    if count <= BUCKETS:
        return [_finite(float(value)) for value in flat.double()]
    rest = -count % BUCKETS
    padded = torch.nn.functional.pad(flat.float(), (0, rest)) if rest else flat.float()
    sums = (padded * _signs(padded.numel())).view(BUCKETS, -1).sum(1, dtype=torch.float64)
    return [_finite(value) for value in sums.tolist()]


@lru_cache(maxsize=64)
def _signs(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randint(0, 2, (count,), generator=generator, dtype=torch.int8).mul_(2).sub_(1).float()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def checksum(values: Tensor, start: int = 0) -> int:
    """The CRC-32 of the bytes of a contiguous tensor on the CPU."""
    size = values.numel() * values.element_size()
    return zlib.crc32((ctypes.c_ubyte * size).from_address(values.data_ptr()), start) if size else start


def _on_cpu(tensor: Tensor) -> Tensor:
    whole = getattr(tensor.detach(), "full_tensor", tensor.detach)()  # DTensors have parts
    if whole.layout != torch.strided:
        whole = whole.to_dense()
    values: Tensor = whole.cpu().contiguous()
    return torch.view_as_real(values) if values.is_complex() else values
