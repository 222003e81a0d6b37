"""Linking: a script and the project files that it imports, as one syntax tree.

The files' statements stand one after the other, imported ones first. A global of an imported file is written with the
file's name (`utils»train`), wherever it is used; what an import binds is no variable of its own, but the one that it
names. So whatever is asked of names holds across files, and no rule knows of files. The nodes have lines of their own,
in that order, and each knows the node of the file that it stands for.
"""

from __future__ import annotations

import ast
import os
import re
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from accelift_codemod.facts.index import FUNCTIONS, MARK, Binding, How, Index, Scope
from accelift_codemod.project.finder import Finder
from accelift_codemod.project.surface import may_train
from accelift_codemod.source import BadSource, Source, read_bytes

_LEVEL = "›"  # for the dots of a module's name
QUALIFIED = re.compile(rf"([\w{_LEVEL}]+){MARK}(\w+)")
_MOST_FILES = 200
_MOST_BYTES = 3_000_000


class CannotLink(Exception):
    """The files are too many, or one changes the globals of another."""


@dataclass(eq=False)
class Unit:
    """One file of a program."""

    path: Path
    source: Source
    key: str  # how its globals are marked; empty for the script itself
    index: Index
    base: int = 0  # what its lines are counted from

    def marked(self, name: str) -> str:
        """A global of the file, as it is called in the program."""
        return f"{self.key}{MARK}{name}" if self.key else name


@dataclass(frozen=True)
class Module:
    """An imported project file, or a folder of them."""

    path: Path
    unit: Unit | None


@dataclass(frozen=True)
class Variable:
    """A global of a file."""

    unit: Unit
    name: str

    @property
    def marked(self) -> str:
        return self.unit.marked(self.name)


Target = Module | Variable


@dataclass
class Program:
    """A script with the files it imports. It can be asked what a `Source` can."""

    units: list[Unit]  # the script is the last
    tree: ast.Module
    originals: dict[ast.AST, ast.AST]
    spellings: dict[tuple[Unit, str], str] = field(default_factory=dict)  # how a file spells another's global
    reads: dict[ast.AST, list[ast.alias]] = field(default_factory=dict)  # uses of others' globals, and their imports

    @property
    def entry(self) -> Unit:
        return self.units[-1]

    @property
    def path(self) -> str:
        return self.entry.source.path

    @property
    def digest(self) -> str:
        return self.entry.source.digest

    def mentions(self, *marks: bytes) -> bool:
        """Whether a file has one of these words."""
        return any(mark in unit.source.data for unit in self.units for mark in marks)

    def segment(self, node: ast.AST) -> str:
        """The author's text of an expression or statement."""
        return self.unit(node.lineno).source.segment(self.originals.get(node, node))  # type: ignore[attr-defined]

    def unit(self, line: int) -> Unit:
        """The file in which a line of the program lies."""
        return self.units[max(bisect_right(self._bases, line - 1) - 1, 0)]

    def body(self, node: ast.stmt) -> list[ast.stmt]:
        """The statements of the file in which a statement stands."""
        own = self.unit(node.lineno)
        return [s for s in self.tree.body if self.unit(s.lineno) is own]

    @cached_property
    def _bases(self) -> list[int]:
        return [unit.base for unit in self.units]


def link(entry: Source, path: Path, known: Collection[str] = ()) -> Program | None:
    """The program of a script; None if it uses nothing of another project file.

    What is `known` by its whole name is not looked into.

    Raises:
        BadSource: the script does not parse.
        CannotLink: it cannot be taken as one program.
    """
    if not any(map(_acts, entry.tree.body)):
        return None  # run by itself, it does nothing
    linker = _Linker(entry, path, known)
    if not may_train(linker.entry.path, linker.finder) or not linker.imports_anything():
        return None
    program = linker.run()
    return program if len(program.units) > 1 else None


