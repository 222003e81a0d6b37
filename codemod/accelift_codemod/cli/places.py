"""Where the results of a run are written: no result over a script, or over another result."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from accelift_codemod.discover import is_folder
from accelift_codemod.source import BadSource
from accelift_codemod.writing import write_atomically


class Places:
    """Places of results below a folder: those that the scripts have below the folder that all of them have in common.

    So a script that is named alone goes directly into the folder, and a folder keeps its tree. What scripts import from
    folders above is found there, too: `reach` takes these along.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        places = [Path(p) for p in paths]
        folders = [_absolute(p if is_folder(p) else p.parent) for p in places]
        self._common = os.path.commonpath(folders) if folders else ""
        self._written: dict[str, str] = {}  # where links lead in the end -> the script whose result it is

    def reach(self, folders: Iterable[str]) -> None:
        """Have these folders, too, in the tree that results keep."""
        self._common = os.path.commonpath([self._common, *(_absolute(Path(folder)) for folder in folders)])

    def below(self, folder: Path, script: str) -> Path:
        """The place of a script's result below a folder."""
        return folder / os.path.relpath(_absolute(Path(script)), self._common)

    def write(self, place: Path, data: bytes, script: str, option: str) -> None:
        """Write a script's result, as an option asks for.

        Raises:
            BadSource: it cannot be written, or something would be lost.
        """
        real = os.path.realpath(place)
        if real == os.path.realpath(script):
            raise BadSource(script, 0, f"would be overwritten by {option}", "choose another place")
        if real in self._written:
            problem = f"would overwrite {place}, which was written for {self._written[real]}"
            raise BadSource(script, 0, problem, "give them different names")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadSource(str(place), 0, f"cannot be written ({error.strerror})", "choose another folder") from None
        write_atomically(place, data)
        self._written[real] = script


def _absolute(path: Path) -> str:
    return os.path.normpath(path.absolute())
