"""Measures what the documents claim, against budgets; every figure is a ratio within this run.

    python -m benchmarks [--corpus DIR...] [--peers DIR] [--runtime | --only NAME...] [--rounds N] [--json FILE]

Both sides of a ratio take turns on this machine, and the least CPU time (user and system, of whole processes) of
several rounds counts; inside a training loop it is the median of many epochs, and `jobs`, `save` and `load` are wall
time. Prints a table, where `peers` are the same ratios for others, as far as they are installed; progress goes to
stderr. Exit code 1 if a budget is missed or a measure failed, not if its peer is not installed.

The documents quote the scripts of pytorch/examples and eriklindernoren/PyTorch-GAN: clone them and name both folders
with --corpus. Without it the fixtures of this project are measured, which are few and short. The peers come with
`pip install '.[bench]'`, or from an environment of their own with --peers.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks import codemod, runtime
from benchmarks.measure import Failed, Measure, NotMeasured, Setting

MEASURES = {measure.name: measure for measure in (*codemod.MEASURES, *runtime.MEASURES)}
FIXTURES = Path(__file__).parents[1] / "fixtures" / "legacy"


@dataclass(frozen=True)
class Row:
    """A row of the table; `ratio` and `met` are None if there is no figure, and `verdict` says why."""

    name: str
    measure: str
    ratio: float | None
    budget: str
    met: bool | None
    verdict: str
    failed: bool = False
    peers: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        ratio = "" if self.ratio is None else f"{self.ratio:.4g}"
        peers = ", ".join(f"{name} {theirs:.4g}" for name, theirs in self.peers.items())
        return f"| {self.measure:<55} | {ratio:>6} | {self.budget:>6} | {self.verdict:<3} | {peers} |"


def take(measure: Measure, setting: Setting) -> Row:
    """Take one measure."""
    print(f"{measure.name} ...", end=" ", file=sys.stderr, flush=True)
    ratio, met, failed, peers = None, None, False, dict[str, float]()
    try:
        ratio = measure.run(setting)
        peers.update(measure.peers(setting) if measure.peers else {})
        met = measure.met(ratio)
        verdict = "yes" if met else "no"
    except NotMeasured as reason:
        verdict = f"not measured: {reason}"
    except Failed as reason:
        verdict, failed = f"failed: {reason}", True
    print(verdict if ratio is None else f"{ratio:.4g}", file=sys.stderr, flush=True)
    budget = f"{'≥' if measure.at_least else '≤'} {measure.budget:.3g}"
    return Row(measure.name, measure.title, ratio, budget, met, verdict, failed, peers)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    style = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=style)
    made.add_argument("--corpus", nargs="+", type=_folder, metavar="DIR", help="scripts to convert (default: fixtures)")
    made.add_argument("--irrelevant", type=_folder, metavar="DIR", help="Python without torch (default: sympy)")
    made.add_argument("--tree", nargs="+", type=_folder, metavar="DIR", help="many files (default: torch and sympy)")
    made.add_argument("--peers", type=_folder, metavar="DIR", help="folder with pyupgrade and torchfix")
    chosen = made.add_mutually_exclusive_group()
    chosen.add_argument("--runtime", action="store_true", help="only what the runtime library costs")
    chosen.add_argument("--only", nargs="+", choices=MEASURES, metavar="NAME", help=", ".join(MEASURES))
    made.add_argument("--rounds", type=int, default=5, choices=range(1, 101), metavar="N", help="default: 5")
    made.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    return made


def _folder(given: str) -> Path:
    path = Path(given).absolute()
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{given} is not a folder")
    return path


def main() -> int:
    """Take the measures and print the table; 1 if one failed or missed its budget."""
    given = parser().parse_args()
    corpus = tuple(given.corpus or [FIXTURES])
    tree = tuple(given.tree or filter(None, map(codemod.package, ("torch", "sympy"))))
    names = [measure.name for measure in runtime.MEASURES] if given.runtime else given.only or list(MEASURES)
    if not given.runtime:
        files = codemod.python_files(corpus)
        lines = sum(file.read_bytes().count(b"\n") for file in files)
        source = "" if given.corpus else " (this project's fixtures; --corpus names other folders)"
        print(f"{len(files)} scripts of {lines:,} lines{source}")
    print(f"rounds: {given.rounds}; Python {platform.python_version()}")
    with tempfile.TemporaryDirectory(prefix="accelift-benchmarks-") as scratch:
        setting = Setting(corpus, given.irrelevant, tree, given.peers, given.rounds, Path(scratch))
        rows = [take(MEASURES[name], setting) for name in names]
    print(f"\n| {'measure':<55} | {'ratio':>6} | {'budget':>6} | met | peers |")
    print(f"|{'-' * 57}|{'-' * 7}:|{'-' * 7}:|-----|-------|")
    print(*rows, sep="\n")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False) + "\n")
    return int(any(row.failed or row.met is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
