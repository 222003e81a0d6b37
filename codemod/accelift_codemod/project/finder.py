"""Where the modules of a project lie: imports as Python resolves them for a script that is started from its folder."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

from accelift_codemod.facts import library
from accelift_codemod.project.search_path import searched
from accelift_codemod.remembered import remembered
from accelift_codemod.source import Source

_MARKS = ((".git",), ("setup.py", "setup.cfg", "pyproject.toml"))
_LIKELY = (  # what an archive of a repository has in its first folder
    ("requirements.txt", "environment.yml", "environment.yaml", "Pipfile"),
    ("LICENSE", "LICENSE.txt", "LICENSE.md", "README.md", "README.rst", "README.txt", "README"),
)


class Finder:
    """Answers which file a module is, for one entry point.

    Searched are, in this order: the script's folder, with the folders that it, or what it imports, puts on `sys.path`
    by literal paths before it and behind it, and the folders around it up to the one where the project begins (for
    packages that are installed in place).
    """

    def __init__(self, script: Path, source: Source, root: Path | None = None) -> None:
        """`root` is where the project surely begins at the latest: nothing need mark it."""
        self.script = Path(os.path.realpath(script))
        folder = self.script.parent
        self.root = project_folder(folder)
        if root is not None and self.root.is_relative_to(root):
            self.root = root
        around = [folder, *folder.parents]
        self.folders = list(dict.fromkeys([*searched(source, folder, _below), *around[: around.index(self.root) + 1]]))

    def find(self, name: str, level: int, importer: Path) -> Path | None:
        """The file of a module (of a package: its `__init__.py`, or the folder if it has none).

        Args:
            name: the dotted name, empty in `from . import x`.
            level: the number of leading dots.
            importer: the importing file.
        """
        if level:
            folder = importer.parent
            for _ in range(level - 1):
                folder = folder.parent
            return self.below(folder, name)
        if name.partition(".")[0] in library.PACKAGES:
            return None
        for folder in self.folders:
            found = self.below(folder, name)
            if found is not None:
                return found
        return None

    def files(self, name: str, level: int, importer: Path) -> Iterator[Path]:
        """The files that Python reads to import a module: those of the packages that it is in, and its own."""
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            found = self.find(".".join(parts[:length]), level, importer)
            if found is not None and found.suffix == ".py":
                yield found

    def below(self, folder: Path, name: str) -> Path | None:
        """The file (or folder) of a module below a folder."""
        return _below(folder, name)


def imported(statement: ast.Import | ast.ImportFrom) -> list[tuple[str, int]]:
    """The modules that an import may bring, with the number of leading dots: a name that it takes may be one, too."""
    if isinstance(statement, ast.Import):
        return [(alias.name, 0) for alias in statement.names]
    module, level = statement.module, statement.level
    return [
        (module or "", level),
        *((f"{module}.{alias.name}" if module else alias.name, level) for alias in statement.names),
    ]


@remembered
def _below(folder: Path, name: str) -> Path | None:
    place = folder.joinpath(*name.split(".")) if name else folder
    package = place / "__init__.py"
    if package.is_file():
        return package
    module = place.with_name(f"{place.name}.py")
    if name and module.is_file():
        return module
    return place if place.is_dir() else None


@remembered
def project_folder(folder: Path) -> Path:
    """The folder where the project begins: its repository, else the nearest with a build file, else, as in an archive
    of a repository, the nearest with a list of requirements, a license or a README, else the given one."""
    around = (folder, *folder.parents)
    for marks in _MARKS:
        for candidate in around:
            if any((candidate / mark).exists() for mark in marks):
                return candidate
    homes = {Path(os.path.expanduser("~"))}  # noqa: PTH111  (which does not fail where there is none)
    own = [candidate for candidate in around if candidate.parent != candidate and candidate not in homes]
    found = (c for marks in _LIKELY for c in own if any((c / mark).exists() for mark in marks))
    return next(found, folder)
