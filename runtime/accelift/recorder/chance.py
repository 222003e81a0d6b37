"""Seeds and random numbers: making runs comparable, and noticing what makes them not."""

from __future__ import annotations

import gc
import random
import sys
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from accelift.random import set_seed
from accelift.recorder.events import Events
from accelift.recorder.values import checksum

_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_NOISE = ("randn", "rand")
_NOISE_LIKE = ("randn_like", "rand_like")
_NUMPY_NOISE = {"randn": 0, "rand": 0, "normal": 2, "uniform": 2, "standard_normal": 0, "random": 0, "random_sample": 0}


class Chance:
    """Seeds a run, and watches its training steps for random numbers and for statistics of the batch.

    A training step reaches from the moment that a batch was dealt to backward.

    Args:
        events: where to note what is found.
        frozen: do without: dropout passes everything, batch normalization uses its running statistics, and noise is the
            same for every sample.
        disturbance: before the first batch and after each optimizer step, multiply the parameters by
            ``1 + disturbance * r * eps`` with ``r`` between -1 and 1.  Rounding does no less, so what comes of it
            is what no other order of the same sums could avoid.
    """

    def __init__(self, events: Events, frozen: bool = False, disturbance: float = 0.0) -> None:
        self._events = events
        self._frozen = frozen
        self._disturbance = disturbance
        self._own = torch.Generator().manual_seed(1)
        self._at_batch: int | None = None
        self._calls = 0
        self._disturbed = False
        self.trains = False

    def install(self, seed: int) -> None:
        """Seed everything, ask for deterministic algorithms, and begin to watch."""
        set_seed(seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
        torch.set_num_threads(1)
        self._watch_batch_norm()
        self._watch_autocast()
        if self._frozen:
            self._freeze()

    def inside(self) -> None:
        """A batch was dealt."""
        if self._disturbance and not self._disturbed:
            self._disturbed = True
            modules = [item for item in gc.get_objects() if issubclass(type(item), torch.nn.Module)]
            self.disturb({id(one): one for module in modules for one in module.parameters()}.values())
        self._at_batch = _state()
        self._calls = 0

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
                        by = torch.rand(parameter.shape, generator=self._own, dtype=parameter.dtype) * 2 - 1
                        scale = torch.finfo(parameter.dtype).eps * self._disturbance
                        parameter.mul_(1 + by.to(parameter.device) * scale)

    def _watch_batch_norm(self) -> None:
        normalize = F.batch_norm

        def batch_norm(*args: Any, **kwargs: Any) -> Tensor:
            names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            if given.get("training"):
                self._events.put_once("normalizes", place=self._events.place())
                if self._frozen and given.get("running_mean") is not None:
                    given["training"] = False
            return normalize(**given)

        F.batch_norm = batch_norm

    def _watch_autocast(self) -> None:
        enter = torch.autocast.__enter__
        chance = self

        def __enter__(self: Any) -> Any:
            if self._enabled:
                dtype = str(self.fast_dtype).removeprefix("torch.")
                chance._events.put_once("autocast", dtype, dtype=dtype, place=chance._events.place())
            return enter(self)

        torch.autocast.__enter__ = __enter__  # type: ignore[method-assign]

    def _freeze(self) -> None:
        for name in _DROPOUTS:
            setattr(F, name, lambda input, *args, **kwargs: input)
        attention = F.scaled_dot_product_attention

        def without_dropout(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            args = (*args[:1], 0.0, *args[2:]) if len(args) > 1 else args
            return attention(query, key, value, *args, **{**kwargs, **({} if len(args) > 1 else {"dropout_p": 0.0})})

        F.scaled_dot_product_attention = without_dropout
        for name in _NOISE:
            self._replace(torch, name, self._torch_noise(getattr(torch, name)))
        for name in _NOISE_LIKE:
            self._replace(torch, name, self._torch_noise_like(getattr(torch, name)))
        numpy = sys.modules.get("numpy")
        if numpy is None:
            try:
                import numpy
            except ImportError:
                return
        for name, position in _NUMPY_NOISE.items():
            draw = getattr(numpy.random, name)  # type: ignore[union-attr]
            self._replace(numpy.random, name, self._numpy_noise(draw, name, position))  # type: ignore[union-attr]

    def _replace(self, module: Any, name: str, frozen: Callable[..., Any]) -> None:
        draw = getattr(module, name)

        def either(*args: Any, **kwargs: Any) -> Any:
            return draw(*args, **kwargs) if self._at_batch is None else frozen(*args, **kwargs)

        setattr(module, name, either)

    def _torch_noise(self, draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def frozen(*size: Any, **kwargs: Any) -> Tensor:
            shape = tuple(size[0]) if size and not isinstance(size[0], int) else size or tuple(kwargs.pop("size"))
            kwargs.pop("generator", None)
            row = draw(1, *shape[1:], generator=self._next())
            made = row.expand(*shape).clone().to(kwargs.get("device") or torch.get_default_device())
            made = made.to(kwargs["dtype"]) if kwargs.get("dtype") else made
            return made.requires_grad_(kwargs.get("requires_grad", False))

        return frozen

    def _torch_noise_like(self, draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
        plain = {"randn_like": torch.randn, "rand_like": torch.rand}[draw.__name__]

        def frozen(input: Tensor, **kwargs: Any) -> Tensor:
            row = plain(1, *input.shape[1:], generator=self._next())
            return (
                row.expand_as(input)
                .to(kwargs.get("device") or input.device, kwargs.get("dtype") or input.dtype)
                .clone()
            )

        return frozen

    def _numpy_noise(self, draw: Callable[..., Any], name: str, position: int) -> Callable[..., Any]:
        import numpy

        def frozen(*args: Any, **kwargs: Any) -> Any:
            by_size = name not in ("randn", "rand")
            size = kwargs.pop("size", args[position] if len(args) > position else None) if by_size else args
            shape = (size,) if isinstance(size, int) else tuple(size or ())
            parameters = args[:position] if by_size else ()
            own: Any = numpy.random.RandomState(self._next().initial_seed() % 2**32)
            row = (1, *shape[1:])
            made = getattr(own, name)(*parameters, size=row, **kwargs) if by_size else getattr(own, name)(*row)
            return numpy.broadcast_to(made, shape).copy() if shape else made.reshape(())[()]

        return frozen

    def _next(self) -> torch.Generator:
        """A generator for the next noise of this step: the first of every step is the same, and so on."""
        self._calls += 1
        return torch.Generator().manual_seed(self._calls)


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
