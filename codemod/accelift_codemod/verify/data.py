"""The question about data: did the processes together see the original's samples, once each, at the same steps?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any

from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.causes import overall
from accelift_codemod.verify.recording import Pass, Recording

_QUESTION = "the same samples, once each"

Samples = tuple[Any, ...]


def compare_data(original: Recording, converted: Recording) -> Answer:
    """Compare what the loaders dealt, pass by pass; process by process, if there were as many before."""
    if original.world == converted.world > 1:
        pairs = zip(original.ranks, converted.ranks, strict=True)
        found = [compare_data(replace(original, ranks=[a]), replace(converted, ranks=[b])) for a, b in pairs]
        verdict = overall(found)
        return next(answer for answer in found if answer.verdict is verdict)
    if not original.main.passes:
        return Answer(_QUESTION, Verdict.NOT_SEEN, "no DataLoader is used")
    training, evaluation = (list(_answers(original, converted, trains)) for trains in (True, False))
    verdict = overall([*training, *evaluation])
    worst = [answer for answer in [*training, *evaluation] if answer.verdict is verdict]
    first = min(worst, key=lambda answer: answer.at or 0)
    causes = dict(_causes(training, first) + _causes(evaluation, first))
    return Answer(_QUESTION, verdict, first.detail, tuple(causes.values()), first.at)


def augmented(original: Recording, converted: Recording) -> str:
    """Where samples of the same index have other contents in the other run, so that they are made by chance."""
    for rank in converted.ranks:  # the first may draw what one process draws, as its samples come first in the batch
        for ours, theirs in zip(original.main.passes, rank.passes, strict=False):
            if ours.trains and theirs.trains and _by_index(ours, theirs):
                left, right = _contents(ours), _contents(theirs)
                common = left.keys() & right.keys()
                others = sum(left[index] != right[index] for index in common)
                if others > len(common) / 2:  # now and then an augmentation comes out the same
                    return ours.place or "somewhere"
    return ""


def _contents(of: Pass) -> dict[Any, str]:
    return {
        index: content for batch in of.batches for index, content in zip(batch.samples, batch.contents, strict=False)
    }


def _causes(answers: list[Answer], first: Answer) -> list[tuple[str, Suspicion]]:
    """What the first answer suspects that suspects something; less, if there was a difference before."""
    for answer in answers:
        if answer.suspicions:
            late = first.verdict is Verdict.DIFFERS and (answer.at or 0) > (first.at or 0)
            return [(one.code, replace(one, weight=one.weight - late)) for one in answer.suspicions]
    return []


def _answers(original: Recording, converted: Recording, trains: bool) -> Iterator[Answer]:
    """One for each pass of the original.  The first one of training is compared with the first one, and so on."""
    ours = [one for one in original.main.passes if one.trains == trains]
    theirs = [one for one in converted.main.passes if one.trains == trains][: len(ours)]
    for left, right in zip_longest(ours, theirs):
        if right is None:
            yield _missing(left)
            continue
        yield _compared(left, _parts(right, converted), converted.world)


def _compared(ours: Pass, parts: list[Pass], world: int) -> Answer:
    compare = _training if ours.trains else _evaluation
    by_index = compare(ours, parts, world)
    if not _by_index(ours, *parts):
        return by_index
    by_content = compare(_known_by_content(ours), [_known_by_content(part) for part in parts], world)
    if by_index.verdict is Verdict.DIFFERS:
        # Indices may be those of a part of the data, or of the same data in another order.
        return by_content if by_content.verdict is not Verdict.DIFFERS or _alike(ours, parts) else by_index
    if ours.trains and by_content.verdict is Verdict.DIFFERS:
        evidence = "samples of the same index have other contents"
        return replace(by_index, suspicions=(Suspicion("DATA-CONTENT", 2, evidence, parts[0].place),), at=ours.at)
    return by_index


def _missing(ours: Pass) -> Answer:
    if not ours.complete:
        return Answer(_QUESTION, Verdict.NOT_SEEN)
    if not ours.trains:
        # It may do without a loader, if what comes of it is the same.
        detail = "an evaluation does not use its loader"
        return Answer(_QUESTION, Verdict.NOT_SEEN, detail, (Suspicion("EVAL-DATA", 2, detail, ours.place),), ours.at)
    detail = "a pass over a loader is missing"
    return Answer(_QUESTION, Verdict.DIFFERS, detail, (Suspicion("DATA-MISSING", 2, detail, ours.place),), ours.at)


def _parts(of: Pass, converted: Recording) -> list[Pass]:
    """The passes of all processes that belong to one of the main process: at the same line, as many before it."""
    before = sum(one.place == of.place for one in converted.main.passes[: converted.main.passes.index(of)])
    found = []
    for rank in converted.ranks:
        there = [one for one in rank.passes if one.place == of.place]
        found += there[before : before + 1]
    return found


def _known_by_content(of: Pass) -> Pass:
    batches = tuple(replace(batch, samples=batch.contents) for batch in of.batches)
    return replace(of, batches=batches)


def _alike(ours: Pass, parts: list[Pass]) -> bool:
    """Whether the contents of samples are comparable at all, not augmented by chance or padded."""
    known = set(chain.from_iterable(batch.contents for batch in ours.batches))
    return any(content in known for part in parts for batch in part.batches for content in batch.contents)


# ---- training


def _training(ours: Pass, parts: list[Pass], world: int) -> Answer:
    complete = ours.complete and all(part.complete for part in parts)
    place = parts[0].place
    expected, found = _batches(ours), _together(parts)
    if not complete:
        expected, found = expected[: len(found)], found[: len(expected)]
    if len(parts) == world > 1 and _replicated(expected, parts):
        detail = f"each of the {world} processes is dealt all samples"
        return Answer(_QUESTION, Verdict.DIFFERS, detail, (Suspicion("DATA-UNSHARDED", 3, detail, place),), ours.at)
    if expected == found:
        return Answer(_QUESTION, Verdict.IDENTICAL)
    pairs = list(zip_longest(expected, found, fillvalue=()))
    first = next((index for index, (a, b) in enumerate(pairs) if Counter(a) != Counter(b)), None)
    if first is None:
        return Answer(_QUESTION, Verdict.EQUIVALENT, "the same samples at each step, in another order within it")
    at = ours.batches[min(first, len(ours.batches) - 1)].at
    if _of_steps(ours) == _of_steps(*parts):
        return Answer(_QUESTION, Verdict.EQUIVALENT, "the same samples at each optimizer step, in other batches")
    if not _by_index(ours, *parts) and [len(a) for a, _ in pairs] == [len(b) for _, b in pairs]:
        detail = f"batch {first} has other contents: other samples, or other padding or augmentation"
        return Answer(_QUESTION, Verdict.NOT_SEEN, detail, (Suspicion("DATA-ORDER", 2, detail, place),), at)
    causes = tuple(_why(expected, found, first, complete, world, place))
    return Answer(_QUESTION, Verdict.DIFFERS, causes[0].evidence, causes, at)


def _why(
    expected: list[Samples], found: list[Samples], first: int, complete: bool, world: int, place: str
) -> Iterator[Suspicion]:
    inner = first < min(len(expected), len(found)) - 1
    if inner and len(found[first]) != len(expected[first]):
        evidence = f"a step sees {len(found[first])} samples instead of {len(expected[first])}"
        yield Suspicion("BATCH-SCALE", 3, evidence, place)
        return
    missing, extra, total = _difference(expected, found)
    if not complete or (missing and extra):
        evidence = f"batch {first} has other samples"
        if complete:
            evidence += f"; {missing} of {total} are dealt to nobody, {extra} to more than one process"
            yield Suspicion("DATA-SHARDED-TWICE", 2, evidence, place)
        yield Suspicion("DATA-ORDER", 3, evidence, place)
        return
    if missing:
        evidence = f"{missing} of {total} samples are dealt to nobody"
        if world > 1 and missing >= 0.9 * total * (1 - 1 / world):
            yield Suspicion("DATA-SHARDED-TWICE", 3, evidence, place)
        elif missing < max(map(len, expected)):
            yield Suspicion("DATA-TAIL", 3, evidence, place)
        yield Suspicion("DATA-MISSING", 2, evidence, place)
    elif extra:
        evidence = f"{extra} samples are dealt twice"
        yield Suspicion("DATA-TAIL", 3, evidence, place)
        yield Suspicion("DATA-SHARDED-TWICE", 1, evidence, place)
    else:
        yield Suspicion("DATA-ORDER", 3, f"batch {first} has other samples", place)


def _replicated(expected: list[Samples], parts: list[Pass]) -> bool:
    """Whether processes were all dealt the same, other than batches too small to be shared out."""
    batches = [_batches(part) for part in parts]
    shortest = min(map(len, (expected, *batches)))
    shareable = [index for index in range(shortest) if len(expected[index]) >= 2 * len(parts)]
    same = [index for index in shareable if all(part[index] == batches[0][index] for part in batches)]
    # The last batch may be replicated by intention.
    return len(same) > len(shareable) / 2


def _of_steps(*parts: Pass) -> dict[int, Counter[Any]]:
    found: dict[int, Counter[Any]] = {}
    for batch in chain.from_iterable(part.batches for part in parts):
        found.setdefault(batch.step, Counter()).update(batch.samples)
    return found


# ---- evaluation


def _evaluation(ours: Pass, parts: list[Pass], world: int) -> Answer:
    """Evaluation may go through its samples in other batches."""
    place = parts[0].place
    expected, found = _batches(ours), _together(parts)
    modes = ours.batches[0].mode, parts[0].batches[0].mode
    causes = []
    if all(modes) and modes[0] != modes[1]:
        causes.append(
            Suspicion("EVAL-MODE", 3, f"the model is evaluated in mode {modes[1]} instead of {modes[0]}", place)
        )
    if expected == found:
        return Answer(_QUESTION, Verdict.IDENTICAL, "", tuple(causes), ours.at)
    complete = ours.complete and all(part.complete for part in parts)
    if not complete or not _by_index(ours, *parts):
        return Answer(
            _QUESTION, Verdict.NOT_SEEN, "the samples of an evaluation cannot be told", tuple(causes), ours.at
        )
    missing, extra, total = _difference(expected, found)
    others = set(chain.from_iterable(found)) - set(chain.from_iterable(expected))
    if not missing and not others:
        detail = "evaluation sees the same samples, in other batches"
        if extra:
            causes.append(Suspicion("EVAL-TAIL", 2, f"{extra} samples are evaluated twice", place))
        return Answer(_QUESTION, Verdict.EQUIVALENT, detail, tuple(causes), ours.at)
    detail = f"{missing} of {total} samples are not evaluated" if missing else f"{len(others)} others are evaluated"
    tail = missing and not others and missing < max(map(len, expected))
    causes.append(Suspicion("EVAL-TAIL" if tail else "EVAL-DATA", 3, detail, place))
    return Answer(_QUESTION, Verdict.DIFFERS, detail, tuple(causes), ours.at)


# ---- batches


def _batches(of: Pass) -> list[Samples]:
    return [batch.samples for batch in of.batches]


def _together(parts: Sequence[Pass]) -> list[Samples]:
    """The samples of each step: those of all processes, or of one if all hold the same."""
    return [_of_all(step) for step in zip_longest(*map(_batches, parts), fillvalue=())]


def _of_all(step: tuple[Samples, ...]) -> Samples:
    if len(step) > 1 and step[0] and all(part == step[0] for part in step):
        return step[0]
    return tuple(chain.from_iterable(step))


def _by_index(*passes: Pass) -> bool:
    return all(batch.by_index for one in passes for batch in one.batches)


def _difference(expected: list[Samples], found: list[Samples]) -> tuple[int, int, int]:
    """How many samples are missing, how many are there too often, and how many there should be."""
    left, right = Counter(chain.from_iterable(expected)), Counter(chain.from_iterable(found))
    return (left - right).total(), (right - left).total(), left.total()
