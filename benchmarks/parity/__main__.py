"""Compares what scripts compute with the runtime library, and with Accelerate, with what they compute in plain PyTorch.

    python -m benchmarks.parity [--only TEXT...] [--json FILE]

Prints a table in Markdown; progress goes to stderr. On 1 process all parameters must have the bits of the plain script
at the end of training; on 2 processes, which share out the global batch of the script, the largest difference of any
parameter on any process from those of the plain script on one process is told, where rounding makes some 1e-7.

Both libraries run the same script. Accelerate gets the settings that keep most of what a script computes:
DataLoaderConfiguration(split_batches=True), and loaders that are shuffled by a generator of their own, since it would
shuffle otherwise with torch's global one; one row shows that. Exit code 1 if the runtime library cannot run a script or
has other bits on 1 process, or differs on 2 by more than the script's rounding.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from benchmarks.measure import Failed, run
from benchmarks.parity.library import Parameters, difference
from benchmarks.parity.scripts import SCRIPTS, Script

LIBRARIES = ("accelift", "accelerate")


@dataclass(frozen=True)
class Cell:
    """What became of a script: how much its parameters differ from the plain ones, or why there are none."""

    difference: float | None
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """A script, and its cells by library and number of processes (`accelift 1`)."""

    script: str
    remark: str
    cells: dict[str, Cell]


def parameters_of(name: str, processes: int, numbers: Sequence[int], folder: Path) -> dict[int, list[Parameters] | str]:
    """For each script the parameters on every process, or the reason why there are none."""
    print(f"{name}, {processes} process{'es' * (processes > 1)} ...", file=sys.stderr, flush=True)
    python = [sys.executable]
    if processes > 1:
        python += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    folder.mkdir()
    found: dict[int, list[Parameters] | str] = {}
    left = list(numbers)
    while left:
        broken = ""
        try:
            run([*python, "-m", "benchmarks.parity.worker", name, str(folder), *map(str, left)])
        except Failed as error:
            broken = str(error)
        for number in left:
            files = [folder / f"{number}.{rank}.pt" for rank in range(processes)]
            results = [torch.load(file) for file in files if file.exists()]
            reason = next((result for result in results if isinstance(result, str)), broken)
            complete = len(results) == processes and not any(isinstance(result, str) for result in results)
            found[number] = results if complete else reason
            if not complete:
                break
        left = [number for number in left if number not in found]
    return found


def compare(numbers: Sequence[int], folder: Path) -> list[Row]:
    """Run the scripts everywhere."""
    scripts = list(SCRIPTS.values())
    plain = parameters_of("plain", 1, numbers, folder / "plain")
    cells: dict[int, dict[str, Cell]] = {number: {} for number in numbers}
    for name in LIBRARIES:
        for processes in (1, 2):
            there = importlib.util.find_spec(name) is not None
            found = parameters_of(name, processes, numbers, folder / f"{name}-{processes}") if there else {}
            for number in numbers:
                cells[number][f"{name} {processes}"] = _cell(found.get(number, "not installed"), plain[number])
    return [Row(scripts[number].name, scripts[number].remark, cells[number]) for number in numbers]


def _cell(found: list[Parameters] | str, plain: list[Parameters] | str) -> Cell:
    if isinstance(plain, str):
        return Cell(None, f"the plain script: {plain}")
    if isinstance(found, str):
        return Cell(None, found)
    return Cell(max(difference(parameters, plain[0]) for parameters in found))


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown, with notes below."""
    columns = {
        f"{name} {count}": f"{name}, {count} process{'es' * (count > 1)}" for name in LIBRARIES for count in (1, 2)
    }
    notes: list[str] = []
    lines = [["script", *columns.values()], ["---"] * (1 + len(columns))]
    for row in rows:
        title = row.script + _note(row.remark, notes)
        lines.append([title, *(_text(row.cells[column], column.endswith("1"), notes) for column in columns)])
    told = [f"\n[{number}] {note}" for number, note in enumerate(notes, 1)]
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), *told])


def _text(cell: Cell, must_be_equal: bool, notes: list[str]) -> str:
    if cell.difference is None:
        return f"fails{_note(cell.reason, notes)}" if cell.reason != "not installed" else cell.reason
    if must_be_equal:
        return "bit-equal" if cell.difference == 0 else f"**no**, {cell.difference:.1e}"
    return f"{cell.difference:.1e}"


def _note(text: str, notes: list[str]) -> str:
    if not text:
        return ""
    text = " ".join(text.split())
    if text not in notes:
        notes.append(text)
    return f" [{notes.index(text) + 1}]"


def _as_promised(row: Row, script: Script) -> bool:
    one, two = (row.cells[f"accelift {processes}"].difference for processes in (1, 2))
    return one == 0 and two is not None and two <= script.rounding


def main() -> int:
    """Print the table; 1 if the runtime library does not keep what it promises."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.parity", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--only", nargs="+", metavar="TEXT", help="only scripts with one of these in their names")
    made.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    given = made.parse_args()
    wanted = [
        number for number, name in enumerate(SCRIPTS) if not given.only or any(text in name for text in given.only)
    ]
    with tempfile.TemporaryDirectory(prefix="accelift-parity-") as scratch:
        rows = compare(wanted, Path(scratch))
    print(table(rows))
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return int(not all(_as_promised(row, SCRIPTS[row.script]) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
