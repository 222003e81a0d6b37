"""Asking every process of the job what it is doing, through the store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accelift.peers import Board, Lost

if TYPE_CHECKING:
    from accelift.state import PartialState

Answer = dict[str, Any]
_ENDED = "ended"


class RollCall:
    """Calls that any process can make, for one of several reasons, and that all should answer.

    Once the store is lost nobody calls any more, and a call is answered by its caller alone.

    Args:
        state: the processes.
        reasons: what a call can be made for.
    """

    def __init__(self, state: PartialState, reasons: Sequence[int]) -> None:
        self._rank = state.process_index
        self._world = state.num_processes
        self._board: Board | None = Board("watchdog")
        # The last call for each reason: its number, and who made it.
        self._calls = {reason: self._board.swap(f"calls {reason}", "", "0") for reason in reasons}
        self.ended = self._board.count(_ENDED)

    def news(self) -> list[int]:
        """The reasons for which calls were made since the last look; updates :attr:`ended` too."""
        if self._board is None:
            return []
        try:
            *calls, ended = self._board.texts([*(f"calls {reason}" for reason in self._calls), _ENDED])
        except Lost:
            self._board = None
            return []
        self.ended = int(ended)
        known, self._calls = self._calls, dict(zip(self._calls, calls, strict=True))
        return [reason for reason, call in self._calls.items() if call != known[reason]]

    def answer(self, answer: Answer) -> None:
        """Answer the calls made so far."""
        try:
            if self._board is not None:
                calls = [(reason, _number(call)) for reason, call in self._calls.items()]
                self._board.pin(f"status/{self._rank}", {**answer, "calls": calls})
        except Lost:
            self._board = None

    def call(self, reason: int) -> bool:
        """Call; ``False`` if another process was faster, which will collect the answers."""
        if self._board is None:
            return True
        known = self._calls[reason]
        ours = f"{_number(known) + 1} {self._rank}"
        try:
            # One that comes too late must not count: the others would take it for a call made later.
            self._calls[reason] = self._board.swap(f"calls {reason}", known, ours)
        except Lost:
            self._board = None
            return True
        return self._calls[reason] == ours

    def collect(self, reason: int, seconds: float, ours: Answer) -> dict[int, Answer | None]:
        """What each process answers to our call within the time; ``None`` for one that does not."""
        answers: dict[int, Answer | None] = dict.fromkeys(range(self._world))
        answers[self._rank] = ours
        until = time.monotonic() + seconds
        call = _number(self._calls[reason])
        while self._board is not None and None in answers.values() and time.monotonic() < until:
            for rank in [rank for rank, answer in answers.items() if answer is None]:
                answers[rank] = self._answer_of(rank, reason, call)
            time.sleep(0.05)
        return answers

    def _answer_of(self, rank: int, reason: int, call: int) -> Answer | None:
        try:
            answer: Answer | None = None if self._board is None else self._board.read(f"status/{rank}")
        except Lost:
            self._board = None
            return None
        if answer is None or _ENDED in answer or dict(answer["calls"])[reason] >= call:
            return answer
        return None

    def farewell(self, how: str) -> None:
        """Tell the others that this process will not answer any more."""
        try:
            if self._board is not None:
                self._board.pin(f"status/{self._rank}", {_ENDED: how})
                self._board.count(_ENDED, 1)
        except Lost:
            self._board = None


def _number(call: str) -> int:
    return int(call.split()[0])
