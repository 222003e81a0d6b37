"""Bringing what is in the pages of files into memory."""

from __future__ import annotations

import ctypes
import os
from threading import Thread
from typing import Any

import torch
from torch import Tensor


def in_memory(saved: Any, live: Any = None, moves: bool = False) -> Any:
    """A copy of a state whose tensors are pages of files; of each tensor that is at hand already, in its place.

    Args:
        saved: tensors, numbers, and dicts, lists and tuples of these.
        live: the like state that is to be overwritten; it may have more or less.
        moves: whether large tensors will be copied to another device anyway.
    """
    if isinstance(saved, Tensor):
        if not isinstance(live, Tensor) or live.shape != saved.shape or live.dtype != saved.dtype:
            if moves and saved.numel() > 1:
                return saved
            live = torch.empty_like(saved)
        _copy(saved, live)
        return live
    if isinstance(saved, dict):
        known = live if isinstance(live, dict) else {}
        return {key: in_memory(value, known.get(key), moves) for key, value in saved.items()}
    if type(saved) in (list, tuple):
        return type(saved)(in_memory(value, None, moves) for value in saved)
    return saved


def _copy(saved: Tensor, live: Tensor) -> None:
    plain = all(
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
        and not tensor.is_conj()
        for tensor in (saved, live)
    )
    if plain:
        _copy_bytes(live.data_ptr(), saved.data_ptr(), saved.numel() * saved.element_size())
    else:
        with torch.no_grad():
            live.copy_(saved)


_PART = 1 << 22  # bytes that are worth a thread
_THREADS = min(os.cpu_count() or 1, 4)


def _copy_bytes(target: int, source: int, size: int) -> None:
    """Copy memory on several threads: much of the time goes into the first touch of each page."""
    parts = min(size // _PART, _THREADS)
    if parts < 2:
        ctypes.memmove(target, source, size)
        return
    each = size // parts
    begins = [each * part for part in range(parts)]
    ends = [*begins[1:], size]
    copies = [
        Thread(target=ctypes.memmove, args=(target + begin, source + begin, end - begin))
        for begin, end in zip(begins, ends, strict=True)
    ]
    for copy in copies:
        copy.start()
    for copy in copies:
        copy.join()