class _Linker:
    def __init__(self, entry: Source, path: Path, known: Collection[str]) -> None:
        self.known = {tuple(name.split(".")[-2:]) for name in known}
        self.entry = Unit(Path(path).resolve(), entry, "", Index(entry.tree))
        self.finder = Finder(path, entry.tree)
        self.loaded: dict[Path, Unit | None] = {self.entry.path: self.entry}
        self.keys: set[str] = set()
        self._exported: dict[tuple[Unit, str], Target | None] = {}
        self._stars: dict[Unit, list[Module]] = {}
        self.size = len(entry.data)

    def run(self) -> Program:
        """Take the script, and every file of which something that is taken uses a global."""
        copies: dict[Unit, _Copy] = {}
        queue = [self.entry]
        while queue:
            unit = queue.pop()
            if unit in copies:
                continue
            if len(copies) >= _MOST_FILES or self.size > _MOST_BYTES:
                raise CannotLink(f"it imports more than can be looked at as one program ({len(copies)} files)")
            copies[unit] = _Copy(self, unit)
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
        found: list[Unit] = []
        for node in ast.walk(unit.source.tree):
            names: list[tuple[str, int]] = []
            if isinstance(node, ast.Import):
                names = [(a.name, 0) for a in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "", node.level)]
                names += [(f"{node.module}.{a.name}" if node.module else a.name, node.level) for a in node.names]
            for name, level in names:
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
            data = read_bytes(path)
            source = Source.decode(data, shown) if data.strip() else Source(shown, b"", "", "utf-8")
            index = Index(source.tree)
        except (BadSource, RecursionError):
            return None
        self.size += len(source.data)
        parts = path.with_suffix("").parts
        named = parts[:-1] if parts[-1] == "__init__" else parts
        for length in range(1, len(named) + 1):
            key = _LEVEL.join(re.sub(r"\W", "_", p) for p in named[-length:])
            if key not in self.keys:
                break
        self.keys.add(key)
        return Unit(path, source, key, index)

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


