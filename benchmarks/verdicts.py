"""What `accelift verify` says of scripts, and what it costs: those of fixtures/legacy, or others.

    python -m benchmarks.verdicts [SCRIPT...] [--steps N] [--cost] [--json FILE]

Prints a table in Markdown; progress goes to stderr. With --cost also the wall time of each proof, next to that of the
original and the converted script on one and on two processes without any recording, and that of a recorded step of
benchmarks/recorded.py, next to a plain one. Exit code 1 if something differs
or could not be run. This executes the scripts, in temporary folders.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[1] / "fixtures" / "legacy"
RECORDED = Path(__file__).with_name("recorded.py")
_ALL = 10**9  # steps
ACCELIFT = [sys.executable, "-m", "accelift_codemod"]


@dataclass(frozen=True)
class Verdict:
    """A row of the table; `cost` is the wall time of the proof next to that of plain runs."""

    script: str
    proved: bool
    one: str
    two: str
    evidence: str
    cost: float | None = None

    def __str__(self) -> str:
        cost = "" if self.cost is None else f" {self.cost:.1f} |"
        return f"| {self.script} | {self.one} | {self.two} | {self.evidence} |{cost}"


def verify(script: Path, steps: int, cost: bool) -> Verdict:
    """Have a script verified in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="accelift-verdicts-") as scratch:
        folder = Path(scratch) / "verified"
        folder.mkdir()
        shutil.copy(script, folder)
        begun = time.perf_counter()
        command = [*ACCELIFT, "verify", script.name, "--format", "json", "-q", "--steps", str(steps)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - begun
        if done.returncode not in (0, 1) or not done.stdout:
            said = done.stderr.strip().splitlines()
            return Verdict(script.stem, False, "not run", "not run", said[-1] if said else "it said nothing")
        plain = _plain_runs(script, Path(scratch)) if cost else None
        return read(script.stem, json.loads(done.stdout), None if plain is None else seconds / plain)


def read(name: str, report: dict[str, Any], cost: float | None = None) -> Verdict:
    """The row of a report in JSON."""
    one, *others = report["comparisons"]
    two = ", ".join(_verdict(other) for other in others) or "not run"
    return Verdict(name, report["proved"], one["verdict"], two, _evidence(([one, *others])[-1]), cost)


def _verdict(comparison: dict[str, Any]) -> str:
    _, _, way = comparison["comparison"].partition("processes, ")
    verdict: str = comparison["verdict"]
    return f"{way}: {verdict}" if way else verdict


def _evidence(comparison: dict[str, Any]) -> str:
    """How far apart the parameters were, what else could not be compared, and what may be behind a difference."""
    details = {answer["question"]: answer["detail"] for answer in comparison["answers"]}
    others = [one["question"] for one in comparison["answers"] if one["verdict"] == "not comparable"]
    causes = ", ".join(cause["cause"] for cause in comparison["causes"][:3])
    parts = [f"parameters: {details.get('the same parameters', 'not seen')}"]
    parts += [f"not comparable: {', '.join(others)}"] if others else []
    return "; ".join(filter(None, (*parts, causes)))


def _plain_runs(script: Path, scratch: Path) -> float:
    """The wall time of the original, and of the converted script on one and on two processes."""
    total = 0.0
    for number, command in enumerate(
        ([sys.executable], [sys.executable], [*ACCELIFT, "launch", "--cpu", "--num_processes", "2"])
    ):
        folder = scratch / f"plain-{number}"
        folder.mkdir()
        shutil.copy(script, folder)
        if number:
            convert = [*ACCELIFT, "convert", script.name, "--write", "-q"]
            subprocess.run(convert, cwd=folder, check=False, capture_output=True)
        begun = time.perf_counter()
        subprocess.run([*command, script.name], cwd=folder, check=True, capture_output=True)
        total += time.perf_counter() - begun
    return total


def per_step(size: str, rounds: int = 3) -> float:
    """How much longer a training step takes when it is recorded: the least of several runs of each, in turns."""
    best = [float("inf"), float("inf")]
    with tempfile.TemporaryDirectory(prefix="accelift-verdicts-") as scratch:
        for _ in range(rounds):
            for number, around in enumerate(([], ["-m", "accelift.recorder", scratch])):
                command = [sys.executable, *around, str(RECORDED), size]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                best[number] = min(best[number], float(done.stdout.split()[-1]))
    return best[1] / best[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Verify each script and print the table."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts", description=__doc__, formatter_class=style)
    parser.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT", help="default: fixtures/legacy")
    parser.add_argument("--steps", type=int, default=300, metavar="N", help="of each run at most (default: 300)")
    parser.add_argument("--cost", action="store_true", help="also run without recording; then nothing is cut short")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    given = parser.parse_args(argv)
    rows = []
    for script in given.scripts or sorted(FIXTURES.glob("*.py")):
        print(f"{script.stem} ...", end=" ", file=sys.stderr, flush=True)
        rows.append(verify(script.absolute(), _ALL if given.cost else given.steps, given.cost))
        print("proved" if rows[-1].proved else "NOT PROVED", file=sys.stderr, flush=True)
    cost = " proof / plain runs |" if given.cost else ""
    print(f"| script | 1 process | 2 processes | evidence |{cost}")
    print("|---|---|---|---|" + ("---|" if given.cost else ""))
    print(*rows, sep="\n")
    if given.cost:
        ratios = {size: per_step(size) for size in ("small", "large")}
        print("\na recorded step / a plain one: " + ", ".join(f"{size} {ratio:.1f}" for size, ratio in ratios.items()))
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return int(not all(row.proved for row in rows))


if __name__ == "__main__":
    sys.exit(main())
