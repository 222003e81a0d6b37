"""Training on a GPU: converted scripts, one process, NCCL, and two processes of one GPU."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from runtime_jobs import Outcome, plain_environment, run_ranks

from fixtures.goldens import CONVERTED, convertible
from fixtures.runs import Run, compare

WORKERS = Path(__file__).parent / "workers"
ROOT = Path(__file__).parents[2]
JOBS = {"alone": 1, "through_nccl": 1, "shared": 2}  # how many processes
GPU = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0], "LOCAL_RANK": "0"}
# Their optimizers see the same gradients up to rounding on two processes, as on the CPU.
ON_TWO = ("cancer_trainer", "digits_flat", "digits_parts", "digits_resume", "iris_uneven", "wine_accum_modulo")
STEPS = 12

pytestmark = [pytest.mark.gpu, pytest.mark.slow]


def _checks_of(worker: str) -> list[str]:
    tree = ast.parse((WORKERS / f"{worker}.py").read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]


def _paths(*more: Path) -> str:
    return os.pathsep.join(map(str, [WORKERS, ROOT / "runtime", ROOT / "tests" / "runtime" / "workers", *more]))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    """Worker scripts run once, when their first check is asked for."""
    ran: dict[str, list[tuple[int, str]]] = {}
    folder = tmp_path_factory.mktemp("gpu")

    def outcomes_of(worker: str) -> Outcome:
        if worker not in ran:
            command = [str(WORKERS / f"{worker}.py"), str(folder / worker)]
            ran[worker] = run_ranks(command, JOBS[worker], PYTHONPATH=_paths(), **GPU)

        def outcome(name: str) -> None:
            for rank, (code, output) in enumerate(ran[worker]):
                report = folder / f"{worker}.{rank}.json"
                reported = json.loads(report.read_text()) if report.exists() else {}
                assert name in reported, f"rank {rank} (exit code {code}) never finished {name}:\n{output}"
                assert reported[name] is None, f"rank {rank}: {reported[name]}"
            assert all(code == 0 for code, _ in ran[worker]), ran[worker]

        return outcome

    return outcomes_of


@pytest.mark.parametrize(("worker", "name"), [(worker, name) for worker in JOBS for name in _checks_of(worker)])
def test_check(outcomes: Callable[[str], Outcome], worker: str, name: str) -> None:
    outcomes(worker)(name)


@pytest.mark.parametrize(
    "script",
    [pytest.param(one, id=one.stem) for one in convertible() if one.parent.name not in ("distributed", "encodings")],
)
def test_proved_on_the_gpu(script: Path, tmp_path: Path) -> None:
    """One process computes the bits of the original there, too."""
    proof = tmp_path / "proof.json"
    options = ["--shard-manual"] if script.parent.name == "handmade" else []
    options += ["--gpu", "--num-processes", "1", "--steps", "60", "--format", "json", "--output-file", str(proof)]
    done = subprocess.run(
        [sys.executable, "-m", "accelift_codemod", "verify", str(script), *options],
        env=plain_environment(**GPU) | {"PYTHONPATH": _paths(ROOT / "codemod")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert proof.exists(), done.stderr
    [comparison] = json.loads(proof.read_text())["comparisons"]
    assert comparison["verdict"] == "identical", json.dumps(comparison, indent=1)


@pytest.mark.parametrize("name", ON_TWO)
def test_two_processes_of_one_gpu(name: str, tmp_path: Path) -> None:
    [original] = [script for script in convertible() if script.stem == name and script.parent.name != "encodings"]
    traced = ["-m", "accelift.trace", "--tensors", "--steps", str(STEPS)]
    for label, ranks, command in (
        ("original", 1, [*traced, str(tmp_path / "original" / "trace"), str(original)]),
        (
            "converted",
            2,
            [
                str(WORKERS / "one_gpu.py"),
                *traced,
                str(tmp_path / "converted" / "trace"),
                str(CONVERTED / original.name),
            ],
        ),
    ):
        (tmp_path / label).mkdir()
        for code, output in run_ranks(command, ranks, PYTHONPATH=_paths(ROOT / "codemod"), **GPU):
            assert code == 0, output
    one, two = (Run(tmp_path / label / "trace", "") for label in ("original", "converted"))
    comparison = compare(one, two)
    assert comparison.steps == comparison.other_steps == STEPS
    assert comparison.difference <= 1e-5, comparison
