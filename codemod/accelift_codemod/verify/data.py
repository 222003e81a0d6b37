"""The question about data: did the processes together see the original's samples, once each, at the same steps?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, zip_longest
from typing import Any

from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.causes import overall
from accelift_codemod.verify.recording import Batch, Rank, Recording

Passes = dict[tuple[int, int], list[tuple[Any, ...]]]

_QUESTION = "the same samples, once each"


def compare_data(original: Recording, converted: Recording) -> Answer:
    """Compare what the loaders dealt, pass by pass."""
    ours = _passes(original.main)
    theirs = [_passes(rank) for rank in converted.ranks]
    if not ours:
        return Answer(_QUESTION, Verdict.NOT_SEEN, "no DataLoader is used")
    training = _training_loaders(original.main)
    answers = []
    for key, batches in ours.items():
        parts = [passes[key] for passes in theirs if key in passes]
        complete = key in original.main.complete and all(
            key in rank.complete for rank, passes in zip(converted.ranks, theirs, strict=True) if key in passes
        )
        place = converted.main.places.get(key[0], "")
        answers.append(_compare_pass(batches, parts, converted.world, complete, key[0] in training, place))
    verdict = overall(answers)
    worst = next((answer for answer in answers if answer.verdict is verdict), answers[0])
    suspicions = tuple({one.code: one for answer in answers for one in answer.suspicions}.values())
    return Answer(_QUESTION, verdict, worst.detail, suspicions if verdict is Verdict.DIFFERS else ())


def _passes(rank: Rank) -> Passes:
    found: Passes = {}
    for batch in rank.batches:
        found.setdefault((batch.loader, batch.pass_), []).append(batch.samples)
    return found


def _training_loaders(rank: Rank) -> set[int]:
    """Those whose batches are followed by optimizer steps."""
    following: Iterable[Batch | None] = chain(rank.batches[1:], [None])
    return {
        batch.loader
        for batch, after in zip(rank.batches, following, strict=True)
        if (len(rank.steps) if after is None else after.step) > batch.step
    }


def _compare_pass(
    ours: list[tuple[Any, ...]],
    parts: list[list[tuple[Any, ...]]],
    world: int,
    complete: bool,
    trains: bool,
    place: str,
) -> Answer:
    if not parts:
        if complete:
            detail = "a pass over a loader is missing"
            return Answer(_QUESTION, Verdict.DIFFERS, detail, (Suspicion("DATA-MISSING", 2, detail, place),))
        return Answer(_QUESTION, Verdict.NOT_SEEN)
    steps = [_together(step) for step in zip_longest(*parts, fillvalue=())]
    if not complete:
        ours, steps = ours[: len(steps)], steps[: len(ours)]
    if trains and world > 1 and len(parts) == world and _replicated(ours, parts):
        detail = f"each of the {world} processes is dealt all samples"
        return Answer(_QUESTION, Verdict.DIFFERS, detail, (Suspicion("DATA-UNSHARDED", 3, detail, place),))
    if ours == steps:
        return Answer(_QUESTION, Verdict.IDENTICAL)
    if len(ours) == len(steps) and all(Counter(a) == Counter(b) for a, b in zip(ours, steps, strict=True)):
        return Answer(_QUESTION, Verdict.EQUIVALENT, "the same samples at each step, in another order within it")
    suspicions = _why(ours, steps, world, complete, trains, place)
    if not trains and not complete:
        return Answer(_QUESTION, Verdict.NOT_SEEN)
    if not trains and _covers(ours, steps):
        return Answer(_QUESTION, Verdict.EQUIVALENT, "evaluation sees the same samples, in other batches")
    return Answer(_QUESTION, Verdict.DIFFERS, suspicions[0].evidence, suspicions)


def _together(parts: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    """The samples of one step: all parts, or the one that all processes hold."""
    held = [part for part in parts if part]
    if len(held) > 1 and len(held) == len(parts) and all(part == held[0] for part in held):
        return held[0]
    return tuple(chain.from_iterable(held))


def _replicated(ours: list[tuple[Any, ...]], parts: list[list[tuple[Any, ...]]]) -> bool:
    """Whether processes were all dealt the same, other than batches too small to be shared out."""
    shareable = [index for index, batch in enumerate(ours) if len(batch) >= 2 * len(parts)]
    same = [index for index in shareable if all(index < len(p) and p[index] == parts[0][index] for p in parts)]
    # The last batch may be replicated by intention.
    return len(same) > len(shareable) / 2


def _covers(ours: list[tuple[Any, ...]], steps: list[tuple[Any, ...]]) -> bool:
    return set(chain.from_iterable(ours)) == set(chain.from_iterable(steps))


def _why(
    ours: list[tuple[Any, ...]],
    steps: list[tuple[Any, ...]],
    world: int,
    complete: bool,
    trains: bool,
    place: str,
) -> tuple[Suspicion, ...]:
    expected, found = Counter(chain.from_iterable(ours)), Counter(chain.from_iterable(steps))
    missing, extra = (expected - found).total(), (found - expected).total()
    total = expected.total()
    code_of_tail = "DATA-TAIL" if trains else "EVAL-TAIL"
    first = next((i for i, (a, b) in enumerate(zip(ours, steps, strict=False)) if Counter(a) != Counter(b)), -1)
    sizes = (len(steps[0]), len(ours[0])) if ours and steps else (0, 0)
    scaled = trains and world > 1 and sizes[0] == world * sizes[1]
    if scaled:
        evidence = f"a step sees {sizes[0]} samples instead of {sizes[1]}"
        return (Suspicion("BATCH-SCALE", 3, evidence, place),)
    if complete and missing and not extra:
        evidence = f"{missing} of {total} samples are dealt to nobody"
        if world > 1 and missing >= total * (1 - 1 / world) * 0.9:
            return (Suspicion("DATA-SHARDED-TWICE", 3, evidence, place), Suspicion("DATA-MISSING", 2, evidence, place))
        at_end = first in (-1, len(steps), len(ours) - 1) or missing < max(map(len, ours))
        tail = (Suspicion(code_of_tail, 3, evidence, place),) if at_end else ()
        return (*tail, Suspicion("DATA-MISSING", 2, evidence, place))
    if complete and extra and not missing:
        evidence = f"{extra} samples are dealt twice"
        return (Suspicion(code_of_tail, 3, evidence, place), Suspicion("DATA-SHARDED-TWICE", 1, evidence, place))
    if complete and missing and extra:
        evidence = f"{missing} samples are dealt to nobody, {extra} to more than one process"
        return (
            Suspicion("DATA-ORDER", 2, evidence, place),
            Suspicion("DATA-SHARDED-TWICE", 2, evidence, place),
            Suspicion("DATA-MISSING", 2, evidence, place),
        )
    evidence = f"batch {max(first, 0)} has other samples"
    return (Suspicion("DATA-ORDER", 3, evidence, place),)
