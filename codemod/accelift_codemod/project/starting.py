"""Which scripts of a project may run on several processes: those that make a process group, as far as can be read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from accelift_codemod.facts import library
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.project.finder import imported
from accelift_codemod.project.surface import led_to
from accelift_codemod.project.users import files_of, says, users
from accelift_codemod.remembered import remembered
from accelift_codemod.source import BadSource, Source

_WORDS = frozenset({"init_process_group", "init_distributed", "spawn"})
_LIBRARIES = [
    name
    for name in (*library.DISTRIBUTED, *library.FRAMEWORKS, *library.ACCELERATE)
    if not name.startswith("torch.")  # torch is imported everywhere: what starts processes is among the words
]
_TEXT = re.compile("|".join(sorted(_WORDS | {name.partition(".")[0] for name in _LIBRARIES})).encode())
_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


@remembered
def distributing(root: Path) -> frozenset[Path]:
    """The files of a project that a script which makes a process group runs, those scripts among them."""
    starting: set[Path] = set()
    queue = [(path, _saying(path, _WORDS)) for path in files_of(root) if _mentions(path)]
    seen: set[tuple[Path, str]] = set()
    while queue:
        path, names = queue.pop()
        if "" in names:
            starting.add(path)
        new = {name for name in names if name and (path, name) not in seen}
        if not new:
            continue
        seen |= {(path, name) for name in new}
        queue.append((path, _saying(path, new)))  # what calls them
        for other, read in users(root, path, new, ()):
            queue.append((other, _saying(other, read)))
    return frozenset(starting).union(*(led_to(path) for path in starting))


@remembered
def _mentions(path: Path) -> bool:
    try:
        return _TEXT.search(path.read_bytes()) is not None
    except OSError:
        return False


def _saying(path: Path, words: Iterable[str]) -> set[str]:
    """The definitions of a file that say one of some words, beside their own; an empty one for code outside of them."""
    try:
        tree = Source.read(path).tree
    except BadSource:
        return set()
    said: set[str] = set()
    for statement in tree.body:
        own = statement.name if isinstance(statement, _DEFINITIONS) else ""
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            if says(statement, {*words} - {own}):
                said.add(own)
        elif _brings(tree, statement):
            said.add("")
    return said


def _brings(tree: ast.Module, statement: ast.Import | ast.ImportFrom) -> bool:
    """Whether an import brings what makes a process group: a library that does, or a part of one, which the file takes
    from it or names (`transformers.Trainer`, `transformers.trainer_seq2seq`)."""
    for name in (name for name, level in imported(statement) if not level):
        for one in _LIBRARIES:
            begins = one if "." in one else f"{one}."
            if f"{name}.".lower().startswith(begins.lower()):
                return True
            part = one.removeprefix(f"{name}.")
            if isinstance(statement, ast.Import) and part != one:
                if any(isinstance(n, ast.Attribute) and n.attr == part for n in walk(tree)):
                    return True
    return False
