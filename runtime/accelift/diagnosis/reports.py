"""What the watchdog says: who waits where, who is elsewhere, who will not come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelift.diagnosis.agreement import groups

_SILENT = "not heard of; it was killed, hangs outside of Python, or its machine is out of reach"


def waiting(operation: str, where: str, seconds: float) -> dict[str, Any]:
    """The answer of a process that is in a collective operation."""
    return {"operation": operation, "where": where, "seconds": seconds}


def elsewhere(where: str) -> dict[str, Any]:
    """The answer of a process that is not."""
    return {"where": where}


def report(why: str, answers: Mapping[int, Mapping[str, Any] | None]) -> str:
    """The report, a line for all processes that say the same.

    Args:
        why: what it is about.
        answers: what each process answered; ``None`` if nothing came.
    """
    longest: dict[str, float] = {}
    said: dict[int, str] = {}
    for rank, answer in answers.items():
        text = _SILENT if answer is None else _told(answer)
        said[rank] = text
        longest[text] = max(longest.get(text, 0.0), 0.0 if answer is None else answer.get("seconds", 0.0))
    lines = [
        f"  {ranks}: {text}{f', for {longest[text]:.0f} s' if longest[text] else ''}" for ranks, text in groups(said)
    ]
    return "\n".join([f"accelift: {why}:", *lines]) + "\n"


def _told(answer: Mapping[str, Any]) -> str:
    if "ended" in answer:
        return str(answer["ended"])
    if "operation" in answer:
        return f"waiting in {answer['operation']} at {answer['where']}"
    return f"at {answer['where']}"


def somebody_is_missing(answers: Mapping[int, Mapping[str, Any] | None]) -> bool:
    """Whether not all processes are in the same operation, so that waiting will not help."""
    return len({None if answer is None else answer.get("operation") for answer in answers.values()}) > 1
