"""A library with Accelerate's names, in its best settings for keeping what a script computes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

_TIMEOUT = timedelta(seconds=60)


class Library:
    """`accelift` or `accelerate`.

    Args:
        name: which.
        folder: where scripts may save.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self._library = import_module(name)
        self._state = import_module(f"{name}.state")
        self.utils = import_module(f"{name}.utils")

    def accelerator(self, loading: dict[str, Any] | None = None, **settings: Any) -> Any:
        """An Accelerator that keeps the global batch of the script.

        Args:
            loading: more for its ``DataLoaderConfiguration``.
            settings: more for the Accelerator.
        """
        return self._library.Accelerator(
            cpu=True,
            dataloader_config=self.utils.DataLoaderConfiguration(split_batches=True, **(loading or {})),
            kwargs_handlers=[self.utils.InitProcessGroupKwargs(timeout=_TIMEOUT)],
            **settings,
        )

    def forget(self) -> None:
        """Let the next Accelerator begin anew: in Accelerate, all of a process share their settings."""
        for name in ("AcceleratorState", "GradientState", "PartialState"):
            state = getattr(self._state, name, None)
            if self.name == "accelerate" and state is not None:
                state._reset_state()


Parameters = list[Tensor]
Managed = Callable[[Library], Parameters]


def parameters(*models: nn.Module) -> Parameters:
    """Copies of the parameters of all models."""
    return [parameter.detach().clone() for model in models for parameter in model.parameters()]


def difference(ours: Parameters, theirs: Parameters) -> float:
    """The largest difference of any two elements: 0 only if all are equal, NaN if there is one."""
    largest = [(a.double() - b.double()).abs().max() for a, b in zip(ours, theirs, strict=True)]
    return float(torch.stack(largest).max())
