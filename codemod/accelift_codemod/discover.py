"""Finds the Python files of folders, leaving out what .gitignore leaves out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SKIPPED = frozenset(
    "__pycache__ node_modules build dist site-packages venv env .venv .git .hg .svn .tox .nox .mypy_cache .ruff_cache "
    ".pytest_cache .eggs".split()
)


def python_files(folder: Path) -> Iterator[Path]:
    """Python files under a folder, in a stable order; hidden folders, environments and ignored files left out."""
    yield from _walk(folder, [], {folder.resolve()})


def _walk(folder: Path, ignores: list[tuple[Path, Any]], seen: set[Path]) -> Iterator[Path]:
    rules = _gitignore(folder)
    if rules is not None:
        ignores = [*ignores, (folder, rules)]
    try:
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
    except OSError:
        return
    for entry in entries:
        path = folder / entry.name
        if entry.is_dir():
            if entry.name in _SKIPPED or entry.name.startswith("."):
                continue
            if entry.is_symlink():
                target = path.resolve()
                if target in seen:
                    continue
                seen.add(target)
            if not _ignored(path, ignores, folder=True):
                yield from _walk(path, ignores, seen)
        elif entry.name.endswith(".py") and entry.is_file() and not _ignored(path, ignores, folder=False):
            yield path


def _gitignore(folder: Path) -> Any:
    file = folder / ".gitignore"
    if not file.is_file():
        return None
    import pathspec  # late: only where there is something to match

    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return pathspec.GitIgnoreSpec.from_lines(lines)


def _ignored(path: Path, ignores: list[tuple[Path, Any]], folder: bool) -> bool:
    for base, rules in ignores:
        relative = path.relative_to(base).as_posix()
        if rules.match_file(relative + "/" if folder else relative):
            return True
    return False
