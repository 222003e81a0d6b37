"""Doing without chance: training steps that compute the same, whichever part of a batch a process has."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, rand, randint, randn, randperm  # as they are before they are replaced
from torch.utils.data import DistributedSampler, RandomSampler
from torch.utils.data._utils import fetch as torchs

_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_IN_PLACE = tuple("normal_ uniform_ exponential_ bernoulli_ random_ log_normal_ cauchy_ geometric_".split())
_NUMPY_NOISE = {  # where their size is among the arguments
    **dict.fromkeys(("randn", "rand", "random", "random_sample", "standard_normal"), 0),
    **dict.fromkeys(("choice", "exponential", "poisson"), 1),
    **dict.fromkeys(("normal", "uniform", "randint", "binomial", "beta"), 2),
}


class Frozen:
    """Takes chance out of training steps, as far as its numbers go with the samples.

    Dropout passes everything, noise is the same for every sample, permutations change nothing; what a data set draws
    for a sample depends on its index alone.

    Args:
        steps: tells whether a training step is under way.
        ordered: let what is shuffled come in an order that depends on its number and the epoch alone.
    """

    def __init__(self, steps: Callable[[], bool], ordered: bool = False) -> None:
        self._steps = steps
        self._ordered = ordered
        self._calls = 0
        self._fetching = False

    def begin(self) -> None:
        """A step begins.  The first noise of every step is the same, and so on."""
        self._calls = 0

    def install(self) -> None:
        """Begin to freeze."""
        for name in _DROPOUTS:
            setattr(F, name, lambda input, *args, **kwargs: input)
        self._freeze_attention()
        recurrent: Any = torch.nn.RNNBase
        recurrent.dropout = property(lambda module: 0.0, lambda module, value: None)
        self._replace(torch, "randn", self._sized(randn))
        self._replace(torch, "rand", self._sized(rand))
        self._replace(torch, "randn_like", self._like(randn))
        self._replace(torch, "rand_like", self._like(rand))
        self._replace(torch, "randint", self._integers)
        self._replace(torch, "randint_like", self._integers_like)
        self._replace(torch, "randperm", _in_order(torch.randperm))
        self._replace(torch, "normal", self._normal)
        self._replace(torch, "bernoulli", self._bernoulli)
        for name in _IN_PLACE:
            self._replace(Tensor, name, self._in_place(name))
        self._freeze_numpy()
        self._freeze_samples()
        if self._ordered:
            _order_samples()

    def _freeze_attention(self) -> None:
        attention = F.scaled_dot_product_attention

        def without_dropout(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            args = (*args[:1], 0.0, *args[2:]) if len(args) > 1 else args
            return attention(query, key, value, *args, **{**kwargs, **({} if len(args) > 1 else {"dropout_p": 0.0})})

        F.scaled_dot_product_attention = without_dropout

    def _replace(self, module: Any, name: str, frozen: Callable[..., Any]) -> None:
        draw = getattr(module, name)

        def either(*args: Any, **kwargs: Any) -> Any:
            return frozen(*args, **kwargs) if self._steps() and not self._fetching else draw(*args, **kwargs)

        setattr(module, name, either)

    def _next(self) -> torch.Generator:
        self._calls += 1
        return torch.Generator().manual_seed(self._calls)

    # ---- torch

    def _rows(self, draw: Callable[..., Tensor], like: Tensor) -> Tensor:
        """The same noise for each row of a tensor."""
        return draw(_row(like.shape), generator=self._next()).to(like.device, like.dtype).expand(like.shape).clone()

    def _sized(self, draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def frozen(*size: Any, **kwargs: Any) -> Tensor:
            shape = tuple(size[0]) if size and not isinstance(size[0], int) else size or tuple(kwargs.pop("size"))
            return self._made(draw, (), shape, kwargs)

        return frozen

    def _integers(self, *args: Any, **kwargs: Any) -> Tensor:
        bounds = [arg for arg in args if isinstance(arg, int)]
        bounds += [kwargs.pop(name) for name in ("low", "high") if name in kwargs]
        shape = kwargs.pop("size", None) or next(arg for arg in args if not isinstance(arg, int))
        return self._made(randint, (*([0] if len(bounds) == 1 else []), *bounds), tuple(shape), kwargs)

    def _integers_like(self, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        bounds = {name: kwargs.pop(name) for name in ("low", "high") if name in kwargs}
        return self._integers(*args, tuple(input.shape), **bounds).to(kwargs.get("device") or input.device, input.dtype)

    def _made(
        self, draw: Callable[..., Tensor], before: tuple[Any, ...], shape: tuple[int, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        made = draw(*before, _row(shape), generator=self._next()).expand(shape).clone()
        made = made.to(kwargs.get("device") or torch.get_default_device(), kwargs.get("dtype") or made.dtype)
        return made.requires_grad_() if kwargs.get("requires_grad") else made

    def _like(self, draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def frozen(input: Tensor, **kwargs: Any) -> Tensor:
            return self._rows(draw, input).to(kwargs.get("device"), kwargs.get("dtype"))

        return frozen

    def _bernoulli(self, input: Tensor, **kwargs: Any) -> Tensor:
        return (self._rows(rand, input) < input).to(input.dtype)

    def _normal(self, mean: Any, std: Any = 1.0, size: Any = None, **kwargs: Any) -> Tensor:
        if size is not None:
            noise = self._made(randn, (), tuple(size), kwargs)
        else:
            noise = self._rows(randn, mean + std)
        made: Tensor = noise * std + mean
        return made

    def _in_place(self, name: str) -> Callable[..., Tensor]:
        draw = getattr(torch.Tensor, name)

        def frozen(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            kwargs.pop("generator", None)
            likely = args[0] if args else kwargs.get("p")
            if name == "bernoulli_" and isinstance(likely, Tensor):
                row = self._rows(rand, tensor.float()) < likely
            else:
                empty = torch.empty(_row(tensor.shape), dtype=tensor.dtype)
                row = draw(empty, *args, generator=self._next(), **kwargs).expand(tensor.shape)
            return tensor.copy_(row)

        return frozen

    # ---- numpy

    def _freeze_numpy(self) -> None:
        try:
            import numpy
        except ImportError:
            return
        for name, position in _NUMPY_NOISE.items():
            self._replace(numpy.random, name, self._numpy_noise(name, position))

    def _numpy_noise(self, name: str, position: int) -> Callable[..., Any]:
        import numpy

        def frozen(*args: Any, **kwargs: Any) -> Any:
            by_size = name not in ("randn", "rand")
            size = kwargs.pop("size", args[position] if len(args) > position else None) if by_size else args
            shape = (size,) if isinstance(size, int) else tuple(size or ())
            parameters = args[:position] if by_size else ()
            own: Any = numpy.random.RandomState(self._next().initial_seed() % 2**32)
            row = _row(shape)
            drawn = getattr(own, name)
            made = drawn(*parameters, size=row or None, **kwargs) if by_size else drawn(*row)
            return numpy.broadcast_to(made, shape).copy() if shape else made

        return frozen

    # ---- samples

    def _freeze_samples(self) -> None:
        fetcher: Any = torchs._MapDatasetFetcher
        fetch = fetcher.fetch

        def frozen(fetching: Any, possibly_batched_index: Any) -> Any:
            if not isinstance(fetching.dataset, _Samples):
                fetching.dataset = _Samples(fetching.dataset)
            with _kept_state():
                self._fetching = True
                try:
                    return fetch(fetching, possibly_batched_index)
                finally:
                    self._fetching = False

        fetcher.fetch = frozen


def _row(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what each sample has; in hidden states, `(layers, samples, features)`, samples come second."""
    samples = 2 if len(shape) == 3 else min(len(shape), 1)
    return (*[1] * samples, *shape[samples:])


