"""Comparing what the processes are about to do, before they do it.

They compare notes in the store, not through the backend: two processes that enter *different*
collective operations would hang there, or be given each other's data.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch.distributed import Store  # type: ignore[attr-defined]

from accelift.collective import DistributedOperationException
from accelift.diagnosis.frames import call_site
from accelift.peers import Board, Lost, Pause, timeout

if TYPE_CHECKING:
    from accelift.state import PartialState

_LOOK_FOR_THE_DEAD = 1.0  # seconds


class Agreement:
    """The exchange of notes, one for each time that all processes come to the same point.

    Args:
        state: the processes.
    """

    def __init__(self, state: PartialState) -> None:
        self._rank = state.process_index
        self._world = state.num_processes
        self._board = Board("agreement")
        self._farewells = Board("watchdog")
        self._patience = timeout(state.collective_device)
        self._count = 0

    def exchange(self, note: Any, where: str) -> list[Any]:
        """The notes of all processes, in the order of the processes.

        Args:
            note: this process's, of what JSON can tell.
            where: says what is waited for, if somebody does not come.

        Raises:
            DistributedOperationException: if somebody does not come before the timeout, or has
                ended and will not.
        """
        self._count += 1
        try:
            self._board.pin(f"{self._count}/{self._rank}", note)
            notes = [self._wait_for(rank, where) for rank in range(self._world)]
            # Whoever pinned this note has read all of the last ones.
            self._board.remove(f"{self._count - 1}/{self._rank}")
        except Lost:
            raise DistributedOperationException(
                f"{where} cannot be compared: the process that keeps the store has ended."
            ) from None
        return notes

    def _wait_for(self, rank: int, where: str) -> Any:
        pause = Pause()
        started = looked = time.monotonic()
        while (note := self._board.read(f"{self._count}/{rank}")) is None:
            pause()
            now = time.monotonic()
            if now - looked > _LOOK_FOR_THE_DEAD:
                looked = now
                ended = (self._farewells.read(f"status/{rank}") or {}).get("ended")
                if ended is not None:
                    raise DistributedOperationException(f"rank {rank} will not come to {where}: it {ended}.")
            if now - started > self._patience:
                raise DistributedOperationException(
                    f"rank {rank} has not come to {where} within {self._patience:g} seconds."
                )
        return note


_agreements: WeakKeyDictionary[Store, Agreement] = WeakKeyDictionary()


def of(state: PartialState) -> Agreement:
    """The agreement of the process group that there is."""
    store = dist.distributed_c10d._get_default_store()
    if store not in _agreements:
        _agreements[store] = Agreement(state)
    return _agreements[store]


def compare(operation: str, brings: str, agreement: Agreement) -> None:
    """Make sure that every process enters the same operation with what goes together.

    Raises:
        DistributedOperationException: naming who does what, and where, if they do not.
    """
    site = call_site()
    mine = [operation, brings, site]
    everyones = agreement.exchange(mine, f"{operation} at {site}")
    if all(note[:2] == mine[:2] for note in everyones):
        return
    doing = [f"{what}{' of ' if of else ''}{of} at {where}" for what, of, where in everyones]
    raise DistributedOperationException(
        f"the processes do not agree: {grouped(doing)}; all of them must call the same operations in the same "
        "order, on tensors of the same shapes and types."
    )


def grouped(said: Sequence[str]) -> str:
    """``ranks 0, 2: this; rank 1: that``, from what each rank has to say."""
    return "; ".join(f"{ranks}: {text}" for ranks, text in groups(dict(enumerate(said))))


def groups(said: Mapping[int, str]) -> list[tuple[str, str]]:
    """Who says the same: ``[("ranks 0-2, 5", "this"), ("rank 3", "that")]``."""
    who: dict[str, list[int]] = {}
    for rank, text in said.items():
        who.setdefault(text, []).append(rank)
    return [(_listed(ranks), text) for text, ranks in who.items()]


def _listed(ranks: list[int]) -> str:
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [", ".join(map(str, run)) if len(run) < 3 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(parts)}"
