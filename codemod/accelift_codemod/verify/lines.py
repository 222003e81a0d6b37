"""The question about printed values: does the main process print and log what the original does?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence

from accelift_codemod.report import count
from accelift_codemod.verify.announced import Announced
from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.recording import Line, Rank, Recording

_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?|\b(?:nan|inf)\b")
_UNIT = r"\s?(?:[mµun]?s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|(?:it|samples|images)/s(?:ec)?)(?![a-zA-Z])"
_TIMES = re.compile(rf"(?:(?:{_NUMBER.pattern}){_UNIT}\s?)+")  # 1m 3.5s: never the same, and never a result
_DEVICE = re.compile(r"\b(cuda|hpu|mps|npu|xpu):\d+\b")  # cuda and cuda:0 are one device, and each process has its own
_ALIGNED = 4000  # lines; more are compared in their order
_ALLOWANCE = 30.0
PRINTED = "the same printed values"
PRINTERS = "one process prints"

Number = tuple[int, int | None]
"""A printed number: the line's place among all lines, the number's in the line; without the latter the whole line."""


def compare_lines(
    original: Recording,
    converted: Recording,
    volatile: Collection[Number],
    disturbed: Recording | None,
    exact: bool,
    said: Announced | None = None,
) -> Answer:
    """Compare what the main process prints and logs.

    Args:
        original: a run of the original.
        converted: a run of the converted script.
        volatile: numbers that are not compared; see `volatile_numbers`.
        disturbed: a run of the original whose parameters were moved by units of rounding.
        exact: every digit counts.
        said: the findings on what one process has measured: the lines that they speak of need not be the same on
            several.
    """
    ours, theirs = original.main.lines, converted.main.lines
    if original.main.end == "enough" and all(line.trains for line in ours):
        return Answer(PRINTED, Verdict.NOT_SEEN, "no evaluation within the steps of this proof")
    if not ours:
        return Answer(PRINTED, Verdict.NOT_SEEN, "nothing is printed")
    pairs = _align(ours, theirs)
    drift = _drift(ours, disturbed.main.lines) if disturbed is not None else {}
    compared, local, worst = 0, 0, 0.0
    announced: Answer | None = None
    for index, other in pairs:
        a, b = ours[index], theirs[other]
        if not exact and a.trains and converted.world > 1:
            local += 1  # what a process prints while it trains is about its own part
            continue
        for position, (x, y) in enumerate(zip(numbers(a.text), numbers(b.text), strict=True)):
            compared += 1
            if x == y or (index, position) in volatile:
                continue
            gap = abs(float(y) - float(x))
            worst = max(worst, gap / max(abs(float(x)), 1e-12))
            if exact or not gap <= _allowed(x, drift.get((index, position), 0.0)):
                detail = f"{b.text.strip()!r} instead of {a.text.strip()!r}"
                causes = tuple(_why(original.main, converted, a, b, float(x), float(y)))
                spoken = {code for place in a.places for code in said.spoken_of(place)} if said else set()
                codes = sorted(spoken) if converted.world > 1 else []
                if not codes:
                    return Answer(PRINTED, Verdict.DIFFERS, detail, causes, a.at)
                told = f"{detail} (as {', '.join(codes)} of the conversion says)"
                announced = announced or Answer(PRINTED, Verdict.NOT_COMPARABLE, told, causes, a.at)
                break
    found, known = {index for index, _ in pairs}, {index for index, position in volatile if position is None}
    lost = [line for index, line in enumerate(ours) if index not in found and index not in known]
    if lost and original.main.end == converted.main.end:
        detail = f"{_lines(len(lost))} missing, for instance {lost[0].text.strip()!r}"
        return Answer(PRINTED, Verdict.DIFFERS, detail, (Suspicion("PRINT-LOST", 3, detail),), lost[0].at)
    if announced is not None:
        return announced
    note = f"; {_lines(local)} about the main process's own samples" if local else ""
    if new := len(theirs) - len(pairs):
        note += f"; {_lines(new)} new"
    if worst == 0.0:
        return Answer(PRINTED, Verdict.IDENTICAL, f"{count(compared, 'number')}{note}")
    return Answer(PRINTED, Verdict.EQUIVALENT, f"{count(compared, 'number')}, up to {worst:.1e}{note}")


def _lines(number: int) -> str:
    return f"{count(number, 'line')} {'is' if number == 1 else 'are'}"


def volatile_numbers(original: Recording, again: Recording) -> Collection[Number]:
    """The printed numbers and lines that are others in another run of the same script, such as times and folders.

    Where a number is another one, so may be all at its place in lines that are alike: a time is now and then the same.
    """
    ours, others = original.main.lines, again.main.lines
    found = {index for index, _ in _align(ours, others)}
    templates = [template(line.text) for line in ours]
    places: dict[str, set[int | None]] = {}
    for index, position in _drift(ours, others):
        places.setdefault(templates[index], set()).add(position)
    alike = {(index, position) for index, one in enumerate(templates) for position in places.get(one, ())}
    return {*alike, *((index, None) for index in range(len(ours)) if index not in found)}


def _why(left: Rank, converted: Recording, a: Line, b: Line, x: float, y: float) -> Iterator[Suspicion]:
    evidence = f"{b.text.strip()!r} instead of {a.text.strip()!r}"
    if converted.world > 1:
        twice = x != 0 and abs(y / x - converted.world) < 0.02
        if twice:
            yield Suspicion("METRIC-TWICE", 3, f"{evidence}: {converted.world} times as much", b.place)
        yield Suspicion("METRIC-LOCAL", 1 if twice else 2, evidence, b.place)
    if a.trains:
        return
    ours, theirs = _mode(left, a), _mode(converted.main, b)
    if ours and theirs and ours != theirs:
        yield Suspicion("EVAL-MODE", 3, f"the model is evaluated in mode {theirs} instead of {ours}", b.place)
    else:
        yield Suspicion("EVAL-MODE", 1, evidence, b.place)


def _mode(rank: Rank, line: Line) -> str:
    """The mode of the model in the evaluation before a line."""
    before = [batch.mode for one in rank.passes if not one.trains for batch in one.batches if batch.at < line.at]
    return before[-1] if before else line.mode


def template(text: str) -> str:
    """A text without its numbers and times."""
    return " ".join(_NUMBER.sub("#", _comparable(text)).split())


def numbers(text: str) -> list[str]:
    """The numbers in a text that are no times."""
    return _NUMBER.findall(_comparable(text))


def _comparable(text: str) -> str:
    """A text without what says nothing of the training: times, and which of several devices."""
    return _DEVICE.sub(r"\1", _TIMES.sub("~ ", text))


def _allowed(number: str, drift: float) -> float:
    """One unit of the last digit shown, one in ten thousand, or what rounding makes of it."""
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit: float = 10.0 ** (int(exponent or 0) - decimals) if "." in number or exponent else 0.0
    return max(1.01 * unit, 1e-4 * abs(float(number)), _ALLOWANCE * drift)


def _align(ours: Sequence[Line], theirs: Sequence[Line]) -> list[tuple[int, int]]:
    """Lines that are the same but for their numbers, in pairs."""
    left, right = [template(line.text) for line in ours], [template(line.text) for line in theirs]
    if left == right or max(len(left), len(right)) > _ALIGNED:
        return [(i, i) for i, (a, b) in enumerate(zip(left, right, strict=False)) if a == b]
    blocks = difflib.SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    pairs = [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]
    return pairs + _moved(left, right, pairs)


def _moved(left: list[str], right: list[str], pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Lines that come in another order, as those of several threads do."""
    taken_left, taken_right = {a for a, _ in pairs}, {b for _, b in pairs}
    free: dict[str, list[int]] = {}
    for index, text in enumerate(right):
        if index not in taken_right:
            free.setdefault(text, []).append(index)
    found = []
    for index, text in enumerate(left):
        if index not in taken_left and free.get(text):
            found.append((index, free[text].pop(0)))
    return found


