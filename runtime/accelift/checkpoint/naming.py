"""Checkpoints that are numbered: ``checkpoints/checkpoint_0``, ``checkpoint_1``, ..."""

from __future__ import annotations

import re
import shutil
import warnings
from contextlib import suppress
from pathlib import Path

from accelift.checkpoint.files import CheckpointError
from accelift.checkpoint.folder import MANIFEST, Folder

_NAME = re.compile(r"checkpoint_(\d+)")
_LEAVING = ".leaving"


class Numbered:
    """The checkpoints of a project.

    Args:
        project_dir: the folder of the project.

    Raises:
        ValueError: if there is none.
    """

    def __init__(self, project_dir: str | None) -> None:
        if project_dir is None:
            raise ValueError("automatic_checkpoint_naming needs a folder: give Accelerator a project_dir.")
        self._folder = Path(project_dir) / "checkpoints"

    def path(self, number: int) -> Path:
        """The folder of a checkpoint."""
        return self._folder / f"checkpoint_{number}"

    def numbers(self) -> list[int]:
        """The numbers of those that are there, in order."""
        names = [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []
        return sorted(int(found[1]) for found in map(_NAME.fullmatch, names) if found)

    def newest(self) -> Path:
        """The newest one that is complete.

        Raises:
            CheckpointError: if there is none.
        """
        for number in reversed(self.numbers()):
            try:
                return Folder(self.path(number)).path
            except CheckpointError as error:
                warnings.warn(f"an older checkpoint is taken, as {error}", stacklevel=4)
        raise CheckpointError(f"there is no complete checkpoint in {self._folder}.")

    def keep(self, limit: int) -> None:
        """Delete the oldest checkpoints, as long as there are more than so many."""
        for path in self._folder.glob(f"*{_LEAVING}"):  # where that was interrupted
            shutil.rmtree(path, ignore_errors=True)
        paths = [self.path(number) for number in self.numbers()]
        for path in [path for path in paths if (path / MANIFEST).exists()][:-limit]:
            leaving = path.with_name(f".{path.name}{_LEAVING}")
            try:
                path.rename(leaving)
            except OSError as error:
                warnings.warn(f"{path} cannot be deleted: {error.strerror}.", stacklevel=4)
                continue
            with suppress(OSError):
                shutil.rmtree(leaving)
