"""Gathering what metrics are computed from: each sample once, in the order of one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from accelift import operations
from accelift.collective import Collective, describe
from accelift.containers import apply, has_tensor, rebuild
from accelift.loss import loss_factor
from accelift.state import GradientState, PartialState

if TYPE_CHECKING:
    from accelift.data.share import Share

Join = Callable[[Any], Any]


def gather_for_metrics(data: Any, share: Share | None, state: PartialState, use_gather_object: bool) -> Any:
    """What one process would have at this point, on every process.

    Args:
        data: this process's part: tensors, lists of objects, and containers of these.
        share: how the current batch was dealt; ``None`` joins the parts as they are, with as many rows as each has.
        state: the processes.
        use_gather_object: treat the whole of ``data`` as a list of objects.

    Raises:
        TypeError: if there is an object that is not in a list.
    """
    if not state.use_distributed:
        return data
    join_rows, join_lists = _how_to_join(share, state)
    with Collective("gather_for_metrics", state):
        return join_lists(data) if use_gather_object else _walk(data, join_rows, join_lists)


def batch_mean(data: Any, gradient_state: GradientState, state: PartialState) -> Any:
    """The mean over the samples of the current batch, or after a loop of its last one, on every process.

    Args:
        data: means over this process's samples: tensors, and containers of these.
        gradient_state: knows how the current batch was dealt.
        state: the processes.

    Raises:
        RuntimeError: if a process was dealt nothing of this batch: it would not come, and be waited for.
        ValueError: for tensors of whole numbers.
    """
    if not state.use_distributed:
        return data
    share = gradient_state.share
    if share is not None and 0 in share.dealt:
        raise RuntimeError(
            f"batch_mean would wait for ever: this batch was dealt to {sum(map(bool, share.dealt))} of "
            f"{state.num_processes} processes, and the others have left the loop. Share uneven batches out with "
            'DataLoaderConfiguration(even_batches="exact"), or leave them out with drop_last=True.'
        )
    weight = _weight_of_mean(gradient_state, state)

    def weighed(mean: Tensor) -> Tensor:
        return mean if weight == 1.0 or not mean.is_floating_point() else mean.detach() * weight

    with Collective("batch_mean", state):
        return operations.reduce(apply(weighed, data, "batch_mean"), "mean")


def _weight_of_mean(gradient_state: GradientState, state: PartialState) -> float:
    last = gradient_state.left
    ended = not gradient_state.passes and gradient_state.by_hand is None
    if ended and last is not None and 0 not in last.dealt:  # where it is, others know of earlier batches only
        return last.weights[state.process_index]
    return loss_factor("mean", gradient_state, state)


def _walk(data: Any, join_rows: Join, join_lists: Join) -> Any:
    if data is None:
        return None
    if isinstance(data, Tensor):
        return join_rows(data)
    if isinstance(data, Mapping) or has_tensor(data):
        return rebuild(data, lambda item: _walk(item, join_rows, join_lists))
    return join_lists(data)


def _how_to_join(share: Share | None, state: PartialState) -> tuple[Join, Join]:
    """How to join tensors, and how to join lists of objects."""
    if share is not None and share.even:
        return operations.gather, operations.gather_object
    if share is not None and share.replicated:
        return operations.broadcast, _of_main_process

    def without_padding(items: Any) -> Any:
        """Leave out what belongs to repeated samples; there may be several rows for each."""
        assert share is not None
        per_sample, rest = divmod(len(items), share.dealt[state.process_index])
        return items if rest else items[: per_sample * share.counts[state.process_index]]

    def join_rows(rows: Tensor) -> Tensor:
        if share is not None and rows.dim() and share.padded:
            rows = without_padding(rows)
        with Collective("gather_for_metrics", state, lambda: describe(rows, skip_dim=0)):
            return operations.gather_ragged_rows(rows, state)

    def join_lists(objects: Any) -> Any:
        if share is not None and share.padded and isinstance(objects, (list, tuple)):
            objects = without_padding(objects)
        return operations.gather_object(objects)

    return join_rows, join_lists


def _of_main_process(objects: Any) -> Any:
    return operations.broadcast_object_list([objects])[0]
