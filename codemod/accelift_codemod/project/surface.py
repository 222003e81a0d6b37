"""A quick look at files, before they are parsed: what they import, whether they train or distribute themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from accelift_codemod.facts.index import Index
from accelift_codemod.project.finder import Finder, imported
from accelift_codemod.remembered import remembered
from accelift_codemod.source import BadSource, Source, code_of

_IMPORT = re.compile(
    rb"(?:^|[;:])[ \t]*(?:from[ \t]+(?P<dots>\.*)[ \t]*(?P<module>[\w.]*)[ \t]+import\b[ \t]*"
    rb"(?P<names>\([^)]*\)|(?:\\\r?\n|[^\n#;])*)|import[ \t]+(?P<modules>(?:\\\r?\n|[^\n#;])+))",
    re.MULTILINE,
)
_BACKWARD = re.compile(rb"\.\s*backward\s*\(")
_DISTRIBUTES = b"torch.distributed"
_ACCELERATES = (b"accelerate", b"accelift")


@dataclass(frozen=True)
class Surface:
    """What a file's text shows: it may show more than there is (in strings and comments)."""

    trains: bool
    distributes: bool
    imports: tuple[tuple[str, int], ...]  # modules with the number of leading dots; names may be modules, too
    accelerates: bool = False

    @cached_property
    def words(self) -> frozenset[str]:
        """The parts of all names that are imported or imported from."""
        return frozenset(word for name, _ in self.imports for word in name.split("."))


@remembered
def surface(path: Path) -> Surface:
    """The surface of a file; an empty one if it cannot be read."""
    try:
        data = code_of(path)
    except BadSource:
        return Surface(False, False, ())
    found: dict[tuple[str, int], None] = {}
    for match in _IMPORT.finditer(data):
        if match["modules"] is not None:
            for part in match["modules"].split(b","):
                words = part.split()
                if words:
                    found[words[0].decode(errors="replace"), 0] = None
            continue
        module, level = match["module"].decode(errors="replace"), len(match["dots"])
        found[module, level] = None
        for part in re.findall(rb"\w+", match["names"]):
            name = part.decode(errors="replace")
            found[f"{module}.{name}" if module else name, level] = None
    return Surface(_BACKWARD.search(data) is not None, _DISTRIBUTES in data, tuple(found), accelerates(data))


def accelerates(data: bytes) -> bool:
    """Whether the bytes of a file mention Accelerate."""
    return any(mark in data for mark in _ACCELERATES)


def led_to_accelerate(script: Path) -> bool:
    """Whether a script may import a project file that mentions Accelerate."""
    return any(surface(path).accelerates for path in led_to(script))


def may_train(script: Path, finder: Finder, statements: Iterable[ast.Import | ast.ImportFrom]) -> bool:
    """Whether a script, or a project file that imports of it lead to, has a backward pass."""
    names = [name for statement in statements for name in imported(statement)]
    return surface(script).trains or any(surface(path).trains for path in _led_to(script, finder, names))


def distributing(source: Source) -> tuple[ast.stmt, Path] | None:
    """The first import of a script that leads to a project file which uses torch.distributed, and that file."""
    finder = Finder(Path(source.path), source)
    for statement in Index.of(source.tree).imports:
        for path in led(finder, statement):
            if surface(path).distributes:
                return statement, path
    return None


def led(finder: Finder, statement: ast.Import | ast.ImportFrom) -> Iterator[Path]:
    """The project files that an import of a script leads to."""
    return _led_to(finder.script, finder, imported(statement))


@remembered
def led_to(script: Path) -> frozenset[Path]:
    """The project files that a script may import, directly or through each other, as far as their texts show."""
    try:
        finder = Finder(script, Source.read(script))
    except BadSource:
        return frozenset()
    return frozenset(_led_to(finder.script, finder, surface(finder.script).imports))


def _led_to(script: Path, finder: Finder, imports: Iterable[tuple[str, int]]) -> Iterator[Path]:
    """The project files that imports of a script lead to, directly or through each other."""
    seen = {script}
    queue = [(script, imports)]
    while queue:
        importer, names = queue.pop()
        for name, level in names:
            for path in finder.files(name, level, importer):
                if path not in seen:
                    seen.add(path)
                    queue.append((path, surface(path).imports))
                    yield path
