"""Questions about output: the values that are printed, the checkpoints, and who prints and writes."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.recording import Line, Rank, Recording, Save, Values

_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
_ALIGNED = 4000  # lines; more are compared in their order
_SAVED = 1e-3
_ALLOWANCE = 30.0

Number = tuple[int, int]
"""A printed number: the line's place among all lines, the number's in the line."""


def compare_lines(
    original: Recording, converted: Recording, volatile: Collection[Number], disturbed: Recording | None, exact: bool
) -> Answer:
    """Compare what the main process prints and logs.

    Args:
        original: a run of the original.
        converted: a run of the converted script.
        volatile: numbers that are not compared; see `volatile_numbers`.
        disturbed: a run of the original whose parameters were moved by units of rounding.
        exact: every digit counts.
    """
    question = "the same printed values"
    ours, theirs = original.main.lines, converted.main.lines
    if original.main.end == "enough" and not any(not line.trains for line in ours):
        return Answer(question, Verdict.NOT_SEEN, "no evaluation within the steps of this proof")
    if not ours:
        return Answer(question, Verdict.NOT_SEEN, "nothing is printed")
    pairs, lost, new = _align(ours, theirs)
    drift = _drift(ours, disturbed.main.lines) if disturbed is not None else {}
    compared, local, worst = 0, 0, 0.0
    for index, ours_index, theirs_index in ((i, *pair) for i, pair in enumerate(pairs)):
        a, b = ours[ours_index], theirs[theirs_index]
        if not exact and a.trains and converted.world > 1:
            local += 1  # what a process prints while it trains is about its own part
            continue
        for position, (x, y) in enumerate(zip(_numbers(a.text), _numbers(b.text), strict=False)):
            compared += 1
            if x == y or (ours_index, position) in volatile:
                continue
            allowed = 0.0 if exact else _allowed(x, drift.get((ours_index, position), 0.0))
            gap = abs(float(y) - float(x))
            worst = max(worst, gap / max(abs(float(x)), 1e-12))
            if not gap <= allowed:
                detail = f"{b.text.strip()!r} instead of {a.text.strip()!r}"
                return Answer(question, Verdict.DIFFERS, detail, _why(b, index, detail, converted.world))
    if (lost or new) and original.main.end == converted.main.end:
        shown = lost[0] if lost else new[0]
        detail = f"{len(lost)} lines are missing and {len(new)} new, for instance {shown.text.strip()!r}"
        suspicions = (Suspicion("PRINT-LOST", 3, detail, shown.place if new else ""),)
        return Answer(question, Verdict.DIFFERS, detail, suspicions)
    note = f"; {local} lines are about the main process's own samples" if local else ""
    if worst == 0.0:
        return Answer(question, Verdict.IDENTICAL, f"{compared} numbers{note}")
    return Answer(question, Verdict.EQUIVALENT, f"{compared} numbers, up to {worst:.1e}{note}")


def volatile_numbers(original: Recording, again: Recording) -> Collection[Number]:
    """The printed numbers that differ between two runs of one script: times, for instance."""
    return _drift(original.main.lines, again.main.lines).keys()


def _why(line: Line, index: int, detail: str, world: int) -> tuple[Suspicion, ...]:
    if world > 1:
        return (Suspicion("METRIC-LOCAL", 2, detail, line.place), Suspicion("EVAL-TAIL", 1, detail, line.place))
    if line.trains:
        return ()
    return (Suspicion("EVAL-MODE", 1, detail, line.place), Suspicion("METRIC-LOCAL", 1, detail, line.place))


def _template(text: str) -> str:
    return " ".join(_NUMBER.sub("#", text).replace("nan", "#").replace("inf", "#").split())


def _numbers(text: str) -> list[str]:
    return _NUMBER.findall(text)


def _allowed(number: str, drift: float) -> float:
    """One unit of the last digit shown, one in ten thousand, or what rounding makes of it."""
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit: float = 10.0 ** (int(exponent or 0) - decimals) if "." in number or exponent else 0.0
    return max(1.01 * unit, 1e-4 * abs(float(number)), _ALLOWANCE * drift)


def _align(ours: Sequence[Line], theirs: Sequence[Line]) -> tuple[list[tuple[int, int]], list[Line], list[Line]]:
    """Lines that are the same but for their numbers, in pairs; lines without one, in the one and the other."""
    left, right = [_template(line.text) for line in ours], [_template(line.text) for line in theirs]
    if left == right or max(len(left), len(right)) > _ALIGNED:
        pairs = [(i, i) for i, (a, b) in enumerate(zip(left, right, strict=False)) if a == b]
    else:
        blocks = difflib.SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
        pairs = [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]
    paired, paired_right = {a for a, _ in pairs}, {b for _, b in pairs}
    lost = [line for i, line in enumerate(ours) if i not in paired]
    new = [line for i, line in enumerate(theirs) if i not in paired_right]
    return pairs, lost, new


def _drift(ours: Sequence[Line], others: Sequence[Line]) -> dict[Number, float]:
    """How far the numbers of lines are apart in another run of the same script."""
    return {
        (a, position): abs(float(x) - float(y))
        for a, b in _align(ours, others)[0]
        for position, (x, y) in enumerate(zip(_numbers(ours[a].text), _numbers(others[b].text), strict=False))
        if x != y
    }


def compare_saves(original: Recording, converted: Recording, disturbed: Recording | None, exact: bool) -> Answer:
    """Compare what `torch.save` is given: files, keys, shapes, values."""
    question = "the same checkpoints"
    ours, theirs = _last(original.main), _last(converted.main)
    drifted = _last(disturbed.main) if disturbed is not None else {}
    if not ours:
        return Answer(question, Verdict.NOT_SEEN, "nothing is saved with torch.save" + _cut(original.main))
    worst = 0.0
    for path, save in ours.items():
        other = theirs.get(path)
        if other is None:
            detail = f"{path} is not saved"
            return Answer(question, Verdict.DIFFERS, detail, (Suspicion("SAVE-LOST", 3, detail),))
        problem = _keys(save, other)
        if problem:
            detail = f"{path}: {problem}"
            return Answer(question, Verdict.DIFFERS, detail, (Suspicion("SAVE-KEYS", 3, detail, other.place),))
        for key, value in save.values.items():
            gap = _gap(value, other.values[key])
            drift = _gap(value, drifted[path].values.get(key)) if path in drifted else 0.0
            worst = max(worst, gap)
            if gap > (0.0 if exact else max(_SAVED, _ALLOWANCE * drift)):
                detail = f"{path}: {key} differs by {gap:.1e}"
                return Answer(question, Verdict.DIFFERS, detail, (Suspicion("SAVE-VALUES", 2, detail, other.place),))
    shown = ", ".join(sorted(ours))
    return Answer(question, Verdict.EQUIVALENT if worst else Verdict.IDENTICAL, shown)


def _cut(rank: Rank) -> str:
    return " within the steps of this proof" if rank.end == "enough" else ""


def _last(rank: Rank) -> dict[str, Save]:
    return {save.path: save for save in rank.saves if save.path is not None}


def _keys(ours: Save, theirs: Save) -> str:
    lost, new = ours.values.keys() - theirs.values.keys(), theirs.values.keys() - ours.values.keys()
    if lost or new:
        return f"has keys like {min(new)!r} instead of {min(lost)!r}" if lost and new else f"keys {lost or new} differ"
    for key, value in ours.values.items():
        other = theirs.values[key]
        if isinstance(value, tuple) and isinstance(other, tuple) and value[0] != other[0]:
            return f"{key} has shape {list(other[0])} instead of {list(value[0])}"
    return ""


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


def compare_writers(original: Recording, converted: Recording) -> list[Answer]:
    """Whether one process only prints and writes."""
    if converted.world == 1:
        return []
    return [_printers(original, converted), _writers(converted)]


def _printers(original: Recording, converted: Recording) -> Answer:
    question = "one process prints"
    known = {_template(line.text) for line in original.main.lines}
    for number, rank in enumerate(converted.ranks[1:], start=1):
        repeated = [line for line in rank.lines if _template(line.text) in known]
        if repeated:
            detail = f"process {number} prints {len(repeated)} lines too, for instance {repeated[0].text.strip()!r}"
            return Answer(question, Verdict.DIFFERS, detail, (Suspicion("PRINT-ALL", 3, detail, repeated[0].place),))
    return Answer(question, Verdict.IDENTICAL)


def _writers(converted: Recording) -> Answer:
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
