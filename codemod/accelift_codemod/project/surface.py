"""A quick look at a file, before it is parsed: what it imports, and whether it has a backward pass."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from accelift_codemod.project.finder import Finder
from accelift_codemod.source import BadSource, read_bytes

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(?P<dots>\.*)[ \t]*(?P<module>[\w.]*)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n#;]*)"
    rb"|import[ \t]+(?P<modules>[^\n#;]+))",
    re.MULTILINE,
)
_BACKWARD = re.compile(rb"\.\s*backward\s*\(")


@dataclass(frozen=True)
class Surface:
    """What a file's text shows: it may show more than there is (in strings and comments)."""

    trains: bool
    imports: tuple[tuple[str, int], ...]  # modules with the number of leading dots; names may be modules, too

    def words(self) -> frozenset[str]:
        """The parts of all names that are imported or imported from."""
        return frozenset(word for name, _ in self.imports for word in name.split("."))


@lru_cache(maxsize=8192)
def surface(path: Path) -> Surface:
    """The surface of a file; an empty one if it cannot be read."""
    try:
        data = read_bytes(path)
    except BadSource:
        return Surface(False, ())
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
    return Surface(_BACKWARD.search(data) is not None, tuple(found))


def may_train(script: Path, finder: Finder) -> bool:
    """Whether a script, or a project file that it leads to, has a backward pass."""
    seen = {script}
    queue = [script]
    while queue:
        path = queue.pop()
        shown = surface(path)
        if shown.trains:
            return True
        for name, level in shown.imports:
            place = finder.find(name, level, path)
            if place is not None and place.suffix == ".py" and place not in seen:
                seen.add(place)
                queue.append(place)
    return False
