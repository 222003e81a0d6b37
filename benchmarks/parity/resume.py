"""Going on from a checkpoint that was written in the middle of an epoch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.parity.data import EPOCHS, Loading, network, sgd
from benchmarks.parity.library import Library, Parameters, parameters


class Resuming:
    """A script that is stopped in its second epoch, and continued by a new start.

    Args:
        loading: makes its loader.
        settings: more for ``DataLoaderConfiguration``, by library.
    """

    def __init__(self, loading: Loading, **settings: dict[str, Any]) -> None:
        self._loading = loading
        self._settings = settings

    def stopped(self, library: Library) -> Parameters:
        """Stopped and continued."""
        state = str(library.folder / "checkpoint")
        accelerator, model, optimizer, loader = self._start(library)
        for epoch in (0, 1):
            loader.set_epoch(epoch)
            for index, batch in enumerate(loader):
                self._step(accelerator, model, optimizer, batch)
                if (epoch, index) == (1, 2):
                    accelerator.save_state(state)
                    break
        accelerator.free_memory()
        library.forget()
        accelerator, model, optimizer, loader = self._start(library)
        accelerator.load_state(state)
        for epoch in range(1, EPOCHS):
            loader.set_epoch(epoch)
            for batch in accelerator.skip_first_batches(loader, 3) if epoch == 1 else loader:
                self._step(accelerator, model, optimizer, batch)
        return parameters(accelerator.unwrap_model(model))

    def on_its_own(self, library: Library) -> Parameters:
        """What the stop makes of the parameters, next to the same library's run without one."""
        stopped = self.stopped(library)
        library.forget()
        accelerator, model, optimizer, loader = self._start(library)
        for epoch in range(EPOCHS):
            loader.set_epoch(epoch)
            for batch in loader:
                self._step(accelerator, model, optimizer, batch)
        whole = parameters(accelerator.unwrap_model(model))
        return [one - other for one, other in zip(stopped, whole, strict=True)]

    def _start(self, library: Library) -> tuple[Any, ...]:
        accelerator = library.accelerator(self._settings.get(library.name))
        model = network()
        return accelerator, *accelerator.prepare(model, sgd(model), self._loading())

    def _step(self, accelerator: Any, model: Any, optimizer: Any, batch: tuple[Tensor, Tensor]) -> None:
        x, y = batch
        optimizer.zero_grad()
        accelerator.backward(F.cross_entropy(model(x), y))
        optimizer.step()


def nothing() -> Parameters:
    """No difference in any parameter."""
    return [torch.zeros_like(parameter) for parameter in parameters(network())]
