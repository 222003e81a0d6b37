"""What files do where they are imported, beside defining something: they set a seed, or a variable."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from accelift_codemod.facts import library
from accelift_codemod.facts.index import FUNCTIONS, Index
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.project.finder import Finder
from accelift_codemod.project.program import is_main
from accelift_codemod.project.surface import led
from accelift_codemod.remembered import remembered
from accelift_codemod.source import BadSource, Source

_CALLED = frozenset("dict set list tuple frozenset int float str bool len range namedtuple getLogger compile".split())
_DEFINES = (*FUNCTIONS, ast.ClassDef)
_NOTHING = (ast.Import, ast.ImportFrom, ast.Pass)


def acts(source: Source, statement: ast.Import | ast.ImportFrom) -> bool:
    """Whether an import of a script runs a project file that does more than define something."""
    return any(_acts(path) for path in led(Finder(Path(source.path), source), statement))


@remembered
def _acts(path: Path) -> bool:
    try:
        source = Source.read(path)
    except BadSource:
        return True
    return any(_does_more(Index.of(source.tree), statement) for statement in source.tree.body)


def _does_more(index: Index, statement: ast.stmt) -> bool:
    if isinstance(statement, _DEFINES):
        return any(not _of_library(index, decorator) for decorator in statement.decorator_list)  # it may note them
    if isinstance(statement, (ast.If, ast.Try)):
        never = isinstance(statement, ast.If) and is_main(statement.test)
        return not never and any(_does_more(index, inner) for inner in _inside(statement))
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return not all(isinstance(t, ast.Name) for t in targets(statement)) or any(_calls(statement.value))
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    return not isinstance(statement, _NOTHING)


def _inside(statement: ast.stmt) -> Iterator[ast.stmt]:
    for part in ast.iter_child_nodes(statement):
        if isinstance(part, ast.stmt):
            yield part
        elif isinstance(part, ast.ExceptHandler):
            yield from part.body


def _calls(value: ast.expr | None) -> Iterable[ast.Call]:
    for node in walk(value) if value is not None else ():
        named = node.func if isinstance(node, ast.Call) else None
        name = named.id if isinstance(named, ast.Name) else getattr(named, "attr", "")
        if isinstance(node, ast.Call) and name not in _CALLED:
            yield node


def _of_library(index: Index, decorator: ast.expr) -> bool:
    root = decorator
    while isinstance(root, (ast.Attribute, ast.Call)):
        root = root.func if isinstance(root, ast.Call) else root.value
    name = root.id if isinstance(root, ast.Name) else ""
    bound = index.module.bindings.get(name, [])
    return all(b.qualified.partition(".")[0] in library.PACKAGES for b in bound)
