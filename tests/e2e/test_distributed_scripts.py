"""Scripts that distribute themselves, against their conversions: bit for bit the same on one process and on two."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from fixtures.goldens import CONVERTED
from fixtures.runs import FIXTURES, Run, compare
from tests.e2e.runner import Runner

FOLDER = FIXTURES / "distributed"
# torch.distributed.launch gives each process its number as an argument, which the recorder must not see.
# Gloo's threads, which let go of tensors when they get round to it, may abort a Python that is being taken down
# (pytorch/pytorch#179291), whatever its script did: a process whose script is done ends without that.
LAUNCHED = """\
import os, runpy, sys
sys.argv = ["trace", *sys.argv[1:]]
if "--local-rank" in open(sys.argv[3]).read():
    sys.argv.append(f"--local-rank={os.environ['LOCAL_RANK']}")
runpy.run_module("accelift.trace", run_name="__main__", alter_sys=True)
sys.stdout.flush()
os._exit(0)
"""


def files(folder: Path) -> set[str]:
    """The files that a run left."""
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def command(folder: Path, arguments: Sequence[str | Path]) -> str:
    """Run a command in a new folder, on the CPU; what it said."""
    folder.mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(FIXTURES.parent / "runtime"), environment.get("PYTHONPATH")])
    )
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def torchrun(script: Path, folder: Path, processes: int) -> Run:
    """Run a script as its author would, under the recorder."""
    trace = folder.with_suffix(".trace")
    recorder = folder.with_suffix(".launch.py")
    recorder.write_text(LAUNCHED)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    return Run(trace, command(folder, [*launcher, recorder, "--tensors", trace, script]))


@pytest.mark.slow
@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.exhaustive), 2])
@pytest.mark.parametrize(
    "name",
    ["wine_local_rank", *(pytest.param(n, marks=pytest.mark.exhaustive) for n in ("digits_ddp", "cancer_ddp_trainer"))],
)
def test_script(name: str, processes: int, run: Runner, tmp_path: Path) -> None:
    original = torchrun(FOLDER / f"{name}.py", tmp_path / "original", processes)
    (tmp_path / "converted").mkdir()
    converted = run(
        CONVERTED / f"{name}.py", tmp_path / "converted.trace", cwd=tmp_path / "converted", processes=processes
    )
    for rank in range(processes):
        expected, found = original.parameters(rank), converted.parameters(rank)
        assert len(expected) == len(found) > 10
        assert all(torch.equal(a, b) for s, t in zip(expected, found, strict=True) for a, b in zip(s, t, strict=True))
    assert compare(original, converted).identical
    assert files(tmp_path / "converted") == files(tmp_path / "original")
    if processes == 1:  # lines of several processes may be mixed
        assert converted.stdout == original.stdout


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_processes_that_the_script_starts(processes: int, tmp_path: Path) -> None:
    """No recorder gets into those: what they print and save at the end is compared."""
    script = "digits_spawn.py"
    said = command(tmp_path / "original", [FOLDER / script, "--world-size", str(processes)])
    launch = ["-m", "accelift", "launch", "--cpu", "--num_processes", str(processes)]
    assert command(tmp_path / "converted", [*launch, CONVERTED / script]) == said
    expected, found = (torch.load(tmp_path / kind / "digits_spawn.pt") for kind in ("original", "converted"))
    assert list(expected) == list(found)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_verify_runs_the_original_on_as_many_processes(tmp_path: Path) -> None:
    said = command(tmp_path / "verify", ["-m", "accelift_codemod", "verify", FOLDER / "digits_ddp.py"])
    assert said.rstrip().endswith("PROVED: converted, 1 process: identical; converted, 2 processes: identical.")


@pytest.mark.slow
def test_a_script_that_distributes_itself_only_if_it_is_told_to(tmp_path: Path) -> None:
    """Nobody tells it: both run on one process, with nothing around them."""
    script = "digits_switch.py"
    said = command(tmp_path / "original", [FOLDER / script])
    assert command(tmp_path / "converted", [CONVERTED / script]) == said
    expected, found = (torch.load(tmp_path / kind / "digits_switch.pt") for kind in ("original", "converted"))
    assert len(expected) == 4 and all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_verify_runs_a_script_that_nobody_tells_to_distribute_itself_on_one_process(tmp_path: Path) -> None:
    said = command(tmp_path / "verify", ["-m", "accelift_codemod", "verify", FOLDER / "digits_switch.py"])
    assert said.rstrip().endswith("PROVED: converted, 1 process: identical; converted, 2 processes: equivalent.")
