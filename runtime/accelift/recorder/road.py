"""Letting one run follow another: each step begins with the parameters that the other run had."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

# By other names than the author's, which are recorded.
from torch.serialization import load, save

_MOST = 4 << 30  # bytes on the disk


class Road:
    """Keeps the parameters after each step of a run, or puts those of another run in their place.

    Where training is chaotic, two runs that compute the same part in the end, as rounding grows.  A run that follows
    another one takes each step from the very parameters that the other took it from, so that what differs after it is
    what the step did.

    Args:
        keep: a folder to keep parameters in, up to 4 GiB of them.
        follow: a folder in which another run has kept its own.
    """

    def __init__(self, keep: Path | None = None, follow: Path | None = None) -> None:
        self._keep = keep
        self._follow = follow
        self._kept = 0
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)

    def after_step(self, step: int, parameters: Sequence[Tensor]) -> None:
        """Keep the parameters, or replace them; what was not kept is not replaced."""
        if self._keep is not None and self._kept < _MOST:
            self._kept += sum(parameter.numel() * parameter.element_size() for parameter in parameters)
            save([parameter.detach().cpu() for parameter in parameters], self._keep / f"{step}.pt")
        if self._follow is not None and (file := self._follow / f"{step}.pt").exists():
            with torch.no_grad():
                for parameter, values in zip(parameters, load(file, weights_only=True), strict=False):
                    if parameter.shape == values.shape:
                        parameter.copy_(values)
