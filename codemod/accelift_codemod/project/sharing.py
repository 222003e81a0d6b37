"""Who else in a project uses what a conversion changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelift_codemod.discover import Files, Nowhere
from accelift_codemod.facts.index import FUNCTIONS, Index
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import STATE, Edit, Operation
from accelift_codemod.project.finder import Finder, project_folder
from accelift_codemod.project.program import Program, Unit, is_main, stem_of
from accelift_codemod.project.surface import surface
from accelift_codemod.remembered import remembered
from accelift_codemod.source import BadSource, Source

_MOST_FILES = 5000


@dataclass(frozen=True)
class Sharer:
    """A script, or a file of one, that uses something of a file that a conversion changes."""

    member: str
    path: str
    name: str


def sharers(program: Program, edits: Mapping[Unit, Sequence[Edit]]) -> tuple[Sharer, ...]:
    """Who uses what edits change in the files that a script imports, and does not belong to its program."""
    members = {unit.path for unit in program.units}
    root = project_folder(program.entry.path.parent)
    found = []
    for unit, own in edits.items():
        names = _changed_names(unit, own)
        found += [Sharer(unit.source.path, str(unit.path), name) for name in sorted(names & _main_names(unit))[:1]]
        for path, name in _others(root, unit.path, names, members) if names else ():
            found.append(Sharer(unit.source.path, str(path), name))
    return tuple(found)


def _changed_names(unit: Unit, edits: Sequence[Edit]) -> set[str]:
    """The globals of a file whose meaning edits change: what is edited, and what uses that."""
    index = unit.index
    changed: set[str] = set()
    for edit in edits:
        if edit.node is None or STATE in edit.code:  # which is there for every script
            continue
        top = _top(index, edit.node)
        if isinstance(top, (*FUNCTIONS, ast.ClassDef)):
            changed.add(top.name)
        elif edit.operation in (Operation.DROP, Operation.DROP_NAME):  # what others may import from here
            aliases = (n for n in walk(edit.node) if isinstance(n, ast.alias))
            changed |= {a.asname or a.name.partition(".")[0] for a in aliases}
            changed |= {n.id for n in walk(edit.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    uses = {
        top.name: {n.id for n in walk(top) if isinstance(n, ast.Name)}
        for top in index.tree.body
        if isinstance(top, (*FUNCTIONS, ast.ClassDef))
    }
    growing = True
    while growing:
        more = {name for name, used in uses.items() if name not in changed and used & changed}
        changed |= more
        growing = bool(more)
    return changed


def _main_names(unit: Unit) -> set[str]:
    """The names that a file uses when it is run itself, in a block that does not run when it is imported."""
    blocks = [s for s in unit.index.tree.body if isinstance(s, ast.If) and is_main(s.test)]
    return {n.id for block in blocks for n in walk(block) if isinstance(n, ast.Name)}


def _top(index: Index, node: ast.AST) -> ast.AST:
    while not isinstance(index.parents.get(node, index.tree), ast.Module):
        node = index.parents[node]
    return node


def _others(
    root: Path, path: Path, names: set[str], members: set[Path], seen: frozenset[Path] = frozenset()
) -> Iterator[tuple[Path, str]]:
    """The project's files, other than the members of a program, that use one of a file's globals, with its name."""
    for other in _naming(root).get(stem_of(path), ()):
        if other == path or other in seen:
            continue
        read, bound = _use(other, path).of(names)
        if read and other not in members:
            yield other, min(read)
        if bound:  # others may import them from here
            yield from _others(root, other, bound, members, seen | {path})


@dataclass(frozen=True)
class _Use:
    """What a file does with globals of another."""

    taken: Mapping[str, tuple[str, ...]]  # those that it imports, with what they are called here
    star: bool  # it imports all of them
    attributes: frozenset[str]  # those that it reads of anything, if it imports the other file itself
    loads: frozenset[str]  # the names that it reads

    def of(self, names: set[str]) -> tuple[set[str], set[str]]:
        """Which of these globals it reads, and the names that it binds to some, which others may import from it."""
        called = [(n, bound) for n in names for bound in (*self.taken.get(n, ()), *([n] if self.star else []))]
        return {n for n, bound in called if bound in self.loads} | (names & self.attributes), {b for _, b in called}


_NO_USE = _Use({}, False, frozenset(), frozenset())


@remembered
def _use(path: Path, other: Path) -> _Use:
    try:
        source = Source.read(path)
        finder = Finder(path, source)
        if all(finder.find(name, level, path) != other for name, level in surface(path).imports):
            return _NO_USE
        nodes = list(walk(source.tree))
    except BadSource:
        return _NO_USE
    taken: dict[str, tuple[str, ...]] = {}
    whole = False
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            if finder.find(node.module or "", node.level, path) == other:
                for alias in node.names:
                    taken[alias.name] = (*taken.get(alias.name, ()), alias.asname or alias.name)
            inner = [f"{node.module}.{a.name}" if node.module else a.name for a in node.names]
            whole = whole or any(finder.find(name, node.level, path) == other for name in inner)
        elif isinstance(node, ast.Import):
            whole = whole or any(finder.find(a.name, 0, path) == other for a in node.names)
    attributes = frozenset(n.attr for n in nodes if isinstance(n, ast.Attribute)) if whole else frozenset()
    loads = frozenset(n.id for n in nodes if isinstance(n, ast.Name))
    return _Use(taken, "*" in taken, attributes, loads)


@remembered
def _naming(root: Path) -> dict[str, list[Path]]:
    """The files of a project by the words that they name modules with."""
    files = Files()
    try:
        files.add(root)
    except Nowhere:
        return {}
    found: dict[str, list[Path]] = {}
    for path in [p.resolve() for p in files.named if p.suffix == ".py"][:_MOST_FILES]:
        for word in surface(path).words:
            found.setdefault(word, []).append(path)
    return found