def _drift(ours: Sequence[Line], others: Sequence[Line]) -> dict[Number, float]:
    """How far the numbers of lines are apart in another run of the same script."""
    return {
        (a, position): abs(float(x) - float(y))
        for a, b in _align(ours, others)
        for position, (x, y) in enumerate(zip(numbers(ours[a].text), numbers(others[b].text), strict=True))
        if x != y
    }


def compare_printers(original: Recording, converted: Recording, said: Announced | None = None) -> Answer:
    """Whether one process only prints and logs the original's lines, but for those that a finding speaks of (`said`).

    What a library logs on its own, as Matplotlib does of fonts that it does not find, is left to it.
    """
    places: dict[str, set[str]] = {}
    for line in original.main.lines:
        places.setdefault(template(line.text), set()).add(line.place)
    announced: Answer | None = None
    for number, rank in enumerate(converted.ranks[1:], start=1):
        repeated = [one for one in rank.lines if not one.by_library and template(one.text) in places]
        untold = [one for one in repeated if not (said and any(map(said.prints, places[template(one.text)])))]
        if shown := untold or repeated:
            detail = f"process {number} prints {len(shown)} lines too, for instance {shown[0].text.strip()!r}"
            causes = (Suspicion("PRINT-ALL", 3, detail, shown[0].place),)
            if untold:
                return Answer(PRINTERS, Verdict.DIFFERS, detail, causes)
            told = f"{detail} (as PRINT-ALL of the conversion says)"
            announced = announced or Answer(PRINTERS, Verdict.NOT_COMPARABLE, told, causes)
    return announced or Answer(PRINTERS, Verdict.IDENTICAL)
