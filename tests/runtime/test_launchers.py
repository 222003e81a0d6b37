"""Starting processes from Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from accelift import Accelerator, debug_launcher, launchers, notebook_launcher
from runtime_jobs import HERE, plain_environment

from tests.ports import free_port


@pytest.mark.slow
def test_processes(tmp_path: Path) -> None:
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    out.mkdir()
    temporary.mkdir()
    command = [sys.executable, str(HERE / "workers" / "launching.py"), "all", str(out), str(free_port())]
    environment = plain_environment(TMPDIR=str(temporary), OMP_NUM_THREADS="2")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.stdout.endswith("fine\n"), done.stdout + done.stderr
    cpu = "27000000.0 {} cpu True"
    expected = {f"debug.{rank}": f"{rank} 6 {cpu.format('no')} debug 3" for rank in range(3)}
    expected |= {f"notebook.{rank}": f"{rank} 3 {cpu.format('bf16')} notebook" for rank in range(2)}
    expected |= {f"port.{rank}": f"{rank} 3 {cpu.format('no')} port" for rank in range(2)}
    expected |= {f"attempt.{rank}": "2" for rank in range(2)}
    assert {path.name: path.read_text() for path in out.iterdir()} == expected


@pytest.mark.slow
def test_restarts_of_launched_jobs(tmp_path: Path) -> None:
    command = ["-m", "accelift", "launch", "--cpu", "--num_processes", "2", "--max_restarts", "1"]
    script = [str(HERE / "workers" / "restarted.py"), str(tmp_path / "attempt")]
    done = subprocess.run(
        [sys.executable, *command, *script], env=plain_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"attempt.0": "1", "attempt.1": "1"}


def test_one_process_calls_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launchers, "_gpus", lambda: 0)
    found: list[Any] = []

    def train(x: int) -> None:
        acc = Accelerator()
        found.append((x, acc.mixed_precision, acc.num_processes, os.getpid(), acc.state.fork_launched))

    notebook_launcher(train, (1,), num_processes=1)
    notebook_launcher(train, (2,), mixed_precision="bf16")
    debug_launcher(train, (3,), num_processes=1)
    here = (1, os.getpid(), False)
    assert found == [(1, "no", *here), (2, "bf16", *here), (3, "no", *here)]
    assert "ACCELERATE_MIXED_PRECISION" not in os.environ and "ACCELERATE_USE_CPU" not in os.environ


def test_gpus_are_counted_by_another_process() -> None:
    assert launchers._gpus() == 0


def test_an_accelerator_before() -> None:
    Accelerator()
    for launch in (lambda: debug_launcher(print), lambda: notebook_launcher(print, num_processes=2)):
        with pytest.raises(RuntimeError, match=r"there is an Accelerator already; .*\.$"):
            launch()


def test_cuda_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(RuntimeError, match="as CUDA was initialised in this one"):
        notebook_launcher(print, num_processes=2)


def test_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="num_processes=0 is not possible"):
        debug_launcher(print, num_processes=0)
    with pytest.raises(ValueError, match="without max_restarts"):
        notebook_launcher(print, num_processes=1, num_nodes=2, max_restarts=1)
    with pytest.raises(ValueError, match="node_rank=2 is not one of 2 machines"):
        notebook_launcher(print, num_processes=1, node_rank=2, num_nodes=2)
