"""Files that were parsed lately: the scripts of a folder often share some, and each is also converted by itself."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from accelift_codemod.facts.index import Index
from accelift_codemod.source import Source, read_bytes

_MOST_BYTES = 500_000  # of source: trees take some two hundred times as much memory
_sources: OrderedDict[tuple[str, bytes], Source] = OrderedDict()


def parsed(path: Path, shown: str) -> Source:
    """A file of a project, which may be empty, with its tree and index.

    Raises:
        BadSource: it cannot be read, or does not parse.
    """
    data = read_bytes(path)
    return understood(data, shown) if data.strip() else Source(shown, b"", "", "utf-8")


def understood(data: bytes, path: str) -> Source:
    """A file that parses, with its tree and index: the same one, where it is soon asked for again.

    Raises:
        BadSource: it does not.
    """
    source = _sources.get((path, data))
    if source is None:
        source = _sources[path, data] = _parsed(data, path)
        while sum(len(known) for _, known in _sources) > _MOST_BYTES and len(_sources) > 1:
            _sources.popitem(last=False)
    _sources.move_to_end((path, data))
    return source


def _parsed(data: bytes, path: str) -> Source:
    source = Source.decode(data, path)
    Index.of(source.tree)
    return source
