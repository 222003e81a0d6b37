"""Which files of a project use globals of another file."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from accelift_codemod.discover import Files, Nowhere
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.project.finder import Finder
from accelift_codemod.project.program import is_main, stem_of
from accelift_codemod.project.surface import surface
from accelift_codemod.remembered import remembered
from accelift_codemod.source import BadSource, Source

_MOST_FILES = 5000
_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


def users(
    root: Path, path: Path, names: set[str], members: Collection[Path], seen: frozenset[Path] = frozenset()
) -> Iterator[tuple[Path, set[str]]]:
    """The project's files, other than the members of a program, that use some of a file's globals, with those."""
    for other in _naming(root).get(stem_of(path), ()):
        if other == path or other in seen:
            continue
        how = use(other, path, root)
        if (read := how.read(names)) and other not in members:
            yield other, read
        if bound := how.bound(names):  # others may import them from here
            for further, taken in users(root, other, set(bound), members, seen | {path}):
                yield further, {bound[name] for name in taken}


def runners(path: Path, other: Path, names: set[str], root: Path) -> frozenset[str] | None:
    """The files that run what a file does with globals of another: itself, and those that use the functions and classes
    in which it does. None if everyone does who imports it."""
    how = use(path, other, root)
    bound = how.bound(names)
    words = {*bound, *(how.attributes & names)}
    if not names <= {*bound.values(), *words}:  # it has them from another file, who knows under which names
        return None
    try:
        body = Source.read(path).tree.body
    except BadSource:
        return None
    while new := {s.name for s in body if isinstance(s, _DEFINITIONS) and says(s, words)} - words:
        words |= new
    if any(says(node, words) for statement in body for node in _run_by_imports(statement)):
        return None
    inside = {s.name for s in body if isinstance(s, _DEFINITIONS)} & words
    return frozenset({str(path), *(str(user) for user, _ in users(root, path, inside, ()))})


def _run_by_imports(statement: ast.stmt) -> Iterator[ast.AST]:
    """What of a statement runs where its file is imported, beside that something is defined."""
    if isinstance(statement, FUNCTIONS):
        yield from (*statement.decorator_list, statement.args)
    elif isinstance(statement, ast.ClassDef):
        yield from statement.decorator_list
        for inner in statement.body:
            yield from _run_by_imports(inner)
    elif not isinstance(statement, _IMPORTS) and not (isinstance(statement, ast.If) and is_main(statement.test)):
        yield statement


def says(node: ast.AST, words: Collection[str]) -> bool:
    """Whether one of some words is a name, an attribute or a text in a node."""
    named: Iterable[object] = (
        n.id if isinstance(n, ast.Name) else getattr(n, "attr", getattr(n, "value", "")) for n in walk(node)
    )
    return any(isinstance(name, str) and name in words for name in named)


@dataclass(frozen=True)
class Use:
    """What a file does with globals of another."""

    taken: Mapping[str, str]  # what it imports of them, by the names that it gives to them
    star: bool  # it imports all of them
    attributes: frozenset[str]  # those that it reads of anything, if it imports the other file itself
    loads: frozenset[str]  # the names that it reads
    own: frozenset[str]  # those that it imports from elsewhere

    def bound(self, names: Collection[str]) -> dict[str, str]:
        """Some of the other file's globals, by the names that this file gives to them."""
        own = {name: name for name in names} if self.star else {}
        return {**own, **{called: name for called, name in self.taken.items() if name in names}}

    def read(self, names: Collection[str]) -> set[str]:
        """Those of these globals that it reads."""
        return {n for called, n in self.bound(names).items() if called in self.loads} | (self.attributes & set(names))


NO_USE = Use({}, False, frozenset(), frozenset(), frozenset())


@remembered
def use(path: Path, other: Path, root: Path) -> Use:
    """What a file does with globals of another, in the project that begins at a folder."""
    content = _content(path, root) if other in _led_to(path, root) else None
    if content is None:
        return NO_USE
    taken: dict[str, str] = {}
    own: set[str] = set()
    whole = False
    for node in content.imports:
        if isinstance(node, ast.ImportFrom):
            if content.finder.find(node.module or "", node.level, path) == other:
                taken.update((alias.asname or alias.name, alias.name) for alias in node.names)
            else:
                own |= {alias.asname or alias.name for alias in node.names}
            inner = [f"{node.module}.{a.name}" if node.module else a.name for a in node.names]
            whole = whole or any(content.finder.find(name, node.level, path) == other for name in inner)
        else:
            whole = whole or any(content.finder.find(a.name, 0, path) == other for a in node.names)
            own |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return Use(taken, "*" in taken, content.attributes if whole else frozenset(), content.loads, frozenset(own))


@dataclass(frozen=True)
class _Content:
    """What a file has, whichever other file is asked about."""

    finder: Finder
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    attributes: frozenset[str]
    loads: frozenset[str]


@remembered
def _led_to(path: Path, root: Path) -> frozenset[Path | None]:
    """The files that a file may import, as far as its text shows."""
    try:
        finder = Finder(path, Source.read(path), root)
    except BadSource:
        return frozenset()
    return frozenset(finder.find(name, level, path) for name, level in surface(path).imports)


@remembered
def _content(path: Path, root: Path) -> _Content | None:
    """What a file has; None if it does not parse."""
    try:
        source = Source.read(path)
        nodes = list(walk(source.tree))
    except BadSource:
        return None
    imports = tuple(n for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom)))
    attributes = frozenset(n.attr for n in nodes if isinstance(n, ast.Attribute))
    exported = {n for s in source.tree.body if _exports(s) for n in walk(s)}
    loads = frozenset(n.id for n in nodes if isinstance(n, ast.Name) and n not in exported)
    return _Content(Finder(path, source, root), imports, attributes, loads)


def _exports(statement: ast.stmt) -> bool:
    """Whether a statement only says what a file hands on to others: `__all__ = (train, test)`."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    named = [t.id for t in targets if isinstance(t, ast.Name)]
    if not isinstance(statement, ast.Assign) or len(targets) != 1 or named != ["__all__"]:
        return False
    listed = statement.value.elts if isinstance(statement.value, (ast.Tuple, ast.List)) else [statement.value]
    return all(isinstance(entry, (ast.Name, ast.Constant)) for entry in listed)


@remembered
def files_of(root: Path) -> tuple[Path, ...]:
    """The files of a project."""
    files = Files()
    try:
        files.add(root)
    except Nowhere:
        return ()
    return tuple(Path(p).resolve() for p in files.named)[:_MOST_FILES]


@remembered
def _naming(root: Path) -> dict[str, list[Path]]:
    """The files of a project by the words that they name modules with."""
    found: dict[str, list[Path]] = {}
    for path in files_of(root):
        for word in surface(path).words:
            found.setdefault(word, []).append(path)
    return found
