"""Files that do not mention torch themselves, but import what does: which of them may train."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from accelift_codemod import remembered
from accelift_codemod.source import BadSource, code_of

_MARK = b"torch"
_STARTS = b"__main__"
# A loop, or a call, that stands in no function: `engine.train()`, `model, loss = fit(args)`.
_RUNS = re.compile(
    rb"^(?:(?:for|while)\b|(?!(?:def|class|from|import|async|return|print)\b)[A-Za-z_][^#(\n]*\()", re.MULTILINE
)
_IMPORTED = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([\w., \t]+)", re.MULTILINE)


def is_run(path: Path, stems: Collection[str]) -> bool:
    """Whether a file that does not mention torch may be a script that trains: it asks whether it is run, or runs what
    it has from one of the files that train, perhaps by way of another."""
    return asks(path) or (_imports(path, stems) and _RUNS.search(_code(path)) is not None)


def asks(path: Path) -> bool:
    """Whether a file asks whether it is run."""
    return _STARTS in _code(path)


def _code(path: Path) -> bytes:
    """The code of a file; none if there is none, or it is not to be read."""
    try:
        return code_of(path)
    except BadSource:
        return b""


def _imports(path: Path, stems: Collection[str]) -> bool:
    names = [*_looked_at(path)[1], *(name for file in _modules(path, path) for name in _looked_at(file)[1])]
    return any(name.rpartition(".")[2] in stems for name in names)


def leads_to_torch(script: Path) -> bool:
    """Whether a script imports, perhaps through others, a file of its folder that mentions torch."""
    queue = [script]
    seen = {script}
    for file in queue:
        if _looked_at(file)[0]:
            return True
        found = [f for f in _modules(file, script) if f not in seen]
        seen.update(found)
        queue += found
    return False


def _modules(file: Path, script: Path) -> Iterator[Path]:
    """Where what a file imports may lie, beside it or beside the script."""
    for name in _looked_at(file)[1]:
        for folder in dict.fromkeys((file.parent, script.parent)):
            module = folder.joinpath(*name.split("."))
            yield module.with_name(f"{module.name}.py")
            yield module / "__init__.py"


@remembered.remembered
def _looked_at(file: Path) -> tuple[bool, tuple[str, ...]]:
    """Whether a file mentions torch, and what it imports."""
    text = _code(file)
    lines = (part.split() for line in _IMPORTED.findall(text) for part in line.split(b","))
    names = dict.fromkeys(words[0].decode().strip(".") for words in lines if words)
    return _MARK in text, tuple(name for name in names if name)
