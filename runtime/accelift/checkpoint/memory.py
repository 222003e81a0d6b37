"""Bringing what is in the pages of files into memory."""

from __future__ import annotations

import ctypes
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
        # On one thread: several that come upon new pages of one process are in each other's way.
        ctypes.memmove(live.data_ptr(), saved.data_ptr(), saved.numel() * saved.element_size())
    else:
        with torch.no_grad():
            live.copy_(saved)
