"""Finds the scripts that paths lead to, leaving out what .gitignore leaves out of folders."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

_SKIPPED = frozenset(
    "__pycache__ node_modules build dist site-packages venv env .venv .git .hg .svn .tox .nox .mypy_cache .ruff_cache "
    ".pytest_cache .eggs".split()
)
_Ignores = list[tuple[Path, Any]]  # folders, and what their .gitignore says


class Nowhere(Exception):
    """A path that leads to no file: one sentence with the remedy."""


class Files:
    """The files that paths lead to, each once, however many links and paths lead to it."""

    def __init__(self) -> None:
        self.named: dict[Path, bool] = {}  # file -> whether the user named it (else it was found in a folder)
        self._known: dict[Path, Path] = {}  # where links lead in the end -> file

    def add(self, path: Path) -> None:
        """Take a file, or the files of a folder, in the order of their names.

        Raises:
            Nowhere: there are none.
        """
        _require(path)
        if not is_folder(path):
            self.named[self._known.setdefault(_real(path), path)] = True
            return
        found = _Walk(path).found
        if not found:
            raise Nowhere(f"{path}: contains no Python files; check the path")
        for real, file in sorted(found.items(), key=lambda item: item[1].parts):
            self.named.setdefault(self._known.setdefault(real, file), False)


def _require(path: Path) -> None:
    try:
        path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise Nowhere(f"{path}: is a broken link, to {path.readlink()}; correct the link") from None
        raise Nowhere(f"{path}: does not exist; check the path") from None
    except OSError as error:
        raise Nowhere(f"{path}: cannot be read ({error.strerror}); check the path") from None


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder; also of paths that the file system does not take."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    """What a path leads to, as `stat` tells it; 0 if that is nothing."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _real(path: Path) -> Path:
    """Where a path leads in the end: `Path.resolve` fails for a link to itself."""
    return Path(os.path.realpath(path))


class _Walk:
    """Python files under a folder; hidden folders, environments and ignored files left out.

    Links are followed last, so that what they lead to goes by its own name if it is under the folder, too.
    """

    def __init__(self, folder: Path) -> None:
        self.found: dict[Path, Path] = {}  # where links lead in the end -> file
        self._folders: set[Path] = set()
        self._links: list[tuple[Path, _Ignores]] = []
        self._enter(folder, _real(folder), [])
        while self._links:
            path, ignores = self._links.pop(0)
            self._take(path, _real(path), is_folder(path), ignores)

    def _enter(self, folder: Path, real: Path, ignores: _Ignores) -> None:
        if real in self._folders:
            return
        self._folders.add(real)
        rules = _gitignore(folder)
        if rules is not None:
            ignores = [*ignores, (folder, rules)]
        try:
            entries = sorted(os.scandir(folder), key=lambda e: e.name)
        except OSError:
            return
        for entry in entries:
            if entry.is_symlink():
                self._links.append((folder / entry.name, ignores))
            else:
                self._take(folder / entry.name, real / entry.name, entry.is_dir(), ignores)

    def _take(self, path: Path, real: Path, folder: bool, ignores: _Ignores) -> None:
        if folder:
            if path.name not in _SKIPPED and not path.name.startswith(".") and not _ignored(path, ignores, True):
                self._enter(path, real, ignores)
        elif path.name.endswith((".py", ".ipynb")) and stat.S_ISREG(_mode(path)) and not _ignored(path, ignores, False):
            self.found.setdefault(real, path)


def _gitignore(folder: Path) -> Any:
    try:
        lines = (folder / ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    import pathspec  # late: only where there is something to match

    return pathspec.GitIgnoreSpec.from_lines(lines)


def _ignored(path: Path, ignores: _Ignores, folder: bool) -> bool:
    for base, rules in ignores:
        relative = path.relative_to(base).as_posix()
        if rules.match_file(relative + "/" if folder else relative):
            return True
    return False
