"""What a question about two recordings can be answered with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Verdict(str, Enum):
    """An answer, from the best to the worst."""

    IDENTICAL = "identical"
    EQUIVALENT = "equivalent"
    NOT_SEEN = "not seen"
    NOT_COMPARABLE = "not comparable"
    UNDECIDED = "undecided"
    DIFFERS = "differs"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Suspicion:
    """A cause that would explain a difference.

    `weight` orders causes: 3 if the evidence leaves hardly another one, 2 if it points there, 1 if it is possible.
    """

    code: str
    weight: int
    evidence: str
    place: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"cause": self.code, "evidence": self.evidence, "place": self.place}


@dataclass(frozen=True)
class Answer:
    """What is to be said on one question, with what may be behind a difference.

    `at` is when the difference came about: its place among the events of the original's main process.
    """

    question: str
    verdict: Verdict
    detail: str = ""
    suspicions: tuple[Suspicion, ...] = ()
    at: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "verdict": self.verdict.value,
            "detail": self.detail,
            "suspicions": [one.to_json() for one in self.suspicions],
        }
