"""The states of random number generators: found, taken, restored, and told apart.

A *snapshot* is a dict of plain values that compare: bytes, numbers, words, and tuples, lists and dicts of these.
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

Snapshot = dict[str, Any]

GLOBAL = ("torch", "python", "numpy")


class Epochs:
    """A seed that is another one in each epoch; its state is what a generator's is.

    Attributes:
        seed: that of epoch 0.
        epoch: the number of the next epoch.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.epoch = 0

    def next(self) -> int:
        """The seed of the next epoch."""
        self.epoch += 1
        return self.seed + self.epoch - 1


def generators_of(*owners: Any) -> list[Any]:
    """The generators of torch, python and numpy that objects have as attributes or are themselves, each once."""
    found: dict[int, Any] = {}
    for owner in owners:
        for item in (owner, *getattr(owner, "__dict__", {}).values()):
            if _is_generator(item):
                found[id(item)] = item
    return list(found.values())


def snapshot(generators: Sequence[Any] = ()) -> Snapshot:
    """The states of the global generators of torch (on the CPU), python and numpy (if in use), and of given ones."""
    found: Snapshot = {"torch": _state_of(torch.default_generator), "python": random.getstate()}
    if "numpy.random" in sys.modules:
        state = sys.modules["numpy.random"].get_state()
        if isinstance(state, tuple):  # a generator of another kind than numpy's own gives a dict
            kind, keys, *rest = state
            found["numpy"] = (kind, keys.tobytes(), *rest)
    if generators:
        found["own"] = [_state_of(generator) for generator in generators]
    return found


def restore(states: Snapshot, generators: Sequence[Any] = ()) -> None:
    """Set the global generators and the given ones to the states that are in a snapshot."""
    if "torch" in states:
        _set_state_of(torch.default_generator, states["torch"])
    if "python" in states:
        random.setstate(states["python"])
    if "numpy" in states and "numpy.random" in sys.modules:
        kind, keys, *rest = states["numpy"]
        words = sys.modules["numpy"].frombuffer(keys, dtype="uint32")
        sys.modules["numpy.random"].set_state((kind, words, *rest))
    for generator, state in zip(generators, states.get("own", ()), strict=False):
        _set_state_of(generator, state)


@contextmanager
def undone(generators: Sequence[Any] = ()) -> Iterator[None]:
    """A context after which the global generators and the given ones are in the state they were in before."""
    before = snapshot(generators)
    try:
        yield
    finally:
        restore(before, generators)


def to_tensors(value: Any) -> Any:
    """A snapshot as what ``torch.load(weights_only=True)`` reads: tensors instead of bytes, lists instead of tuples."""
    if isinstance(value, bytes):
        return torch.frombuffer(bytearray(value), dtype=torch.uint8)
    if isinstance(value, dict):
        return {key: to_tensors(item) for key, item in value.items()}
    return [to_tensors(item) for item in value] if isinstance(value, (tuple, list)) else value


def from_tensors(value: Any) -> Any:
    """The snapshot that :func:`to_tensors` was given."""
    if isinstance(value, torch.Tensor):
        return bytes_of(value)
    if isinstance(value, dict):
        return {key: from_tensors(item) for key, item in value.items()}
    return tuple(from_tensors(item) for item in value) if isinstance(value, list) else value


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The content of a contiguous tensor on the CPU."""
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes)


def _is_generator(item: Any) -> bool:
    if isinstance(item, random.Random):
        return not isinstance(item, random.SystemRandom)  # which has no state
    return isinstance(item, (torch.Generator, Epochs)) or _is_numpys(item)


def _is_numpys(item: Any) -> bool:
    numpy = sys.modules.get("numpy.random")
    return numpy is not None and isinstance(item, (numpy.Generator, numpy.RandomState))


def _state_of(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, Epochs):
        return (generator.seed, generator.epoch)
    if _is_numpys(generator):
        bits = getattr(generator, "bit_generator", None) or generator._bit_generator
        return _without_arrays(bits.state)
    return bytes_of(generator.get_state())


def _set_state_of(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, Epochs):
        generator.seed, generator.epoch = state
    elif _is_numpys(generator):
        bits = getattr(generator, "bit_generator", None) or generator._bit_generator
        bits.state = _with_arrays(state)
    else:
        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _without_arrays(state: Any) -> Any:
    """The state of a bit generator of numpy, a nested dict, with the type and the bytes of each array."""
    if isinstance(state, dict):
        return {key: _without_arrays(item) for key, item in state.items()}
    return {"dtype": str(state.dtype), "bytes": state.tobytes()} if hasattr(state, "tobytes") else state


def _with_arrays(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    if state.keys() == {"dtype", "bytes"}:
        return sys.modules["numpy"].frombuffer(state["bytes"], dtype=state["dtype"])
    return {key: _with_arrays(item) for key, item in state.items()}
