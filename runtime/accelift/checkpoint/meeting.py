"""The processes meet to save: where one fails, all of them hear of it, and none waits for it."""

from __future__ import annotations

import time
from typing import Any

from accelift.collective import Collective
from accelift.peers import Board, Lost, Pause, timeout
from accelift.state import PartialState

COMING = 30.0  # seconds that the main process waits for the others to come
COMING_AGAIN = 1.0  # ... once it has waited in vain


class Meeting:
    """All processes of the job at one point of the script, or the main one alone.

    They leave notes in the store, not through the backend: where a script has only its main process
    save, the others may be in a collective operation by then, which nothing must get into.

    Args:
        state: the processes.
        what: what they meet for; the same on every process.

    Attributes:
        alone: whether there are no others here.
        others: on the main process, what the others had to say when it began.

    Raises:
        RuntimeError: in every method, if somebody does not come, or the store is lost.
    """

    def __init__(self, state: PartialState, what: str) -> None:
        self._what = what
        self._state = state
        self._rank = state.process_index
        self._others = range(1, state.num_processes)
        self.alone = not state.use_distributed
        self.others: list[Any] = []
        if self.alone:
            return
        self._patience = timeout(state.collective_device)
        try:
            self._board = Board("meeting")
            self._times = self._board.count(f"{what} {self._rank}", 1)
        except Lost:
            raise self._lost() from None
        self._round = 0

    def open(self, note: Any) -> Any:
        """Begin.

        Args:
            note: what this process has to say, of what JSON can tell; not ``None``.

        Returns:
            What the main process says; ``None`` if it did not wait for this process.
        """
        if self.alone:
            return note
        try:
            if self._rank:
                return self._report(note)
            missed = self._board.count("missed")
            notes = self._collect(COMING_AGAIN if missed else COMING)
            self.alone = notes is None
            self.others = notes or []
            self._board.count("missed", int(self.alone))
            self._announce(None if self.alone else note)
        except Lost:
            raise self._lost() from None
        return note

    def agree(self, error: Exception | None) -> Exception | None:
        """The error of this process or, if it has none, the first one of the others.

        Args:
            error: what went wrong here.
        """
        if self.alone:
            return error
        mine = None if error is None else _noted(error, self._rank)
        try:
            if self._rank:
                heard = self._report(mine)
            else:
                notes = self._collect(self._patience)
                if notes is None:
                    raise self._nobody("some process")
                heard = next((note for note in [mine, *notes] if note is not None), None)
                self._announce(heard)
        except Lost:
            raise self._lost() from None
        return error or (None if heard is None else _read(heard))

    def _report(self, note: Any) -> Any:
        """Give the main process a note; what it announces then."""
        key = self._key(self._rank)
        self._board.pin(key, [note])
        heard = self._wait_for(0, self._patience)
        if heard is None:
            raise self._nobody("the main process")
        self._board.remove(key)
        self._round += 1
        return heard[0]

    def _collect(self, patience: float) -> list[Any] | None:
        """The notes of the others; ``None`` if one of them does not come."""
        until = time.monotonic() + patience
        notes = [self._wait_for(rank, until - time.monotonic()) for rank in self._others]
        return None if None in notes else [note[0] for note in notes if note is not None]

    def _announce(self, note: Any) -> None:
        """Tell the others, who all have heard the last announcement."""
        self._board.pin(self._key(0), [note])
        self._round += 1
        if self._round > 1:
            self._board.remove(self._key(0, self._round - 2))

    def _wait_for(self, rank: int, patience: float) -> list[Any] | None:
        pause = Pause()
        until = time.monotonic() + patience
        with Collective(self._what, self._state, compared=False, computes=True):
            while (note := self._board.read(self._key(rank))) is None and time.monotonic() < until:
                pause()
        found: list[Any] | None = note
        return found

    def _key(self, rank: int, round_: int | None = None) -> str:
        return f"{self._what} {self._times}/{self._round if round_ is None else round_}/{rank}"

    def _nobody(self, who: str) -> RuntimeError:
        return RuntimeError(
            f"{who} has not come to {self._what} within {self._patience:g} seconds; call it on every process."
        )

    def _lost(self) -> RuntimeError:
        return RuntimeError(f"{self._what} cannot go on: the process that keeps the store has ended.")


def _noted(error: Exception, rank: int) -> list[Any]:
    if isinstance(error, OSError):
        return [rank, "OSError", error.errno, error.strerror or str(error)]
    return [rank, type(error).__name__, None, str(error)]


def _read(note: list[Any]) -> Exception:
    rank, kind, number, text = note
    if kind == "OSError":
        return OSError(number, text)
    return ValueError(text) if kind == "ValueError" else RuntimeError(f"process {rank} failed with {kind}: {text}")
