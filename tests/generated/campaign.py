"""Converts and runs the scripts of many seeds: `python -m tests.generated.campaign FIRST LAST [PROCESSES] [by-hand]`.

Prints every difference, and how many scripts had which outcome. `by-hand` are those that make their batches without a
loader, converted with `--shard-manual`.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from accelift_codemod.api import FileResult, convert_bytes, convert_files
from accelift_codemod.options import Options

from tests.generated.byhand import by_hand
from tests.generated.files import ENTRY, Files
from tests.generated.running import Workshop, differences
from tests.generated.script import Script, generate

Say = Callable[[str], None]


@dataclass
class Tally:
    """What became of the scripts of a campaign."""

    scripts: int = 0
    compared: int = 0
    identical: int = 0
    trained_alike: int = 0  # the parameters are the same, whatever else is not
    announced: Counter[str] = field(
        default_factory=Counter
    )  # what training does differently, and the findings that say so
    outcomes: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)  # scripts of the generator that do not run
    wrong: list[str] = field(default_factory=list)


def convert(text: str, **options: bool) -> FileResult:
    """What the tool makes of a script."""
    return convert_bytes(text.encode(), "/train.py", Options(**options))  # type: ignore[arg-type]


def convert_project(files: Files, **options: bool) -> tuple[FileResult, Files]:
    """What the tool makes of a script and the files that it imports, and all their texts after it."""
    if len(files) == 1:
        result = convert(files[ENTRY], **options)
        return result, {ENTRY: result.output.decode()} if result.output is not None else files
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            place = Path(folder, name)
            place.parent.mkdir(exist_ok=True)
            place.write_text(text)
        (result,) = convert_files([(Path(folder, ENTRY), True)], Options(**options))  # type: ignore[arg-type]
        changed = {one.path: one.output for one in (result, *result.members) if one.output is not None}
        after = {name: changed.get(str(Path(folder, name)), text.encode()).decode() for name, text in files.items()}
    return result, after


# Which findings explain that results on several processes are others, by what differs. Scripts run with a seed here
# that seed nothing: of their noise, each process draws its own then, and DATA-UNSEEDED is all that is said.
_STEPS = frozenset(
    "NOTE-BN RNG-SAMENOISE LOSS-SUM LOSS-SHRUNK LOSS-MASKMEAN LOSS-UNKNOWN LOSS-INBATCH COLL-RANKFLOW "
    "DATA-SPLIT-UNSEEDED DATA-UNSEEDED".split()
)
_EXPLAINS = {
    "steps": _STEPS,
    "apart": frozenset({"COLL-RANKFLOW", "DATA-SPLIT-UNSEEDED"}),
    "stdout": _STEPS | {"METRIC-TRAIN", "METRIC-LOCAL", "PRINT-ALL"},
    "files": _STEPS | {"METRIC-TRAIN", "METRIC-LOCAL", "SAVE-RACE"},
    "failed": frozenset({"COLL-RANKFLOW", "NOTE-BN", "SAVE-RACE"}),
}


# How far rounding takes parameters apart, relative to their size.
_TOLERANCE, _COARSE = 1e-5, 5e-2


def unexplained(found: dict[str, str], codes: set[str]) -> dict[str, str]:
    """The differences on several processes that none of a conversion's findings explains."""
    return {what: why for what, why in found.items() if not codes & _EXPLAINS[what]}


def campaign(
    workshop: Workshop,
    seeds: Iterable[int],
    processes: int = 1,
    say: Say = lambda text: None,
    make: Callable[[int], Script] = generate,
) -> Tally:
    """Convert the scripts of the seeds, and run them: before on one process, after on some; say what goes wrong."""
    tally = Tally()
    for seed in seeds:
        _one(workshop, make(seed), processes, tally)
        for one in (tally.broken, tally.wrong):
            if one and one[-1].startswith(f"seed {seed}"):
                say(one[-1])
    return tally


def _one(workshop: Workshop, script: Script, processes: int, tally: Tally) -> None:
    tally.scripts += 1
    result, after = convert_project(script.files, shard_manual=script.by_hand)
    if result.plan is None or result.error or result.fault:
        tally.wrong.append(f"seed {script.seed}: {result.error}")
        return
    if result.output is None:
        finding = result.plan.findings[0]
        tally.outcomes[f"{result.plan.outcome.value}: {finding.code} {finding.message}"] += 1
        return
    tally.outcomes[result.plan.outcome.value] += 1
    old, new = workshop.runs(script.files, after, processes=processes)
    if old["failed"]:
        tally.broken.append(f"seed {script.seed}: {old['failed']}")
        return
    tally.compared += 1
    tolerance = _COARSE if script.coarse else _TOLERANCE
    found = differences(old, new, 0.0 if processes == 1 else tolerance)
    codes = {finding.code for one in (result, *result.members) if one.plan for finding in one.plan.findings}
    tally.identical += not found
    tally.trained_alike += "steps" not in found and "failed" not in found
    for what in found.keys() & {"steps", "failed"} if processes > 1 else ():
        if told := codes & _EXPLAINS[what]:
            tally.announced[f"{what}: {' '.join(sorted(told))}"] += 1
    if found := found if processes == 1 else unexplained(found, codes):
        tally.wrong.append(f"seed {script.seed} {' '.join(script.traits)} {sorted(codes)}: {found}")


def main(first: str, last: str, processes: str = "1", kind: str = "usual") -> None:
    """Print what became of the scripts from one seed to another."""
    make = by_hand if kind == "by-hand" else generate
    with Workshop() as workshop:
        say = lambda text: print(text, flush=True)  # noqa: E731
        found = campaign(workshop, range(int(first), int(last)), int(processes), say, make)
    print(f"{found.scripts} scripts, {found.compared} run before and after: {found.identical} the same, ", end="")
    print(f"{found.trained_alike} with the same parameters after every step, ", end="")
    print(f"{len(found.wrong)} different and not explained")
    for told, count in found.announced.most_common():
        print(f"{count:6} differ as announced, {told}")
    for outcome, count in found.outcomes.most_common():
        print(f"{count:6} {outcome}")


if __name__ == "__main__":
    main(*sys.argv[1:])
