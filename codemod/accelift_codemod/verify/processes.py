"""Questions about the processes: does each come to its end, and does each have work?"""

from __future__ import annotations

import re

from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.recording import Rank, Recording

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)')

# What gloo says where a process is sent something else than it waits for.
_MIXED_UP = re.compile(r"op\.preamble|gloo::EnforceNotMet")
_LEFT_ALONE = re.compile(r"gloo|nccl|ProcessGroup|c10d|connection|broken pipe|timed? ?out", re.IGNORECASE)


def compare_processes(
    original: Recording, converted: Recording, timed_out: bool, last_words: str, limit: str = ""
) -> list[Answer]:
    """Whether the processes of the converted run end as the original does, and share its work.

    Args:
        original: a run of the original.
        converted: a run of the converted script.
        timed_out: it was ended.
        last_words: the end of its output.
        limit: the limit that it went over while it was at work, if that is why it was ended.
    """
    answers = [_ends(converted, timed_out, last_words, limit)]
    if converted.world > 1 and original.main.steps:
        answers.append(_work(converted))
    return answers


def _ends(converted: Recording, timed_out: bool, last_words: str, limit: str) -> Answer:
    question = "every process ends"
    # One that fails takes others with it, which fail as they wait for it.
    failed = sorted(
        ((number, rank) for number, rank in enumerate(converted.ranks) if rank.end == "failed" and not _ended(rank)),
        key=lambda one: bool(_LEFT_ALONE.search(one[1].error)),
    )
    for number, rank in failed[:1]:
        who = f"process {number}: " if converted.world > 1 else ""
        detail = f"{who}{rank.error}" + (f" at {rank.error_place}" if rank.error_place else "")
        ended = next((other for other, one in enumerate(converted.ranks) if one.end in ("finished", "enough")), None)
        if _LEFT_ALONE.search(rank.error) and ended is not None:
            detail = (
                f"process {number} waits at {rank.error_place or 'no known line'} for process {ended}, which has ended"
            )
            return Answer(question, Verdict.DIFFERS, detail, (Suspicion("HANG", 3, detail, rank.error_place),))
        cause = "HANG" if _MIXED_UP.search(rank.error) else "FAILED"
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion(cause, 3, detail, rank.error_place),))
    if timed_out:
        where = "; ".join(f"process {number} {_where(rank)}" for number, rank in enumerate(converted.ranks))
        if limit and all(not rank.end or _ended(rank) for rank in converted.ranks):
            return Answer(question, Verdict.UNDECIDED, f"{limit}, at work as it seems: {where}")
        detail = f"they do not come to an end: {where}"
        place = next((_place(rank) for rank in converted.ranks if not rank.end or _ended(rank)), "")
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion("HANG", 3, detail, place),))
    if any(not rank.end for rank in converted.ranks):
        detail = f"a process ended without a word: {last_words}"
        cause = "HANG" if _MIXED_UP.search(last_words) else "FAILED"
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion(cause, 3, detail),))
    return Answer(question, Verdict.IDENTICAL)


def _ended(rank: Rank) -> bool:
    """Whether a process failed because the run was ended: it was asked where it waits, and lost another one then."""
    return bool(rank.stack and _LEFT_ALONE.search(rank.error))


def _where(rank: Rank) -> str:
    place = _place(rank)
    return {"finished": "has ended", "enough": "has made its steps"}.get(rank.end, f"is at {place or 'no known line'}")


def _place(rank: Rank) -> str:
    """The line of the script that a process was at when it was asked."""
    for frame in _FRAME.finditer(rank.stack):
        if not re.search(r"site-packages|[/\\]accelift[/\\]|<frozen|lib[/\\]python", frame["file"]):
            return f"{frame['file'].rpartition('/')[2]}:{frame['line']}"
    return ""


def _work(converted: Recording) -> Answer:
    question = "every process has work"
    steps = [len(rank.steps) for rank in converted.ranks]
    if len(set(steps)) > 1:
        detail = f"they make {', '.join(map(str, steps))} steps"
        return Answer(
            question, Verdict.DIFFERS, detail, (Suspicion("HANG", 2, detail), Suspicion("DATA-TAIL", 2, detail))
        )
    dealt = [sum(len(batch.samples) for batch in rank.batches) for rank in converted.ranks]
    if any(dealt) and not all(dealt):
        detail = f"they are dealt {', '.join(map(str, dealt))} samples"
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion("DATA-MISSING", 2, detail),))
    return Answer(question, Verdict.IDENTICAL)
