"""What an Accelerator has prepared, in order, without keeping it alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import ref

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

    from accelift.data.loader import PreparedLoader

T = TypeVar("T")


class Living(Generic[T]):
    """Objects in the order in which they were added, as long as somebody else holds them."""

    def __init__(self) -> None:
        self._references: list[ref[Any]] = []

    def add(self, item: T) -> None:
        """Add an object, unless it is there already."""
        if not any(reference() is item for reference in self._references):
            self._references = [reference for reference in self._references if reference() is not None]
            self._references.append(ref(item))

    def all(self) -> list[T]:
        """Those that are still alive."""
        living = []
        for reference in self._references:  # in every step: a loop is what costs least
            item = reference()
            if item is not None:
                living.append(item)
        return living

    def clear(self) -> None:
        """Forget all of them."""
        self._references.clear()


class Registry:
    """The models, optimizers, schedulers and loaders that an Accelerator has prepared.

    What is in it stays with this process: a copy, for instance in a worker of a DataLoader whose
    dataset knows the Accelerator, is empty.

    Attributes:
        streams: whether there was a loader over an ``IterableDataset``.
    """

    def __init__(self) -> None:
        self.streams = False
        self.models: Living[nn.Module] = Living()
        self.optimizers: Living[Optimizer] = Living()
        self.schedulers: Living[LRScheduler] = Living()
        self.loaders: Living[PreparedLoader] = Living()

    def __reduce__(self) -> Any:
        return Registry, ()

    def clear(self) -> None:
        """Forget everything."""
        self.streams = False
        for kind in (self.models, self.optimizers, self.schedulers, self.loaders):
            kind.clear()
