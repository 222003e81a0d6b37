"""Questions about files: the checkpoints, and who writes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from accelift_codemod.verify.announced import Announced
from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.lines import template
from accelift_codemod.verify.recording import Rank, Recording, Save, Values

_PREFIX = re.compile(r"(?<![^.])module\.")  # what DataParallel puts before the names of a model's parts
_SAVED = 1e-3
_ALLOWANCE = 30.0

SAVED = "the same checkpoints"

Key = tuple[str, str | None]
"""A file, and a key of what was saved in it; without the latter the file's name."""


def compare_saves(
    original: Recording,
    converted: Recording,
    volatile: Collection[Key],
    disturbed: Recording | None,
    exact: bool,
    said: Announced | None = None,
) -> Answer:
    """Compare what `torch.save` is given: files, keys, shapes, values.

    Args:
        original: a run of the original.
        converted: a run of the converted script.
        volatile: names and values that are not compared; see `volatile_values`.
        disturbed: a run of the original whose parameters were moved by units of rounding.
        exact: every bit counts.
        said: the findings on what one process has measured: the numbers that they speak of need not be the same on
            several.
    """
    question = SAVED
    ours, theirs = _last(original.main), _last(*reversed(converted.ranks))
    drifted = _last(disturbed.main) if disturbed is not None else {}
    if not ours:
        return Answer(question, Verdict.NOT_SEEN, "nothing is saved with torch.save" + _cut(original.main))
    worst, renamed = 0.0, ""
    differs: Answer | None = None
    announced: Answer | None = None
    for path, save in ours.items():
        other = _counterpart(path, ours, theirs, volatile)
        if other is None:
            detail = f"{path} is not saved"
            return Answer(question, Verdict.DIFFERS, detail, (Suspicion("SAVE-LOST", 3, detail),), save.at)
        if problem := _keys(save, other):
            detail = f"{path}: {problem}"
            causes = (Suspicion("SAVE-KEYS", 3, detail, other.place),)
            save = _unwrapped(save)
            if _keys(save, other):
                return Answer(question, Verdict.DIFFERS, detail, causes)
            renamed = renamed or detail
        moved = _counterpart(path, ours, drifted, volatile)
        for key, value in save.values.items():
            gap = 0.0 if (path, key) in volatile else _gap(value, other.values[key])
            drift = _gap(value, moved.values.get(key)) if moved is not None else 0.0
            worst = max(worst, gap)
            if gap > (0.0 if exact else max(_SAVED, _ALLOWANCE * drift)):
                detail = f"{path}: {key} differs by {gap:.1e}"
                cause = Suspicion("SAVE-VALUES", 1, detail, other.place)
                if exact or not _is_fraction(value):
                    return Answer(question, Verdict.DIFFERS, detail, (cause,), save.at)
                # As where it is printed, it may be what one process has measured.
                local = (replace(cause, code="METRIC-LOCAL"), cause)
                if codes := said.spoken_of(save.place) if said else []:
                    told = f"{detail} (as {', '.join(codes)} of the conversion says)"
                    announced = announced or Answer(question, Verdict.NOT_COMPARABLE, told, local, save.at)
                else:
                    differs = differs or Answer(question, Verdict.DIFFERS, detail, local, save.at)
    if found := differs or announced:
        return found
    if renamed:
        detail = f"{renamed}, and the same values"
        return Answer(question, Verdict.DIFFERS, detail, (Suspicion("SAVE-PREFIX", 3, detail),))
    shown = ", ".join(sorted(ours))
    return Answer(question, Verdict.EQUIVALENT if worst else Verdict.IDENTICAL, shown)


def volatile_values(original: Recording, again: Recording) -> Collection[Key]:
    """The saved values, and names of files, that are others in another run of the same script: times, identifiers."""
    ours, others = _last(original.main), _last(again.main)
    found: set[Key] = {(path, None) for path in ours if path not in others}
    for path, save in ours.items():
        other = _counterpart(path, ours, others, found)
        if other is not None:
            found |= {(path, key) for key, value in save.values.items() if _gap(value, other.values.get(key))}
    return found


def _cut(rank: Rank) -> str:
    return " within the steps of this proof" if rank.end == "enough" else ""


def _last(*ranks: Rank) -> dict[str, Save]:
    """What is in the files in the end."""
    return {save.path: save for rank in ranks for save in rank.saves if save.path is not None}


def _counterpart(path: str, ours: dict[str, Save], theirs: dict[str, Save], volatile: Collection[Key]) -> Save | None:
    """The other run's file of the name, or of a name that differs in its numbers, which may be times and metrics; of
    one that is another each time, the file in its place among those that only one run has."""
    if path in theirs:
        return theirs[path]
    alone, new = [one for one in ours if one not in theirs], [one for one in theirs if one not in ours]
    alike = [other for other in new if template(other) == template(path)]
    before = [other for other in alone if template(other) == template(path)].index(path)
    if before < len(alike):
        return theirs[alike[before]]
    named_anew = all((one, None) in volatile for one in alone) and len(alone) == len(new)
    return theirs[new[alone.index(path)]] if named_anew else None


def _keys(ours: Save, theirs: Save) -> str:
    lost, new = ours.values.keys() - theirs.values.keys(), theirs.values.keys() - ours.values.keys()
    if lost or new:
        return f"has keys like {min(new)!r} instead of {min(lost)!r}" if lost and new else f"keys {lost or new} differ"
    for key, value in ours.values.items():
        other = theirs.values[key]
        if isinstance(value, tuple) and isinstance(other, tuple) and value[0] != other[0]:
            return f"{key} has shape {list(other[0])} instead of {list(value[0])}"
    return ""


def _unwrapped(save: Save) -> Save:
    """What was saved, under the keys that it has without DataParallel."""
    return replace(save, values={_PREFIX.sub("", key): value for key, value in save.values.items()})


def _gap(ours: Any, theirs: Any) -> float:
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        a, b = ours[1], theirs[1]
        assert isinstance(a, Values) and isinstance(b, Values)
        return a.distance(b) / max(a.norm, b.norm, 1e-3)
    if ours == theirs:
        return 0.0
    try:
        x, y = float(ours), float(theirs)
    except (TypeError, ValueError):
        return math.inf
    return abs(x - y) / max(abs(x), abs(y))


def _is_fraction(value: Any) -> bool:
    """Whether what was saved is a number that counts nothing; the recorder spells those out, and texts with quotes."""
    if isinstance(value, tuple) or str(value).lstrip("-").isdigit():
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def compare_writers(converted: Recording) -> Answer:
    """Whether no file is written by two processes."""
    question = "one process writes"
    ours = _written(converted.main)
    for number, rank in enumerate(converted.ranks[1:], start=1):
        both = {path: place for path, place in _written(rank).items() if path in ours}
        if both:
            path, place = next(iter(both.items()))
            detail = f"process {number} writes {path} too"
            return Answer(question, Verdict.DIFFERS, detail, (Suspicion("WRITE-ALL", 3, detail, place),))
    return Answer(question, Verdict.IDENTICAL)


def _written(rank: Rank) -> dict[str, str]:
    saved: Iterable[tuple[str, str]] = ((save.path, save.place) for save in rank.saves if save.path is not None)
    return {**{write["path"]: write["place"] for write in rank.writes}, **dict(saved)}
