"""Copies of a project to run its scripts in, so that nothing of the user's is touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_COPIED = 1 << 20  # bytes; larger files are linked, and copied by the recorder if the script writes to them
_CODE = (".py", ".pyi", ".ipynb", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".txt", ".csv", ".sh", ".md")
_LEFT_OUT = {".git", "__pycache__", ".venv", "venv", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
_MANY = 2000  # files below a folder, which is linked as a whole if there is no code among them
_TOO_MANY = 20_000  # files to copy
PREFIX = "accelift-verify-"  # of scratch folders, which no copy holds


def copy_project(project: Path, to: Path) -> None:
    """Copy code and small files, link the rest.

    Raises:
        OSError: something cannot be read, the disk is full, or this is no project: there are too many files.
    """
    to.mkdir(parents=True)
    copied, most = 0, (0, project)
    for folder, folders, files in os.walk(project, followlinks=False):
        here = Path(folder)
        place = to / here.relative_to(project)
        place.mkdir(exist_ok=True)
        for name in list(folders):
            path = here / name
            if name in _LEFT_OUT or name.startswith(PREFIX) or (path / "pyvenv.cfg").exists():
                folders.remove(name)
            elif path.is_symlink() or _is_data(path):
                folders.remove(name)
                (place / name).symlink_to(path.resolve(), target_is_directory=True)
        copied += len(files)
        most = max(most, (len(files), here))
        if copied > _TOO_MANY:
            why = (
                f"{project} has more than {_TOO_MANY:,} files to copy, {most[0]:,} of them in {most[1]}; put data into "
                "a folder that has no code, or the script into one of its own project"
            )
            raise OSError(why)
        for name in files:
            _copy(here / name, place / name)


def _is_data(folder: Path) -> bool:
    """Whether there are many files below a folder, and no code among the first of them."""
    count = 0
    for _, _, files in os.walk(folder):
        if any(name.endswith(".py") for name in files):
            return False
        count += len(files)
        if count > _MANY:
            return True
    return False


def _copy(file: Path, to: Path) -> None:
    if not file.exists():  # a broken link
        return
    if file.is_file() and (file.suffix in _CODE or file.stat().st_size <= _COPIED):
        shutil.copy2(file, to)
    elif file.is_file():
        to.symlink_to(file.resolve())
