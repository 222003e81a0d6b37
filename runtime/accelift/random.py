"""Seeds, and drawing the same random numbers on every process where one process draws once."""

from __future__ import annotations

import operator
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from accelift.collective import Collective
from accelift.dataclasses import RNGType
from accelift.generators import GLOBAL, Snapshot, bytes_of, restore, snapshot
from accelift.operations import broadcast
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


def synchronize_rng_state(rng_type: RNGType | str = RNGType.TORCH, generator: torch.Generator | None = None) -> None:
    """Put a generator of every process into the state of the main process's.  A collective operation.

    Args:
        rng_type: which one: torch's on the CPU, torch's on this process's device of a kind, or
            ``"generator"`` for the given one.
        generator: goes with ``"generator"``.

    Raises:
        ValueError: for another word, a device that this process does not have, or no generator.
    """
    get, put = _accessors(rng_type, generator)
    if PartialState().use_distributed:
        put(broadcast(get()))


def synchronize_rng_states(rng_types: Sequence[RNGType | str], generator: torch.Generator | None = None) -> None:
    """Call :func:`synchronize_rng_state` for each of several kinds."""
    for rng_type in rng_types:
        synchronize_rng_state(rng_type, generator)


def _accessors(
    rng_type: RNGType | str, generator: torch.Generator | None
) -> tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], Any]]:
    """What gets and what puts the state of a generator."""
    if rng_type not in RNGType.list():
        raise ValueError(f"there is no rng_type {rng_type!r}; choose one of {', '.join(RNGType.list())}.")
    kind = RNGType(rng_type)
    if kind is RNGType.TORCH:
        return torch.get_rng_state, torch.set_rng_state
    if kind is RNGType.GENERATOR:
        if generator is None:
            raise ValueError("the rng_type 'generator' needs one: synchronize_rng_state('generator', generator).")
        return generator.get_state, generator.set_state
    module: Any = getattr(torch, kind, None)
    if module is None or not module.is_available():
        raise ValueError(f"the rng_type {str(kind)!r} is not possible: torch finds no such device here.")
    return module.get_rng_state, module.set_rng_state


@contextmanager
def drawn_as_on_main_process(generators: Sequence[Any]) -> Iterator[None]:
    """Draw, in the block, what the main process draws.  A collective operation.

    The global generators of torch, python and numpy (if in use) and the given ones start the block
    in the main process's state.  A global generator that was in that state anyway keeps what the
    block made of it, so that processes in step stay in step; one that was not gets its own state
    back, moved on as if it had drawn once.  The given generators belong to the sampler alone: they
    stay in step with the main process's from here on.
    """
    state = PartialState()
    ours = snapshot(generators)
    theirs = _of_main_process(ours, state)
    restore(theirs, generators)
    try:
        yield
    finally:
        shared = set(GLOBAL) & ours.keys() & theirs.keys()
        own = {name: ours[name] for name in shared if ours[name] != theirs[name]}
        restore(own, ())
        if "torch" in own:
            torch.empty((), dtype=torch.int64).random_()


def _of_main_process(ours: Snapshot, state: PartialState) -> Snapshot:
    parcel = torch.zeros(_CAPACITY, dtype=torch.uint8)
    if state.is_main_process:
        content = bytearray(pickle.dumps(ours))
        parcel[: len(content)] = torch.frombuffer(content, dtype=torch.uint8)
    parcel = parcel.to(state.collective_device)
    with Collective("the loop over a prepared loader", state):
        dist.broadcast(parcel, 0)
    theirs: Snapshot = pickle.loads(bytes_of(parcel.cpu()))  # ignores what follows
    return theirs