def _in_order(draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def frozen(n: int, **kwargs: Any) -> Tensor:
        if kwargs.get("generator") is not None:  # a sampler's
            return draw(n, **kwargs)
        return torch.arange(n, dtype=kwargs.get("dtype") or torch.int64, device=kwargs.get("device"))

    return frozen


class _Samples:
    """A data set that draws for each sample what depends on its index."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __getitem__(self, index: Any) -> Any:
        seed = int(index) if isinstance(index, int) or getattr(index, "ndim", 1) == 0 else 0
        torch.manual_seed(seed)
        random.seed(seed)
        if (numpy := sys.modules.get("numpy.random")) is not None:
            numpy.seed(seed % 2**32)
        return self._dataset[index]


@contextmanager
def _kept_state() -> Iterator[None]:
    """Leave the global generators as they were before the block."""
    numpy = sys.modules.get("numpy.random")
    states = torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        if numpy is not None:
            numpy.set_state(states[2])


def _order_samples() -> None:
    passes: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
    shuffle, deal = RandomSampler.__iter__, DistributedSampler.__iter__

    def in_order(self: RandomSampler) -> Iterator[int]:
        passes[self] = epoch = passes.get(self, -1) + 1
        if self.replacement or self.num_samples != len(self.data_source):
            yield from shuffle(self)
        else:
            yield from _permutation(len(self.data_source), epoch).tolist()

    def dealt_in_order(self: DistributedSampler[Any]) -> Iterator[Any]:
        drawn = torch.randperm
        torch.randperm = lambda n, **kwargs: _permutation(n, self.epoch)
        try:
            return deal(self)
        finally:
            torch.randperm = drawn

    RandomSampler.__iter__ = in_order  # type: ignore[method-assign]
    DistributedSampler.__iter__ = dealt_in_order  # type: ignore[method-assign]


def _permutation(count: int, epoch: int) -> Tensor:
    return randperm(count, generator=torch.Generator().manual_seed(epoch))
