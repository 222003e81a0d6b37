"""A script as a project: some of its functions and classes in files of their own, which it imports."""

from __future__ import annotations

import ast
import symtable
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

ENTRY = "train.py"

Files = dict[str, str]
"""The texts of a project by their paths, the script first."""


@dataclass(frozen=True)
class _Style:
    """How the script imports a module, and where modules lie; how modules import each other."""

    statement: str
    folder: str = ""
    inner: str = "from {module} import {names}"
    prefix: str = ""  # of the names, where the module is imported and not they


_STYLES = {
    "from": _Style("from {module} import {names}"),
    "star": _Style("from {module} import *"),
    "package": _Style("from lib.{module} import {names}", "lib/", "from .{module} import {names}"),
    "module": _Style("import {module}", prefix="{module}."),
    "named": _Style("from lib import {module} as m_{module}", "lib/", "from .{module} import *", "m_{module}."),
}
STYLES = tuple(_STYLES)
PLAIN = ("from", "star", "package")
"""Styles that leave the statements of the script as they are."""


def split(text: str, random: Random, style: str = "from", files: int = 2) -> Files | None:
    """The script in so many files at most, all that can be moved among them; None if nothing can.

    What reads variables of the script stays with it.
    """
    script = _Script(text)
    how = _STYLES[style]
    moved = script.some(random, script.movable())
    if not moved or (how.prefix and script.binds_elsewhere(moved)):
        return None
    deep = script.some(random, moved) if files > 2 else set()
    modules = {"parts": moved - deep, "basics": deep}
    texts = {ENTRY: script.without(modules, how)}
    for module, names in modules.items():
        if names:
            texts[f"{how.folder}{module}.py"] = script.holding(names, deep - names, how.inner)
    return texts


def joined(files: Mapping[str, str]) -> Counter[str]:
    """The statements at module level of all files, in no order, without the imports."""
    statements = (statement for text in files.values() for statement in ast.parse(text).body)
    return Counter(ast.dump(s) for s in statements if not isinstance(s, (ast.Import, ast.ImportFrom)))


class _Script:
    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._tree = ast.parse(text)
        self._imports = [s for s in self._tree.body if isinstance(s, (ast.Import, ast.ImportFrom))]
        definitions = [s for s in self._tree.body if isinstance(s, (ast.FunctionDef, ast.ClassDef))]
        names = Counter(one.name for one in definitions)
        self._definitions = {one.name: one for one in definitions if names[one.name] == 1}
        tables = {(t.get_name(), t.get_lineno()): t for t in symtable.symtable(text, ENTRY, "exec").get_children()}
        self._reads: dict[str, set[str]] = {}
        self._writes: set[str] = set()
        for one in definitions:
            table = next(t for (name, line), t in tables.items() if name == one.name and _start(one) <= line)
            read, written = _globals(table)
            outside = [*one.decorator_list, *getattr(one, "bases", []), *getattr(one, "keywords", [])]
            if isinstance(one, ast.FunctionDef):
                outside += [*one.args.defaults, *filter(None, one.args.kw_defaults)]
            read |= {n.id for part in outside for n in ast.walk(part) if isinstance(n, ast.Name)}
            self._reads[one.name] = read - {one.name}
            self._writes |= written

    def movable(self) -> set[str]:
        """The definitions that read nothing of the script but each other."""
        kept = [s for s in self._tree.body if s not in self._imports]
        bound = {n.id for s in kept for n in _outside(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        bound |= self._writes | {"__file__", "globals"}
        found = {name for name in self._definitions if name not in bound and not self._reads[name] & bound}
        while stuck := {name for name in found if self._reads[name] & (self._reads.keys() - found)}:
            found -= stuck
        return found

    def some(self, random: Random, names: set[str]) -> set[str]:
        """All of the names or some, with those that they need."""
        chosen = {name for name in sorted(names) if random.random() < 0.7}
        while needed := {n for name in chosen for n in self._reads[name] if n in self._reads} - chosen:
            chosen |= needed
        return chosen

    def binds_elsewhere(self, names: set[str]) -> bool:
        """Whether one of the names is another thing somewhere, so that it cannot be spelled differently."""
        nodes = list(ast.walk(self._tree))
        other = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        return bool(names & (other | {n.arg for n in nodes if isinstance(n, ast.arg)}))

    def without(self, modules: dict[str, set[str]], how: _Style) -> str:
        """The script, importing what was moved."""
        lines = list(self._lines)
        where = {name: module for module, names in modules.items() for name in names}
        if how.prefix:
            named = [n for n in ast.walk(self._tree) if isinstance(n, ast.Name) and n.id in where]
            for node in sorted(named, key=lambda n: (n.lineno, n.col_offset), reverse=True):
                row, at = node.lineno - 1, node.col_offset
                lines[row] = lines[row][:at] + how.prefix.format(module=where[node.id]) + lines[row][at:]
        for name in where:
            one = self._definitions[name]
            for row in range(_start(one) - 1, one.end_lineno or 0):
                lines[row] = ""
        last = (self._imports[-1].end_lineno or 0) if self._imports else 0
        for module, names in modules.items():
            if used := sorted(names & self._needed(set(self._reads) - where.keys())):
                lines.insert(last, how.statement.format(module=module, names=", ".join(used)) + "\n")
        return "".join(lines)

    def _needed(self, definitions: set[str]) -> set[str]:
        """The names that some definitions and the statements outside of all read."""
        outside = {n.id for s in self._tree.body for n in _outside(s) if isinstance(n, ast.Name)}
        return outside.union(*(self._reads[name] for name in definitions))

    def holding(self, own: set[str], others: set[str], inner: str) -> str:
        """The file with some definitions, and the imports that they need."""
        needed = {n for name in own for n in self._reads[name]}
        head = [
            self._text(s) for s in self._imports if needed & {a.asname or a.name.partition(".")[0] for a in s.names}
        ]
        if used := sorted(needed & others):
            head.append(inner.format(module="basics", names=", ".join(used)) + "\n")
        bodies = [self._text(one) for name, one in self._definitions.items() if name in own]
        return "".join(head) + "\n\n" + "\n\n".join(bodies)

    def _text(self, statement: ast.stmt) -> str:
        return "".join(self._lines[_start(statement) - 1 : statement.end_lineno])


def _globals(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """The globals that a function or class reads, and those that it binds."""
    read, written = set(), set()
    for symbol in table.get_symbols():
        if symbol.is_global():
            read |= {symbol.get_name()}
            written |= {symbol.get_name()} if symbol.is_assigned() else set()
    for child in table.get_children():
        inner = _globals(child)
        read, written = read | inner[0], written | inner[1]
    return read, written


def _outside(statement: ast.stmt) -> Iterable[ast.AST]:
    """The nodes of a statement that are run at module level: not those of functions and classes."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return []
    return ast.walk(statement)


def _start(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])
