"""What has to lie beside scripts for them to run: the project files that Python reads for their imports."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from accelift_codemod.facts.index import Index
from accelift_codemod.project.finder import Finder, imported, project_folder
from accelift_codemod.project.recent import parsed
from accelift_codemod.source import BadSource


@dataclass
class Beside:
    """The files, by their paths as people see them, and the folders in which Python looks for them."""

    files: dict[str, None] = field(default_factory=dict)
    folders: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of(cls, scripts: Iterable[str]) -> Beside:
        """What scripts import, directly or not, of their projects; imports that are computed are not known."""
        found = cls()
        for script in scripts:
            found._add(Path(script))
        return found

    def _add(self, script: Path) -> None:
        real = Path(os.path.realpath(script))

        def shown(path: Path) -> str:
            shown = os.path.normpath(script.parent / os.path.relpath(path, real.parent))
            return shown if os.path.realpath(shown) == os.path.realpath(path) else os.path.relpath(path)

        try:
            finder = Finder(script, parsed(script, str(script)))
        except BadSource:
            return
        queue = [real]
        for file in queue:
            read = {path for path in _packages(file) if path not in queue}
            for folder, path in _imports(finder, file):
                if path.is_relative_to(finder.root):  # what lies elsewhere is somebody else's
                    self.folders.setdefault(shown(folder))
                    read.add(path)
            queue += sorted(read.difference(queue))
        self.files.update(dict.fromkeys(map(shown, queue)))


@dataclass(frozen=True)
class Started:
    """How Python finds what a script imports: in folders above it, or only if it is started as `python -m module` in
    the first of them."""

    paths: tuple[Path, ...] = ()
    module: str = ""

    @classmethod
    def of(cls, script: Path) -> Started:
        """What a script needs, which is given by its real path."""
        try:
            statements = parsed(script, str(script)).tree.body
        except BadSource:
            return cls()
        own = script.parent
        above = [Path(folder) for folder in Beside.of([str(script)]).folders if own.is_relative_to(folder)]
        above = sorted((folder for folder in above if folder != own), key=lambda folder: len(folder.parts))
        if not any(isinstance(s, ast.ImportFrom) and s.level for s in statements):  # one that may fail is tried, say
            return cls(tuple(above))
        while not above:
            own = own.parent
            if not own.is_relative_to(project_folder(script.parent)):
                return cls()
            above = [own] if not (own / "__init__.py").is_file() else []
        return cls(tuple(above), ".".join(script.relative_to(above[0]).with_suffix("").parts))


def _packages(file: Path) -> list[Path]:
    """What Python reads first if the file is imported as a part of the packages that it lies in."""
    found = []
    for folder in file.parents:
        if not (folder / "__init__.py").is_file():
            break
        found.append(folder / "__init__.py")
    return found


def _imports(finder: Finder, file: Path) -> list[tuple[Path, Path]]:
    """The files that a file's imports read, each with the folder in which Python begins to look."""
    try:
        statements = Index.of(parsed(file, str(file)).tree).imports
    except BadSource:  # nor will it run
        return []
    found = []
    for name, level in (one for statement in statements for one in imported(statement)):
        for path in finder.files(name, level, file):
            top = finder.find(name.partition(".")[0], level, file) or path
            outer = top.parent.parent if top.name == "__init__.py" else top.parent
            found.append((file.parents[level - 1] if level else outer, path))
    return found
