"""What happens when a job of two processes goes wrong: what the user reads, after how long, and what is lost.

    python -m benchmarks.faults [--only FAULT...] [--timeout SECONDS]

Prints a table in Markdown; progress goes to stderr.  Every fault happens at the tenth step of
``benchmarks/faulty.py``, started with ``accelift launch``, which has saved its state after steps 4
and 8.  What is lost is found out by continuing from what is left.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("faulty.py")
FAULT_AT = 10
_SMALL = 32  # MB: room for two checkpoints, not for three
_LIMIT = 300  # seconds for a job; one that takes longer hangs

FAULTS = {
    "kill": "kill -9 of a rank",
    "exception": "an exception in one rank",
    "early": "a rank leaves the loop early and ends",
    "elsewhere": "a rank is busy elsewhere beyond the timeout",
    "guard": "a collective under a main-only guard",
    "shapes": "different shapes in gather",
    "shapes-debug": "different shapes in gather, debug mode",
    "kill-saving": "kill -9 of the main process during save_state",
    "full": "disk full during save_state",
    "corrupt": "a truncated file in a checkpoint that is loaded",
}


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Attributes:
        code: its exit code.
        errors: what it wrote to stderr.
        seconds: from the fault to its end.
        lost: what continuing from what is left comes to.
    """

    code: int
    errors: str
    seconds: float
    lost: str

    @property
    def said(self) -> str:
        """What there is to read first, without the frames of tracebacks."""
        found = ""
        for line in self.errors.splitlines():
            line = re.sub(r"^\[rank\d+\]: ?", "", line)
            if found and line.startswith(("  rank", "  what():")):
                found += f" {line.strip()};"
            elif found:
                break
            elif line.strip() and not line.startswith((" ", "Traceback")):
                found = line
        return found.rstrip(";")


def take(fault: str, timeout: int = 10, resume: bool = True) -> Outcome:
    """Let a fault happen.

    Args:
        fault: which one.
        timeout: the seconds that collective operations may wait.
        resume: find out what is lost.
    """
    with _folder(small=fault == "full") as (folder, limited):
        before = time.time()
        if fault == "corrupt":
            _launch("exception", folder, timeout)
            _truncate(folder / "step-8")
            before = time.time()
            code, errors = _launch("resume", folder, timeout)
            ended = time.time()
            shutil.rmtree(folder / "step-8")
        else:
            code, errors = _launch(fault, folder, timeout, more={"FAULTY_FILE_LIMIT": "1"} if limited else None)
            ended = time.time()
            mark = folder / "fault"
            before = mark.stat().st_mtime if mark.exists() else before
        return Outcome(code, errors, ended - before, _left(folder, timeout) if resume else "")


def _left(folder: Path, timeout: int) -> str:
    """How many steps are lost, by continuing."""
    code, output = _launch("resume", folder, timeout, both=True)
    found = re.search(r"resumed at step-(\d+)", output)
    if code or not found:
        return f"everything: {output.strip()}"
    return f"{FAULT_AT - int(found[1])} steps (continues at step {found[1]})"


def _launch(
    fault: str, folder: Path, timeout: int, both: bool = False, more: dict[str, str] | None = None
) -> tuple[int, str]:
    """Run the script; its exit code, and what it wrote to stderr, or to both streams."""
    for mark in folder.glob("ready.*"):
        mark.unlink()
    environment = {**os.environ, "ACCELIFT_TIMEOUT": str(timeout), "CUDA_VISIBLE_DEVICES": "", **(more or {})}
    command = [sys.executable, "-m", "accelift", "launch", "--cpu", "--num_processes", "2", str(SCRIPT), fault]
    job = subprocess.Popen(
        [*command, str(folder)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if both else subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = job.communicate(timeout=_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        output, errors = job.communicate()
        return 1, f"(hangs, ended after {_LIMIT} s)\n{output if both else errors}"
    return job.returncode, output if both else errors


def _truncate(checkpoint: Path) -> None:
    largest = max((path for path in checkpoint.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    os.truncate(largest, largest.stat().st_size // 2)


@contextmanager
def _folder(small: bool) -> Iterator[tuple[Path, bool]]:
    """A folder for checkpoints, maybe on a small disk; and whether the script must limit its files instead."""
    with tempfile.TemporaryDirectory(prefix="accelift-faults-") as name:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL}m", "none", name]
        mounted = small and shutil.which("mount") and subprocess.run(mount, capture_output=True).returncode == 0
        try:
            yield Path(name), small and not mounted
        finally:
            if mounted:
                subprocess.run(["umount", name], check=True)


def main() -> None:
    """Take the faults and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FAULTS, metavar="FAULT", default=list(FAULTS))
    parser.add_argument("--timeout", type=int, default=10, help="seconds that collective operations may wait")
    given = parser.parse_args()
    print("| fault | what the user reads | exit code | seconds | lost |")
    print("|---|---|---:|---:|---|")
    for fault in given.only:
        print(f"{fault} ...", file=sys.stderr, flush=True)
        outcome = take(fault, given.timeout)
        said = outcome.said.replace("|", "\\|")
        print(f"| {FAULTS[fault]} | {said} | {outcome.code} | {outcome.seconds:.1f} | {outcome.lost} |", flush=True)


if __name__ == "__main__":
    main()
