"""Takes a script and the files it imports for a program: which files, and what their imports bind."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from accelift_codemod.facts.index import FUNCTIONS, Binding, How, Index
from accelift_codemod.project.finder import Finder, imported
from accelift_codemod.project.naming import CannotLink, Copy
from accelift_codemod.project.program import LEVEL, Module, Program, Target, Unit, Variable, is_main, stem_of
from accelift_codemod.project.surface import may_train
from accelift_codemod.source import BadSource, Source, read_bytes

_MOST_FILES = 200
_MOST_BYTES = 3_000_000


def link(entry: Source, path: Path, known: Collection[str] = ()) -> Program | None:
    """The program of a script; None if it uses nothing of another project file.

    What is `known` by its whole name is not looked into.

    Raises:
        BadSource: the script does not parse.
        CannotLink: it cannot be taken as one program.
    """
    if not any(map(_acts, entry.tree.body)):
        return None  # run by itself, it does nothing
    linker = Linker(entry, path, known)
    if not may_train(linker.entry.path, linker.finder) or not linker.imports_anything():
        return None
    program = linker.run()
    return program if len(program.units) > 1 else None


class Linker:
    """Answers what the imports of a script's files bind, and puts together the files that are needed."""

    def __init__(self, entry: Source, path: Path, known: Collection[str]) -> None:
        self.known = {tuple(name.split(".")[-2:]) for name in known}
        self.entry = Unit(Path(path).resolve(), entry, "", Index.of(entry.tree))
        self.finder = Finder(path, entry)
        self.loaded: dict[Path, Unit | None] = {self.entry.path: self.entry}
        self.keys: set[str] = set()
        self._exported: dict[tuple[Unit, str], Target | None] = {}
        self._stars: dict[Unit, list[Module]] = {}
        self.size = len(entry.data)

    def run(self) -> Program:
        """Take the script, and every file of which something that is taken uses a global."""
        copies: dict[Unit, Copy] = {}
        queue = [self.entry]
        while queue:
            unit = queue.pop()
            if unit in copies:
                continue
            if len(copies) >= _MOST_FILES or self.size > _MOST_BYTES:
                raise CannotLink(f"it imports more than can be looked at as one program ({len(copies)} files)")
            copies[unit] = Copy(self, unit)
            queue += copies[unit].used
        units = self._ordered(set(copies))
        originals: dict[ast.AST, ast.AST] = {}
        body: list[ast.stmt] = []
        base = 0
        for unit in units:
            unit.base = base
            base += len(unit.source.lines) + 1
            copy = copies[unit]
            body += copy.tree.body
            originals.update(copy.originals)
            if unit.base:
                for node in copy.originals:
                    if hasattr(node, "lineno"):
                        node.lineno += unit.base
                        node.end_lineno += unit.base  # type: ignore[attr-defined]
        reads: dict[ast.AST, list[ast.alias]] = {
            name: copy.aliases.get((scope, bound), []) for copy in copies.values() for name, scope, bound in copy.reads
        }
        spellings = {(unit, name): text for unit, copy in copies.items() for name, text in copy.spellings.items()}
        return Program(units, ast.Module(body, []), originals, spellings, reads)

    def _ordered(self, units: set[Unit]) -> list[Unit]:
        """The files in the order in which their code runs: what is imported comes first."""
        found: dict[Unit, None] = {}
        entered: set[Unit] = set()
        stack: list[tuple[Unit, bool]] = [(self.entry, False)]
        while stack:
            unit, done = stack.pop()
            if done:
                found.setdefault(unit)
            elif unit not in entered:
                entered.add(unit)
                stack.append((unit, True))
                stack += [(u, False) for u in reversed(self._imports(unit)) if u in units]
        rest = [u for u in units if u not in found]  # used, but only through others that are not
        return [*sorted(rest, key=lambda u: u.key), *found]

    def _imports(self, unit: Unit) -> list[Unit]:
        """The files that a file imports; what its functions import comes last."""
        found: list[Unit] = []
        for node in sorted(unit.index.imports, key=lambda n: unit.index.function(n) is not None):
            for name, level in imported(node):
                module = self.module(name, level, unit)
                if module is not None and module.unit is not None:
                    found.append(module.unit)
        return found

    # ---- files

    def module(self, name: str, level: int, importer: Unit) -> Module | None:
        """The project's module of a name; None if the project has none, or it is the script itself, run again."""
        place = self.finder.find(name, level, importer.path)
        if place is None:
            return None
        return self._at(place)

    def _at(self, place: Path) -> Module | None:
        if place.is_dir():
            return Module(place, None)
        path = place.resolve()
        if path not in self.loaded:
            self.loaded[path] = self._load(path)
        unit = self.loaded[path]
        return None if unit is None or unit is self.entry else Module(path, unit)

    def _load(self, path: Path) -> Unit | None:
        shown = _beside(path, self.entry)
        try:
            source = _understood(shown, read_bytes(path))
        except (BadSource, RecursionError):
            return None
        self.size += len(source.data)
        parts = path.with_suffix("").parts
        named = parts[:-1] if parts[-1] == "__init__" else parts
        for length in range(1, len(named) + 1):
            key = LEVEL.join(re.sub(r"\W", "_", p) for p in named[-length:])
            if key not in self.keys:
                break
        self.keys.add(key)
        return Unit(path, source, key, Index.of(source.tree))

    # ---- names

    def imports_anything(self) -> bool:
        """Whether the script imports from the project at all."""
        scopes = self.entry.index.scopes.values()
        bound = (b for s in scopes for bindings in s.bindings.values() for b in bindings)
        return any(self.imported(self.entry, b) for b in bound) or bool(self.stars(self.entry))

    def imported(self, unit: Unit, binding: Binding) -> Target | None:
        """What an import in a file binds, if that is the project's."""
        alias = binding.node
        if not isinstance(alias, ast.alias):
            return None
        statement = unit.index.parents[alias]
        if isinstance(statement, ast.ImportFrom):
            module = self.module(statement.module or "", statement.level, unit)
            return None if module is None else self.attribute(module, alias.name)
        return self.module(alias.name if alias.asname else alias.name.partition(".")[0], 0, unit)

    def stars(self, unit: Unit) -> list[Module]:
        """The project's modules from which a file imports everything."""
        if unit not in self._stars:
            self._stars[unit] = [
                module
                for statement in unit.index.tree.body
                if isinstance(statement, ast.ImportFrom) and any(a.name == "*" for a in statement.names)
                if (module := self.module(statement.module or "", statement.level, unit)) is not None
            ]
        return self._stars[unit]

    def attribute(self, module: Module, name: str) -> Target | None:
        """What a module's attribute is."""
        if module.unit is not None:
            found = self.exported(module.unit, name)
            if found is not None:
                return found
        if module.unit is None or module.path.name == "__init__.py":
            folder = module.path if module.unit is None else module.path.parent
            place = self.finder.below(folder, name)
            return self._at(place) if place is not None else None
        return None

    def exported(self, unit: Unit, name: str) -> Target | None:
        """The global of a file that goes by a name in it; None if there is none, or it may be bound again later."""
        if (unit, name) not in self._exported:
            self._exported[unit, name] = None  # while it is looked for: files may import each other
            self._exported[unit, name] = self._export(unit, name)
        return self._exported[unit, name]

    def _export(self, unit: Unit, name: str) -> Target | None:
        if (stem_of(unit.path), name) in self.known:
            return None
        bindings = unit.index.module.bindings.get(name)
        if bindings is None:
            stars = reversed(self.stars(unit))
            from_stars = (self.attribute(star, name) for star in stars if star.unit and _public(star.unit, name))
            return next((found for found in from_stars if found is not None), None)
        if all(b.how is How.IMPORT for b in bindings):
            found_all = {self.imported(unit, b) for b in bindings}
            if len(found_all) == 1 and None not in found_all:
                return found_all.pop()
        if any(_within_function(unit.index, b.node) for b in bindings):
            return None  # bound again by a function: what was imported is the object of before
        return Variable(unit, name)


