"""One process: the model as it is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from accelift.state import PartialState


class SingleProcess:
    """Leaves models alone."""

    def wrap(self, model: nn.Module, state: PartialState) -> nn.Module:
        """The model itself."""
        return model

    def no_sync(self, model: nn.Module) -> AbstractContextManager[Any]:
        """A context without effect."""
        return nullcontext()

    def trigger_sync(self, model: nn.Module) -> AbstractContextManager[None]:
        """A context without effect."""
        return nullcontext()

    def backward(self, loss: Tensor, optimizers: Sequence[Optimizer] | None = None, **kwargs: Any) -> None:
        """``loss.backward``."""
        loss.backward(**kwargs)  # type: ignore[no-untyped-call]

    def cover(self, optimizer: Optimizer) -> None:
        """Nothing to do."""

    def unwrap(self, model: nn.Module) -> nn.Module:
        """The model itself, or the one in a wrapper of torch's that the script made."""
        if isinstance(model, (nn.DataParallel, DistributedDataParallel)):
            inner: nn.Module = model.module
            return inner
        return model
