"""Files that were parsed lately: the scripts of a folder often share some, and each is also converted by itself."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from accelift_codemod.source import Source, read_bytes

_MOST_BYTES = 500_000  # of source: trees take some two hundred times as much memory


class _Recent(OrderedDict[tuple[str, bytes], Source]):
    """Sources by their path and content, the one that was asked for last at the end."""

    size = 0

    def add(self, source: Source) -> None:
        """Note a source in the place of the oldest ones."""
        self[source.path, source.data] = source
        self.size += len(source.data)
        while self.size > _MOST_BYTES and len(self) > 1:
            (_, data), _ = self.popitem(last=False)
            self.size -= len(data)


_sources = _Recent()


def parsed(path: Path, shown: str) -> Source:
    """A file of a project, which may be empty, with its tree; of a notebook, its code cells as one script.

    Raises:
        BadSource: it cannot be read, or does not parse.
    """
    if path.suffix == ".ipynb":
        return Source.read(path, shown)
    data = read_bytes(path)
    return understood(data, shown) if data.strip() else Source(shown, b"", "", "utf-8")


def understood(data: bytes, path: str) -> Source:
    """A file that parses, with its tree: the same one, where it is soon asked for again.

    Raises:
        BadSource: it does not.
    """
    source = _sources.get((path, data))
    if source is None:
        source = _parsed(data, path)
        _sources.add(source)
    else:
        _sources.move_to_end((path, data))
    return source


def _parsed(data: bytes, path: str) -> Source:
    source = Source.decode(data, path)
    source.tree  # noqa: B018  (raises if it does not parse)
    return source