@lru_cache(maxsize=64)  # what the scripts of a folder share is looked at once
def _understood(shown: str, data: bytes) -> Source:
    """A file that parses, with its tree and index.

    Raises:
        BadSource: it does not.
    """
    source = Source.decode(data, shown) if data.strip() else Source(shown, b"", "", "utf-8")
    Index.of(source.tree)
    return source


def _acts(statement: ast.stmt) -> bool:
    """Whether a statement outside functions may do more than bind names and import."""
    if isinstance(statement, ast.If) and is_main(statement.test):
        return True
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)):
        return False
    if isinstance(statement, (ast.If, ast.Try, ast.With)):
        return any(_acts(s) for s in ast.iter_child_nodes(statement) if isinstance(s, ast.stmt))
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        return isinstance(statement.value.func, ast.Name)
    return isinstance(statement, (ast.For, ast.While)) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    )


def _beside(path: Path, entry: Unit) -> str:
    """A file's path, written as the script's is."""
    given = Path(entry.source.path)
    if given.is_absolute():
        return str(path)
    return os.path.normpath(given.parent / os.path.relpath(path, entry.path.parent))


def _public(unit: Unit, name: str) -> bool:
    """Whether `from unit import *` brings a name along."""
    for statement in unit.index.tree.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in statement.targets
        ):
            if isinstance(statement.value, (ast.List, ast.Tuple)):
                return any(isinstance(e, ast.Constant) and e.value == name for e in statement.value.elts)
    return not name.startswith("_")


def _within_function(index: Index, node: ast.AST) -> bool:
    function = index.function(node)
    return function is not None and function is not node
