"""Every fixture, before and after its conversion: the same on one process, the same mathematics on two."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.goldens import CONVERTED, convertible
from fixtures.runs import compare, run

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

SCRIPTS = [pytest.param(script, id=script.stem) for script in convertible()]


def files(folder: Path) -> set[str]:
    """What a script wrote, besides the trace."""
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.parent.name != "trace"}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_script(script: Path, tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("original", "one", "two")}
    for folder in folders.values():
        folder.mkdir()
    original = run(script, tmp_path / "trace" / "original", cwd=folders["original"])
    one = run(CONVERTED / script.name, tmp_path / "trace" / "one", cwd=folders["one"])
    two = run(CONVERTED / script.name, tmp_path / "trace" / "two", cwd=folders["two"], processes=2)

    comparison = compare(original, one)
    assert comparison.identical, f"step {comparison.first} differs by {comparison.difference:.1e}"
    assert one.stdout == original.stdout
    assert files(folders["one"]) == files(folders["original"])

    # Everything is said and written once, not by each process.
    assert len(two.stdout.splitlines()) == len(original.stdout.splitlines()) or script.stem in EARLY
    assert files(folders["two"]) == files(folders["original"])
    comparison = compare(original, two, steps=STEPS)
    if script.stem not in RANDOM:
        assert comparison.steps == comparison.other_steps
        assert comparison.difference <= TOLERANCE


# Early stopping ends it after another number of epochs.
EARLY = {"digits_batchnorm"}
