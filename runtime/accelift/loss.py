"""The factor by which a loss must be multiplied before backward on several processes."""

from __future__ import annotations

import warnings

import torch
import torch.distributed as dist
from torch import Tensor

from accelift.collective import Collective
from accelift.state import GradientState, PartialState

REDUCTIONS = ("mean", "sum")


def loss_factor(reduction: str, gradient_state: GradientState, state: PartialState) -> float:
    """What makes the average of the processes' gradients that of the whole batch.

    Args:
        reduction: whether the loss is the mean over the samples of the batch or their sum.
        gradient_state: knows how the current batch was dealt.
        state: the processes.
    """
    share = gradient_state.share
    if reduction == "sum":
        # The average must become the sum of all parts, unless each has the whole already.
        whole = share.replicated if share is not None else not gradient_state.deals_batches
        return 1.0 if whole else float(state.num_processes)
    if share is None:
        return 1.0
    weight = share.weights[state.process_index]
    if len(gradient_state.passes) > 1 and gradient_state.by_hand is None:
        _warn_if_disagreeing(weight, gradient_state, state)
    return weight


def weight_factor(weight: float | Tensor, state: PartialState) -> float:
    """What makes the average over the processes one over all items.  A collective operation.

    A mean over ``w_r`` of ``w`` items on process ``r`` of ``N`` owes ``w_r * N / w``.

    Args:
        weight: how many items this process's mean is over, for instance tokens that are not padding.
        state: the processes.
    """
    ours = torch.as_tensor(weight, dtype=torch.float64).detach().to(state.collective_device)
    total = ours.clone()
    with Collective("backward", state):
        dist.all_reduce(total)
    # With no item anywhere there is no mean, and nothing to weight.
    return float(ours * state.num_processes / total) if total else 1.0


def _warn_if_disagreeing(weight: float, gradient_state: GradientState, state: PartialState) -> None:
    shares = (one.share for one in gradient_state.passes)
    weights = {1.0 if share is None else share.weights[state.process_index] for share in shares}
    if weights != {weight} and not gradient_state.warned_of_shares:
        gradient_state.warned_of_shares = True
        warnings.warn(
            "several loaders are being iterated and deal this process different shares of their "
            f"batches ({', '.join(f'{one:g}' for one in sorted(weights))} of an even one). A loss is "
            "weighted by the share of the loader that dealt last: if yours is over batches of "
            "several of them, give the loaders batches of the same size, divisible by the number of "
            "processes; if it is over the last one alone, it is right.",
            stacklevel=4,
        )
