"""Starting jobs of several processes, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.forks import Forks, Order
from tests.forks import ranks as variables_of
from tests.ports import free_port

HERE = Path(__file__).parent
RUNTIME = HERE.parents[1] / "runtime"

_LATE = "(took too long)\n"
RANK_VARIABLES = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def plain_environment(**more: str) -> dict[str, str]:
    """The environment of a process that is not part of any job, without GPUs."""
    prefixes = ("ACCELERATE_", "ACCELIFT_")
    found = {k: v for k, v in os.environ.items() if not k.startswith(prefixes) and k not in RANK_VARIABLES}
    paths = [str(RUNTIME), str(HERE / "workers"), found.get("PYTHONPATH", "")]
    found["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return found | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""} | more


def run_ranks(command: list[str], ranks: int, timeout: float = 240, **environment: str) -> list[tuple[int, str]]:
    """Run a command as every rank of a job; returns exit codes and outputs."""
    jobs = [
        subprocess.Popen(
            [sys.executable, *command],
            env=plain_environment(**{**variables, **environment}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        for variables in variables_of(ranks, free_port())
    ]
    try:
        outputs = [job.communicate(timeout=timeout)[0] for job in jobs]
    except subprocess.TimeoutExpired:
        outputs = []
        for job in jobs:
            late = "" if job.poll() is not None else _LATE
            with suppress(ProcessLookupError):  # one that has ended may say why the others wait
                os.killpg(job.pid, signal.SIGKILL)
            outputs.append(late + (job.communicate()[0] or ""))
    return [(job.returncode, output) for job, output in zip(jobs, outputs, strict=True)]


def fork_ranks(
    forks: Forks, command: list[str], ranks: int, folder: Path, timeout: float = 240
) -> list[tuple[int, str]]:
    """Do the same in forks, which are cheaper; their output goes to files in a folder."""
    outputs = [folder / f"output.{rank}" for rank in range(ranks)]
    order = Order(
        arguments=tuple(command),
        cwd=str(Path.cwd()),
        outputs=tuple((str(output), str(output)) for output in outputs),
        environments=tuple(plain_environment(**variables) for variables in variables_of(ranks, free_port())),
        seconds=timeout,
    )
    ended = forks.run(order)
    late = _LATE if ended.late else ""
    return [(code, late + output.read_text()) for code, output in zip(ended.codes, outputs, strict=True)]


Outcome = Callable[[str], None]


def outcomes_of(worker: str, ranks: int, folder: Path, forks: Forks) -> Outcome:
    """Run the checks of a worker script; returns a function that asserts that one went well."""
    results = fork_ranks(forks, [str(HERE / "workers" / f"{worker}.py"), str(folder / worker)], ranks, folder)

    def outcome(name: str) -> None:
        for rank, (code, output) in enumerate(results):
            report = folder / f"{worker}.{rank}.json"
            reported = json.loads(report.read_text()) if report.exists() else {}
            if name not in reported:
                pytest.fail(f"rank {rank} (exit code {code}) never finished {name}:\n{output}")
            if reported[name] is not None:
                pytest.fail(f"rank {rank}: {reported[name]}")

    return outcome
