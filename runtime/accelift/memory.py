"""Giving memory back, and finding the batch size that memory allows."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch

# What backends say that have no exception of their own for it.
_OUT_OF_MEMORY = (
    "out of memory",
    "DefaultCPUAllocator: can't allocate memory",
    "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED.",
    "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed",
)


def clear_device_cache(garbage_collection: bool = False) -> None:
    """Give the memory that torch keeps for later use back to the device.

    Args:
        garbage_collection: collect unreachable objects first, which takes time.
    """
    if garbage_collection:
        gc.collect()
    kind = _device_kind()
    if kind is not None:
        getattr(torch, kind).empty_cache()


def _device_kind() -> str | None:
    """The kind of accelerator of this machine, if torch finds one."""
    if torch.cuda.is_available():
        return "cuda"
    accelerators = getattr(torch, "accelerator", None)  # as young as torch 2.6
    if accelerators is None or not accelerators.is_available():
        return None
    return str(accelerators.current_accelerator().type)


def release_memory(*objects: Any) -> list[None]:
    """Let go of objects and give their memory back: ``a, b = release_memory(a, b)``.

    Returns:
        A ``None`` for each, to put in their place; what somebody else holds stays.
    """
    count = len(objects)
    del objects
    clear_device_cache(garbage_collection=True)
    return [None] * count


def should_reduce_batch_size(exception: BaseException) -> bool:
    """Whether an exception says that memory was short."""
    if isinstance(exception, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return isinstance(exception, RuntimeError) and any(words in str(exception) for words in _OUT_OF_MEMORY)


def find_executable_batch_size(
    function: Callable[..., Any] | None = None,
    starting_batch_size: int = 128,
    reduce_batch_size_fn: Callable[[], int] | None = None,
) -> Callable[..., Any]:
    """Decorator: call the function with smaller and smaller batch sizes until memory suffices.

    The function gets the batch size as its first argument.  A later call goes on with the size that
    was found.  On several processes all of them must run out of memory alike, as they do where they
    do the same: one that begins anew by itself waits for the others in vain.

    Args:
        function: the function.
        starting_batch_size: what to try first.
        reduce_batch_size_fn: says what to try next; by default nine tenths, rounded down.

    Raises:
        RuntimeError: when called, if not even a batch size of 1 is small enough.
        TypeError: when called, if the call gives a batch size too.
    """
    if function is None:
        return partial(
            find_executable_batch_size,
            starting_batch_size=starting_batch_size,
            reduce_batch_size_fn=reduce_batch_size_fn,
        )
    parameters = list(inspect.signature(function).parameters.values())
    variadic = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    batch_size = starting_batch_size

    @wraps(function)
    def search(*args: Any, **kwargs: Any) -> Any:
        nonlocal batch_size
        if not variadic and len(args) >= len(parameters):
            name = getattr(function, "__name__", "the function")
            raise TypeError(
                f"{name} takes {len(parameters) - 1} arguments besides the batch size and was called with {len(args)}; "
                "leave the batch size out, find_executable_batch_size gives it."
            )
        while batch_size > 0:
            clear_device_cache(garbage_collection=True)
            try:
                return function(batch_size, *args, **kwargs)
            except Exception as error:
                if not should_reduce_batch_size(error):
                    raise
            # Only here, without the exception, are the function's own variables free.
            batch_size = int(batch_size * 0.9) if reduce_batch_size_fn is None else reduce_batch_size_fn()
        raise RuntimeError("find_executable_batch_size found none: not even a batch size of 1 fits into memory.")

    return search
