"""Batches that a script makes itself, shared out among the processes."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from accelift import operations
from accelift.collective import Collective, describe
from accelift.data.share import share_out
from accelift.state import GradientState, PartialState


def split_batch(batch: tuple[Any, ...], gradient_state: GradientState, state: PartialState) -> tuple[Any, ...]:
    """This process's rows of the batch that the main process made.  A collective operation.

    Random numbers that a process draws for its own share, dropout masks for instance, part its
    generators from those of the others; so what the main process made is dealt, whatever the
    others did.

    Args:
        batch: tensors, arrays or lists, all with the same number of rows.
        gradient_state: is told how the batch was dealt.
        state: the processes.

    Raises:
        TypeError: if something has no rows.
        ValueError: if the numbers of rows differ.
    """
    rows = [_rows(part) for part in batch]
    if len(set(rows)) > 1:
        raise ValueError(
            f"split_batch needs parts of one batch, with the same number of rows, but these have {_listed(rows)}; "
            "share out what has one row for each sample, and nothing else."
        )
    with Collective("split_batch", state, lambda: describe(batch)):
        if all(isinstance(part, Tensor) for part in batch):
            whole = operations.broadcast(batch)
        else:
            whole = operations.broadcast_object_list(list(batch))
    share = share_out(len(whole[0]), state.num_processes, None)
    gradient_state.by_hand = share
    begin, end = share.spans[state.process_index]
    return tuple(_like(part[begin:end], own) for part, own in zip(whole, batch, strict=True))


def _like(share: Any, whole: Any) -> Any:
    """A share by which gradients can be taken if they can by the whole: by the inputs of a network."""
    return share.requires_grad_() if isinstance(whole, Tensor) and whole.requires_grad else share


def _rows(part: Any) -> int:
    if isinstance(part, (str, bytes)) or getattr(part, "ndim", 1) == 0 or not hasattr(part, "__len__"):
        raise TypeError(f"split_batch needs tensors, arrays or lists, with a row for each sample, not {part!r:.60}.")
    return len(part)


def _listed(rows: list[int]) -> str:
    return " and ".join(map(str, rows))
