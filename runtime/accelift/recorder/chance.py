"""Seeds and random numbers: making runs comparable, and noticing what makes them not."""

from __future__ import annotations

import gc
import random
import sys
import zlib
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, rand  # as it is before it is frozen

from accelift.random import set_seed
from accelift.recorder.events import Events
from accelift.recorder.frozen import Frozen
from accelift.recorder.values import checksum


class Chance:
    """Seeds a run, and watches its training steps for random numbers and for statistics of the batch.

    A training step reaches from the moment that a batch was dealt to backward.

    Args:
        events: where to note what is found.
        frozen: do without: batch normalization uses its running statistics, losses are not scaled; for the rest see
            :class:`~accelift.recorder.frozen.Frozen`.
        ordered: see there.
        disturbance: before the first batch and after each optimizer step, multiply the parameters by
            ``1 + disturbance * r * eps`` with ``r`` between -1 and 1.  Rounding does no less, so what comes of it
            is what no other order of the same sums could avoid.
    """

    def __init__(self, events: Events, frozen: bool = False, ordered: bool = False, disturbance: float = 0.0) -> None:
        self._events = events
        self._frozen = Frozen(lambda: self._at_batch is not None, ordered) if frozen else None
        self._disturbance = disturbance
        self._own = torch.Generator().manual_seed(1)
        self._at_batch: int | None = None
        self._disturbed = False
        self.trains = False

    def install(self, seed: int) -> None:
        """Seed everything, ask for deterministic algorithms, and begin to watch."""
        set_seed(seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        self._without_benchmarks()
        torch.set_num_threads(1)
        self._watch_batch_norm()
        self._watch_autocast()
        self._watch_scaler()
        if self._frozen is not None:
            self._frozen.install()

    def inside(self) -> None:
        """A batch was dealt."""
        if self._disturbance and not self._disturbed:
            self._disturbed = True
            modules = [item for item in gc.get_objects() if issubclass(type(item), torch.nn.Module)]
            self.disturb({id(one): one for module in modules for one in module.parameters()}.values())
        self._at_batch = _state()
        if self._frozen is not None:
            self._frozen.begin()

    def outside(self) -> None:
        """The next batch is being fetched, or a pass ends or begins."""
        self._at_batch = None
        self.trains = False

    def before_backward(self) -> None:
        """A loss is complete."""
        self.trains = True
        if self._at_batch is not None and self._at_batch != _state():
            self._events.put_once("draws", place=self._events.place())

    def disturb(self, parameters: Iterable[Tensor]) -> None:
        """Move parameters by about as much as rounding does."""
        if self._disturbance:
            with torch.no_grad():
                for parameter in parameters:
                    if parameter.is_floating_point():
                        by = rand(parameter.shape, generator=self._own, dtype=parameter.dtype) * 2 - 1
                        scale = torch.finfo(parameter.dtype).eps * self._disturbance
                        parameter.mul_(1 + by.to(parameter.device) * scale)

    def _without_benchmarks(self) -> None:
        """Let cuDNN take the same algorithms in each run: which are the fastest is measured, and differs."""
        torch.backends.cudnn.benchmark = False
        never = property(lambda _: False, lambda _, value: None)  # scripts like to set it themselves
        setattr(type(torch.backends.cudnn), "benchmark", never)  # noqa: B010 - mypy knows of no such attribute

    def _watch_batch_norm(self) -> None:
        normalize = F.batch_norm

        def batch_norm(*args: Any, **kwargs: Any) -> Tensor:
            names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            if given.get("training"):
                self._events.put_once("normalizes", place=self._events.place())
                if self._frozen is not None and given.get("running_mean") is not None:
                    given["training"] = False
            return normalize(**given)

        F.batch_norm = batch_norm

    def _watch_autocast(self) -> None:
        enter: Any = torch.autocast.__enter__
        chance = self

        def __enter__(self: Any) -> Any:
            if self._enabled:
                dtype = str(self.fast_dtype).removeprefix("torch.")
                chance._events.put_once("autocast", dtype, dtype=dtype, place=chance._events.place())
            return enter(self)

        torch.autocast.__enter__ = __enter__  # type: ignore[method-assign]

    def _watch_scaler(self) -> None:
        make: Any = torch.amp.GradScaler.__init__
        chance = self

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            make(self, *args, **kwargs)
            if self._enabled:
                chance._events.put_once("scales", place=chance._events.place())
                if chance._frozen is not None:
                    self._init_scale, self._growth_interval = 1.0, sys.maxsize

        torch.amp.GradScaler.__init__ = __init__  # type: ignore[method-assign]


def _state() -> int:
    """A checksum of the global random generators."""
    found = checksum(torch.default_generator.get_state())
    found = zlib.crc32(repr(random.getstate()[1][-1:]).encode(), found)
    module = sys.modules.get("numpy.random")
    if module is not None:
        state = module.get_state()
        if isinstance(state, tuple):
            found = zlib.crc32(state[1].tobytes(), zlib.crc32(repr(state[2:]).encode(), found))
    return found
