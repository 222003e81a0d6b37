"""Running a block on some processes first, and a function on some of them only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import torch
import torch.distributed as dist

from accelift.collective import Collective

if TYPE_CHECKING:
    from accelift.state import PartialState

P = ParamSpec("P")
R = TypeVar("R")


def only_if(here: bool, function: Callable[P, R]) -> Callable[P, R | None]:
    """The function, which does nothing and returns ``None`` if not ``here``."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        return function(*args, **kwargs) if here else None

    return guarded


@contextmanager
def first(state: PartialState, verb: str, goes_first: bool) -> Iterator[None]:
    """Run the block on the processes that go first, then on the others.

    Raises:
        RuntimeError: on the others, naming ``verb``, if the block failed where it ran first.
    """
    if not state.use_distributed:
        yield
        return

    def agree(succeeded: bool) -> None:
        """A barrier that also tells whether the block went well where it ran first."""
        outcome = torch.tensor(int(succeeded), device=state.collective_device)
        with Collective(verb, state):
            dist.all_reduce(outcome, dist.ReduceOp.MIN)
        if succeeded and not outcome.item():
            raise RuntimeError(f"{verb}: the process that went first failed in the block.")

    if not goes_first:
        agree(True)
    try:
        yield
    except Exception:
        if goes_first:
            agree(False)
        raise
    if goes_first:
        agree(True)
