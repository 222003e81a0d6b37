"""What a measure is, and how costs are taken: in turns, from whole processes, the least of several rounds."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


class NotMeasured(Exception):
    """A measure that cannot be taken here; the message says why."""


class Failed(Exception):
    """A command that did not do what is measured; the message has the end of what it said."""


@dataclass(frozen=True)
class Setting:
    """What is measured on."""

    corpus: tuple[Path, ...]  # folders of scripts to convert
    irrelevant: Path | None  # a folder of Python that has little to do with torch
    tree: tuple[Path, ...]  # folders with many files, for several processes
    peers: Path | None  # a folder with the commands to compare with, searched before the others
    rounds: int  # how often each side is run
    scratch: Path  # a temporary folder

    def command(self, name: str) -> str:
        """The path of a command; NotMeasured if it is not installed."""
        places = [str(self.peers or ""), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        found = shutil.which(name, path=os.pathsep.join(filter(None, places)))
        if found is None:
            raise NotMeasured(f"{name} is not installed (pip install '.[bench]')")
        return found


@dataclass(frozen=True)
class Measure:
    """A ratio, `title` saying of what to what, and its limit: the upper one, or the lower one with `at_least`.

    `peers` tells the same ratio for others than ourselves, of the same run.
    """

    name: str
    title: str
    budget: float
    run: Callable[[Setting], float]
    at_least: bool = False
    peers: Callable[[Setting], Mapping[str, float]] | None = None

    def met(self, ratio: float) -> bool:
        """Whether a ratio keeps within the budget."""
        return ratio >= self.budget if self.at_least else ratio <= self.budget


@dataclass(frozen=True)
class Cost:
    """What a command took, in seconds, and what it printed."""

    cpu: float
    wall: float
    output: str


def run(argv: Sequence[str], exits: Collection[int] = (0,), environment: dict[str, str] | None = None) -> Cost:
    """Run a command to its end, with variables set; Failed if it ends with a traceback or none of these exit codes."""
    variables = {**os.environ, **(environment or {})}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled once, not by every run
    before, start = _cpu(), time.perf_counter()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=variables)
    cost = Cost(_cpu() - before, time.perf_counter() - start, done.stdout.decode(errors="replace"))
    errors = done.stderr.decode(errors="replace").strip()
    if done.returncode not in exits or "Traceback (most recent call last)" in errors:
        told = [line for line in errors.splitlines() if "Error" in line] or errors.splitlines() or ["it said nothing"]
        raise Failed(f"{Path(argv[0]).name} ended with exit code {done.returncode}: {told[-1].strip()}")
    return cost


def _cpu() -> float:
    """User and system time of all processes that have been waited for, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def least(rounds: int, *sides: Callable[[], float]) -> list[float]:
    """The least cost of each side, run in turns (A B A B ...)."""
    costs = [[side() for side in sides] for _ in range(rounds)]
    return [min(column) for column in zip(*costs, strict=True)]


def ratio(rounds: int, ours: Callable[[], float], theirs: Callable[[], float]) -> float:
    """The least cost of one side over that of the other, run in turns."""
    first, second = least(rounds, ours, theirs)
    return first / second
