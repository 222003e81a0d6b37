"""Every fixture, before and after its conversion: the same on one process, the same mathematics on two."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures import runs
from fixtures.goldens import CONVERTED, FIXTURES, convertible, projects
from fixtures.runs import Run, compare
from tests.e2e.runner import Runner

# Rounding grows over many steps of Adam and dead units, so two processes are compared where it has not yet.
STEPS = 12
TOLERANCE = 1e-5

# What draws other random numbers, or sees other batches, on two processes: nothing a conversion could keep.
RANDOM = {
    "cancer_main": "dropout",
    "diabetes_schedule": "dropout",
    "digits_autoencoder": "noise in the model",
    "digits_batchnorm": "dropout and BatchNorm",
    "digits_gan": "noise",
    "digits_tqdm": "dropout",
    "mnist_globals": "dropout",
    "wine_keywords": "dropout",
}
# Scripts that say another number of lines on two processes, and why.
LINES = {
    "digits_batchnorm": "early stopping ends it after another number of epochs",
    "digits_logging": "the logging module writes on every process (PRINT-ALL)",
    "wine_keywords": "the last line is printed where the accelerator is not at hand (PRINT-ALL)",
}
# What CI runs of the fixtures: each shape of script once; `make test-all` runs them all.
ALWAYS = {
    "digits_base_trainer",
    "digits_flat",
    "digits_parts",
    "digits_resume",
    "iris_uneven",
    "mnist_globals",
    "wine_metric_logger",
}


def recorded(run: Callable[..., Run], script: Path, folder: Path, processes: int | None = None) -> tuple[Run, set[str]]:
    """Run a script in a folder of its own; also tells which files it wrote."""
    folder.mkdir()
    done = run(script, folder.with_suffix(".trace"), cwd=folder, processes=processes)
    return done, {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=script.stem, marks=() if script.stem in ALWAYS else pytest.mark.exhaustive)
        for script in convertible()
        if script.parent.name != "distributed"  # these need a launcher: see test_distributed_scripts.py
    ],
)
def test_script(script: Path, run: Runner, tmp_path: Path) -> None:
    original, files = recorded(run, script, tmp_path / "original")
    one, files_of_one = recorded(run, CONVERTED / script.name, tmp_path / "one")
    comparison = compare(original, one)
    assert comparison.identical, f"step {comparison.first} differs by {comparison.difference:.1e}"
    assert one.stdout == original.stdout
    assert files_of_one == files
    if script.parent.name == "encodings":
        return  # these are about bytes; the others train in the same ways

    two, files_of_two = recorded(run, CONVERTED / script.name, tmp_path / "two", processes=2)
    # Everything is said and written once, not by each process.
    assert files_of_two == files
    if script.stem not in LINES:
        assert len(two.stdout.splitlines()) == len(original.stdout.splitlines())
    if script.stem not in RANDOM:
        comparison = compare(original, two, steps=STEPS)
        assert comparison.steps == comparison.other_steps
        assert comparison.difference <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=script.parent.name, marks=pytest.mark.exhaustive if index else ())
        for index, script in enumerate(projects())
    ],
)
def test_project(script: Path, run: Runner, tmp_path: Path) -> None:
    """The same for scripts that are converted with the files that they import."""
    name = script.parent.name
    converted = tmp_path / "converted"
    shutil.copytree(script.parent, converted)
    shutil.copytree(CONVERTED / "projects" / name, converted, dirs_exist_ok=True)
    original, files = recorded(run, FIXTURES / "projects" / name / script.name, tmp_path / "original")
    one, files_of_one = recorded(run, converted / script.name, tmp_path / "one")
    assert compare(original, one).identical
    assert (one.stdout, files_of_one) == (original.stdout, files)
    two, files_of_two = recorded(run, converted / script.name, tmp_path / "two", processes=2)
    assert (len(two.stdout), files_of_two) == (len(original.stdout), files)
    comparison = compare(original, two, steps=STEPS)
    assert comparison.steps == comparison.other_steps
    assert comparison.difference <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("processes", [pytest.param(None, marks=pytest.mark.exhaustive), 2])
def test_forks_do_what_fresh_processes_do(processes: int | None, run: Runner, tmp_path: Path) -> None:
    """Under the launcher, too, if there are several."""
    script = CONVERTED / "digits_flat.py"
    (fresh, files), (forked, same_files) = (
        recorded(way, script, tmp_path / name, processes) for way, name in ((runs.run, "fresh"), (run, "forked"))
    )
    assert compare(fresh, forked).identical
    assert (forked.stdout, same_files) == (fresh.stdout, files)
