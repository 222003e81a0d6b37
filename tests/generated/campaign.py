"""Converts and runs the scripts of many seeds: `python -m tests.generated.campaign FIRST LAST [PROCESSES]`.

Prints every difference, and how many scripts had which outcome.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from accelift_codemod.api import FileResult, convert_bytes
from accelift_codemod.blueprint import Options

from tests.generated.running import Workshop, differences
from tests.generated.script import Script, generate


@dataclass
class Tally:
    """What became of the scripts of a campaign."""

    scripts: int = 0
    compared: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)  # scripts of the generator that do not run
    wrong: list[str] = field(default_factory=list)


def convert(text: str) -> FileResult:
    """What the tool makes of a script."""
    return convert_bytes(text.encode(), "/train.py", Options())


def campaign(seeds: Iterable[int]) -> Tally:
    """Convert the scripts of the seeds, and run them before and after on one process."""
    tally = Tally()
    with Workshop() as workshop:
        for seed in seeds:
            _one(workshop, generate(seed), tally)
    return tally


def _one(workshop: Workshop, script: Script, tally: Tally) -> None:
    tally.scripts += 1
    result = convert(script.text)
    if result.plan is None or result.error or result.fault:
        tally.wrong.append(f"seed {script.seed}: {result.error}")
        return
    if result.output is None:
        finding = result.plan.findings[0]
        tally.outcomes[f"{result.plan.outcome.value}: {finding.code} {finding.message}"] += 1
        return
    tally.outcomes[result.plan.outcome.value] += 1
    old, new = workshop.runs(script.text, result.output.decode())
    if old["failed"]:
        tally.broken.append(f"seed {script.seed}: {old['failed']}")
        return
    tally.compared += 1
    if found := differences(old, new):
        tally.wrong.append(f"seed {script.seed} {' '.join(script.traits)}: {found}")


if __name__ == "__main__":
    found = campaign(range(int(sys.argv[1]), int(sys.argv[2])))
    print("\n".join([*found.broken, *found.wrong]))
    print(f"{found.scripts} scripts, {found.compared} run before and after, {len(found.wrong)} differ")
    for outcome, count in found.outcomes.most_common():
        print(f"{count:6} {outcome}")
