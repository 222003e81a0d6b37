"""Seeds, and drawing the same random numbers on every process where one process draws once."""

from __future__ import annotations

import ctypes
import operator
import pickle
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from accelift.state import PartialState

# Room for the states of torch (5 kB each), python (3 kB) and numpy (3 kB) generators.  A fixed
# size lets one broadcast carry them.
_CAPACITY = 1 << 16


def set_seed(seed: int, device_specific: bool = False, deterministic: bool = False) -> None:
    """Seed the generators of python, numpy (if installed) and torch on all devices.

    Args:
        seed: the seed.
        device_specific: add the process's index, so that noise differs between processes.
        deterministic: also let torch use deterministic algorithms only.

    Raises:
        TypeError: if the seed is not a whole number.
    """
    try:
        seed = operator.index(seed)
    except TypeError:
        raise TypeError(f"set_seed({seed!r}) is not possible: a seed is a whole number.") from None
    if device_specific:
        seed += PartialState().process_index
    random.seed(seed)
    try:
        import numpy
    except ImportError:
        pass
    else:
        numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    if deterministic:
        torch.use_deterministic_algorithms(True)


@contextmanager
def drawn_as_on_main_process(generators: Sequence[torch.Generator]) -> Iterator[None]:
    """Draw, in the block, what the main process draws.  A collective operation.

    The global generators of torch, python and numpy (if in use) and the given ones start the block
    in the main process's state.  A global generator that was in that state anyway keeps what the
    block made of it, so that processes in step stay in step; one that was not gets its own state
    back, moved on as if it had drawn once.  The given generators belong to the sampler alone: they
    stay in step with the main process's from here on.
    """
    state = PartialState()
    ours = _snapshot(generators)
    theirs = _of_main_process(ours, state)
    _restore(theirs, generators)
    try:
        yield
    finally:
        shared = {"torch", "python", "numpy"} & ours.keys() & theirs.keys()
        own = {name: ours[name] for name in shared if ours[name] != theirs[name]}
        _restore(own, ())
        if "torch" in own:
            torch.empty((), dtype=torch.int64).random_()


def _snapshot(generators: Sequence[torch.Generator]) -> dict[str, Any]:
    """The states of all generators, in types that compare and pickle well."""
    found: dict[str, Any] = {"torch": _state_of(torch.default_generator)}
    found["python"] = random.getstate()
    if "numpy.random" in sys.modules:
        state = sys.modules["numpy.random"].get_state()
        if isinstance(state, tuple):  # a generator of another kind than numpy's own gives a dict
            kind, keys, *rest = state
            found["numpy"] = (kind, keys.tobytes(), *rest)
    for index, generator in enumerate(generators):
        found[f"generator {index}"] = _state_of(generator)
    return found


def _restore(states: dict[str, Any], generators: Sequence[torch.Generator]) -> None:
    if "torch" in states:
        _set_state_of(torch.default_generator, states["torch"])
    if "python" in states:
        random.setstate(states["python"])
    if "numpy" in states and "numpy.random" in sys.modules:
        kind, keys, *rest = states["numpy"]
        words = sys.modules["numpy"].frombuffer(keys, dtype="uint32")
        sys.modules["numpy.random"].set_state((kind, words, *rest))
    for index, generator in enumerate(generators):
        _set_state_of(generator, states[f"generator {index}"])


def _state_of(generator: torch.Generator) -> bytes:
    return _bytes_of(generator.get_state())


def _bytes_of(tensor: torch.Tensor) -> bytes:
    """The content of a contiguous tensor on the CPU."""
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes)


def _set_state_of(generator: torch.Generator, state: bytes) -> None:
    generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _of_main_process(ours: dict[str, Any], state: PartialState) -> dict[str, Any]:
    parcel = torch.zeros(_CAPACITY, dtype=torch.uint8)
    if state.is_main_process:
        content = bytearray(pickle.dumps(ours))
        parcel[: len(content)] = torch.frombuffer(content, dtype=torch.uint8)
    parcel = parcel.to(state.collective_device)
    dist.broadcast(parcel, 0)
    theirs: dict[str, Any] = pickle.loads(_bytes_of(parcel.cpu()))  # ignores what follows
    return theirs