class _Copy:
    """A copy of a file's tree, in which globals carry the names of their files."""

    def __init__(self, linker: _Linker, unit: Unit) -> None:
        self.linker = linker
        self.unit = unit
        self.index = unit.index
        self.used: list[Unit] = []
        self.spellings: dict[str, str] = {}
        self.originals: dict[ast.AST, ast.AST] = {}
        self.aliases: dict[tuple[Scope, str], list[ast.alias]] = {}
        self.reads: list[tuple[ast.Name, Scope, str]] = []  # those of imported globals, and what imports them
        self._targets: dict[tuple[Scope | None, str], Target | None] = {}
        self._spell()
        tree = self._of(unit.source.tree)
        assert isinstance(tree, ast.Module)
        self.tree = tree

    def _spell(self) -> None:
        """How the file's module-level imports spell the globals of other files."""
        for name in self.index.module.bindings:
            target = self._target(self.index.module, name)
            if isinstance(target, Variable):
                self.spellings.setdefault(target.marked, name)
            elif isinstance(target, Module) and target.unit is not None:
                for other in target.unit.index.module.bindings:
                    found = self.linker.exported(target.unit, other)
                    if isinstance(found, Variable):
                        self.spellings.setdefault(found.marked, f"{name}.{other}")

    # ---- copying

    def _of(self, node: ast.AST) -> ast.AST:
        copy = self._renamed(node)
        if copy is None:
            copy = node.__class__()
            for name, value in ast.iter_fields(node):
                if isinstance(value, list):
                    value = [self._of(v) if isinstance(v, ast.AST) else v for v in value]
                elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                    value = self._of(value)
                setattr(copy, name, value)
            self._name(node, copy)
        ast.copy_location(copy, node)
        self.originals[copy] = node
        return copy

    def _renamed(self, node: ast.AST) -> ast.AST | None:
        """What stands in the place of a node; None if it is copied part by part."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            target = self._reached(node)
            if isinstance(target, Variable):
                if not isinstance(node.ctx, ast.Load):
                    raise CannotLink(f"{self.unit.source.path}:{node.lineno} sets a global of {target.unit.path.name}")
                self.used.append(target.unit)
                copy = ast.Name(target.marked, node.ctx)
                root = _root(node)
                owner = self.index.scope(root).owner(root.id)
                if owner is not None:
                    self.reads.append((copy, owner, root.id))
                return copy
            if isinstance(node, ast.Name):
                return ast.Name(self._variable(self.index.scope(node), node.id), node.ctx)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._import(node)
        if isinstance(node, ast.If) and self.unit.key and is_main(node.test):
            return ast.Pass()
        return None

    def _name(self, node: ast.AST, copy: ast.AST) -> None:
        """Rename what binds a name by a string."""
        if isinstance(copy, (*FUNCTIONS, ast.ClassDef)):
            scope = self.index.scope(node)
            if scope.is_module:
                copy.name = self.unit.marked(copy.name)
        elif isinstance(copy, ast.Global):
            copy.names = [self.unit.marked(n) for n in copy.names]
        elif isinstance(copy, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            if copy.name and self.index.scope(node).owner(copy.name) is self.index.module:
                copy.name = self.unit.marked(copy.name)

    def _import(self, node: ast.Import | ast.ImportFrom) -> ast.AST:
        kept = []
        scope = self.index.scope(node)
        for alias in node.names:
            if alias.name == "*":
                if not isinstance(node, ast.ImportFrom) or self.linker.module(node.module or "", node.level, self.unit):
                    continue
            bound = alias.asname or alias.name.partition(".")[0]
            copy = ast.alias(alias.name, alias.asname)
            if self.unit.key and scope.is_module and alias.name != "*":
                whole = alias.name if alias.asname or isinstance(node, ast.ImportFrom) else bound
                copy = ast.alias(whole, self.unit.marked(bound))
            ast.copy_location(copy, alias)
            self.originals[copy] = alias
            self.aliases.setdefault((scope, bound), []).append(copy)
            kept.append(copy)
        if not kept:
            return ast.Pass()
        if isinstance(node, ast.Import):
            return ast.Import(kept)
        return ast.ImportFrom(node.module, kept, node.level)

    # ---- names

    def _variable(self, scope: Scope, name: str) -> str:
        """How a file's own name that is used in a scope is written in the program."""
        owner = scope.owner(name)
        if owner is self.index.module:
            return self.unit.marked(name)
        if owner is None and self.unit.key and name in self.linker.entry.index.module.bindings:
            return self.unit.marked(name)  # not the script's: Python's own, or nothing
        return name

    def _target(self, owner: Scope | None, name: str) -> Target | None:
        """What an imported name is, if that is the project's."""
        if (owner, name) not in self._targets:
            self._targets[owner, name] = self._find(owner, name)
        return self._targets[owner, name]

    def _find(self, owner: Scope | None, name: str) -> Target | None:
        if owner is None:
            return self.linker.exported(self.unit, name) if name not in self.index.module.bindings else None
        bindings = owner.bindings.get(name, [])
        if not bindings or any(b.how is not How.IMPORT for b in bindings):
            return None
        found = {self.linker.imported(self.unit, b) for b in bindings}
        return found.pop() if len(found) == 1 else None

    def _reached(self, node: ast.expr) -> Target | None:
        """What a chain of attributes leads to, from an imported module."""
        if isinstance(node, ast.Name):
            return self._target(self.index.scope(node).owner(node.id), node.id)
        if isinstance(node, ast.Attribute):
            base = self._reached(node.value)
            if isinstance(base, Module):
                return self.linker.attribute(base, node.attr)
        return None


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


def _root(node: ast.Name | ast.Attribute) -> ast.Name:
    """The name at the start of a chain of attributes."""
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    assert isinstance(inner, ast.Name)
    return inner


def _beside(path: Path, entry: Unit) -> str:
    """A file's path, written as the script's is."""
    given = Path(entry.source.path)
    if given.is_absolute():
        return str(path)
    return os.path.normpath(given.parent / os.path.relpath(path, entry.path.parent))


def stem_of(path: Path) -> str:
    """What a module's file or package is called."""
    return path.parent.name if path.name == "__init__.py" else path.stem


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


def is_main(test: ast.expr) -> bool:
    """Whether a condition holds only for the file that is run."""
    return (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.Eq)
        and {ast.unparse(test.left), ast.unparse(test.comparators[0])} == {"__name__", "'__main__'"}
    )
