"""Finds the scripts that paths lead to, leaving out what .gitignore leaves out of folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SKIPPED = frozenset(
    "__pycache__ node_modules build dist site-packages venv env .venv .git .hg .svn .tox .nox .mypy_cache .ruff_cache "
    ".pytest_cache .eggs".split()
)
_GITIGNORE = ".gitignore"
_SCRIPTS = (".py", ".ipynb")
_Ignores = list[tuple[str, Any]]  # folders, and what their .gitignore says


class Nowhere(Exception):
    """A path that leads to no file: one sentence with the remedy."""


class Files:
    """The files that paths lead to, each once, however many links and paths lead to it."""

    def __init__(self) -> None:
        self.named: dict[str, bool] = {}  # file -> whether the user named it (else it was found in a folder)
        self.unread: dict[str, str] = {}  # folder in a folder -> why it cannot be read
        self.outside: list[str] = []  # links in folders that lead out of them
        self._known: dict[str, str] = {}  # where links lead in the end -> file

    def add(self, path: Path) -> None:
        """Take a file, or the files of a folder, in the order of their names.

        Raises:
            Nowhere: there are none.
        """
        _require(path)
        if not is_folder(path):
            self.named[self._known.setdefault(os.path.realpath(path), str(path))] = True
            return
        walk = _Walk(path)
        found = walk.found
        if str(path) in walk.unread:
            raise Nowhere(f"{path}: {walk.unread[str(path)]}")
        self.unread |= walk.unread
        self.outside += walk.outside
        if not found and not walk.unread:
            raise Nowhere(f"{path}: contains no Python files; check the path")
        for real, file in sorted(found.items(), key=lambda one: one[1].split(os.sep)):  # noqa: PTH206
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
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


class _Walk:
    """Python files under a folder; hidden folders, environments and ignored files left out.

    Links that lead out of the folder are not followed: what lies there is somebody else's. Other links are followed
    last, so that what they lead to goes by its own name. Paths are strings here: there may be many files of which
    nothing else is wanted.
    """

    def __init__(self, folder: Path) -> None:
        self.found: dict[str, str] = {}  # where links lead in the end -> file
        self.unread: dict[str, str] = {}  # folder -> why it cannot be read
        self.outside: list[str] = []  # links that lead out of the folder
        self._folders: set[str] = set()
        self._links: list[tuple[os.DirEntry[str], str, _Ignores]] = []
        root = os.path.realpath(folder)
        self._enter("" if folder == Path() else str(folder), root, [])
        while self._links:
            entry, path, ignores = self._links.pop(0)
            real = os.path.realpath(path)
            if real.startswith(os.path.join(root, "")):  # noqa: PTH118  (with a separator at its end)
                self._take(entry, path, real, ignores)
            elif real != root and self._is_wanted(entry, path, ignores):
                self.outside.append(path)

    def _is_wanted(self, entry: os.DirEntry[str], path: str, ignores: _Ignores) -> bool:
        """Whether a link leads to something that would be looked at were it a part of the folder."""
        try:
            if entry.is_dir():
                return self._enters(entry.name, path, ignores)
            return entry.name.endswith(_SCRIPTS) and entry.is_file() and not _ignored(path, ignores)
        except OSError:
            return False  # a link to itself

    def _enters(self, name: str, path: str, ignores: _Ignores) -> bool:
        return name not in _SKIPPED and not name.startswith(".") and not _ignored(f"{path}/", ignores)

    def _enter(self, folder: str, real: str, ignores: _Ignores) -> None:
        if real in self._folders:
            return
        self._folders.add(real)
        try:
            with os.scandir(folder or ".") as found:
                entries = sorted(found, key=lambda e: e.name)
        except OSError as error:
            self.unread[folder or "."] = f"cannot be read ({error.strerror}); check its permissions"
            return
        prefix = os.path.join(folder, "")  # noqa: PTH118  (with a separator at its end)
        if any(e.name == _GITIGNORE for e in entries):
            ignores = [*ignores, *((prefix, rules) for rules in _gitignore(prefix + _GITIGNORE))]
        for entry in entries:
            if entry.is_symlink():
                self._links.append((entry, prefix + entry.name, ignores))
            else:
                self._take(entry, prefix + entry.name, f"{real}{os.sep}{entry.name}", ignores)

    def _take(self, entry: os.DirEntry[str], path: str, real: str, ignores: _Ignores) -> None:
        name = entry.name
        try:
            if entry.is_dir():
                if self._enters(name, path, ignores):
                    self._enter(path, real, ignores)
            elif name.endswith(_SCRIPTS) and entry.is_file() and not _ignored(path, ignores):
                self.found.setdefault(real, path)
        except OSError:
            return  # a link to itself


def _gitignore(path: str) -> Iterator[Any]:
    """The rules of a .gitignore; none if it cannot be read, or is no file: a pipe would be waited for."""
    try:
        if not Path(path).is_file():
            return
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    import pathspec  # late: only where there is something to match

    yield pathspec.GitIgnoreSpec.from_lines(lines)


def _ignored(path: str, ignores: _Ignores) -> bool:
    return any(rules.match_file(path[len(prefix) :].replace(os.sep, "/")) for prefix, rules in ignores)
