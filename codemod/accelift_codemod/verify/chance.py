"""Why several processes cannot compute what one does, and what a proof can do without."""

from __future__ import annotations

import re
from collections.abc import Sequence

from accelift_codemod.verify.answers import Suspicion, Verdict
from accelift_codemod.verify.causes import CAUSES
from accelift_codemod.verify.data import augmented, compare_data
from accelift_codemod.verify.recording import Recording

_SHUFFLES_OTHERWISE = re.compile(rb"\baccelerate\b|\bDistributedSampler\b")
_REASONS = {
    "BATCHNORM": "batch statistics",
    "SCALER": "scaled losses",
    "NOISE": "random numbers",
    "ORDER": "the order of the samples",
}
_WITHOUT = {
    "BATCHNORM": "batch normalization uses its running statistics",
    "SCALER": "losses are not scaled",
    "NOISE": "dropout passes everything, and noise is the same for every sample, or depends on its index alone where a "
    "data set draws it",
    "ORDER": "shuffled samples come in the same order",
}


def incomparable(original: Recording, one: Recording, many: Recording, converted: bytes) -> tuple[Suspicion, ...]:
    """Why several processes cannot compute what one does, as far as the runs show it.

    Args:
        original: a run of the original.
        one: the converted script on one process.
        many: the converted script on several processes.
        converted: the text of the converted script.
    """
    main = original.main
    found = []
    if main.normalizes:
        found.append(Suspicion("BATCHNORM", 2, "batch normalization in training mode", main.normalizes))
    if main.scales:
        found.append(Suspicion("SCALER", 2, "a gradient scaler", main.scales))
    if main.draws:
        found.append(Suspicion("NOISE", 2, "random numbers are drawn between batch and backward", main.draws))
    elif place := augmented(original, many):
        found.append(Suspicion("NOISE", 2, "samples have other contents each time", place))
    if _SHUFFLES_OTHERWISE.search(converted) and compare_data(original, one).verdict is not Verdict.DIFFERS:
        data = compare_data(original, many)
        if data.verdict is Verdict.DIFFERS and data.suspicions[0].code == "DATA-ORDER":
            found.append(Suspicion("ORDER", 2, data.detail, data.suspicions[0].place))
    return tuple(found)


def frozen_options(why: Sequence[Suspicion]) -> tuple[str, ...]:
    """The options of the recorder for runs without what stands in the way."""
    return ("--frozen", "--ordered") if any(one.code == "ORDER" for one in why) else ("--frozen",)


def in_words(why: Sequence[Suspicion]) -> str:
    """What was done without, for people."""
    reasons = "; ".join(f"{CAUSES[one.code]} ({one.place})" for one in why)
    without = "; ".join(_WITHOUT[one.code] for one in why)
    found = f"on several processes the same numbers cannot be had: {reasons}."
    return f"{found} So the proof was run once more without: {without}."


def in_short(why: Sequence[Suspicion]) -> str:
    """The reasons in a few words."""
    return " and ".join(_REASONS[one.code] for one in why)
