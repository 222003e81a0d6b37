"""Every check of the worker scripts, run by jobs of two and of three processes."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from runtime_jobs import fork_ranks

from tests.forks import Forks

_WORKERS = Path(__file__).parent / "workers"


def _checks_of(worker: str) -> list[str]:
    """The names of a worker's checks, read without importing it (it would join a job)."""
    tree = ast.parse((_WORKERS / f"{worker}.py").read_text())
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(d, ast.Name) and d.id == "check" for d in node.decorator_list)
    ]


_NAMES = (
    "checkpoints",
    "collectives",
    "dealing",
    "debugging",
    "diverging",
    "faults",
    "loaders",
    "metrics",
    "passes",
    "tracking",
    "training",
    "verbs",
    "watching",
)
# Where the number of processes matters: shares of three kinds, and ranks that are neither first nor last.
_AT_THREE = ("collectives", "dealing", "training")
_REST = tuple(name for name in _NAMES if name not in _AT_THREE)
_EXHAUSTIVE = (pytest.mark.slow, pytest.mark.exhaustive)
_ALL = [
    pytest.param(worker, ranks, name, id=f"{worker}-{ranks}-{name}", marks=marks)
    for ranks, marks, workers in ((2, (), _NAMES), (3, (pytest.mark.slow,), _AT_THREE), (3, _EXHAUSTIVE, _REST))
    for worker in workers
    for name in _checks_of(worker)
]


def test_processes_draw_their_own_numbers(forks: Forks, tmp_path: Path) -> None:
    """As fresh ones do: what prepare has to make alike would be alike from the beginning."""
    script = tmp_path / "draws.py"
    script.write_text(
        "import random\nimport numpy\nimport torch\nprint(torch.rand(1).item(), numpy.random.rand(), random.random())"
    )
    (_, one), (_, other) = fork_ranks(forks, [str(script)], 2, tmp_path)
    assert not set(one.split()) & set(other.split()) and len(one.split()) == 3


@pytest.mark.parametrize(("worker", "ranks", "name"), _ALL)
def test_check(worker: str, ranks: int, name: str, jobs: Any) -> None:
    jobs(worker, ranks)(name)
