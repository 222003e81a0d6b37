"""Linking: a script and the project files that it imports, as one syntax tree.

The files' statements stand one after the other, imported ones first. A global of an imported file is written with the
file's name (`utils»train`), wherever it is used; what an import binds is no variable of its own, but the one that it
names. So whatever is asked of names holds across files, and no rule knows of files. The nodes have lines of their own,
in that order, and each knows the node of the file that it stands for.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from accelift_codemod.facts.index import MARK, How, Index
from accelift_codemod.facts.tree import walk
from accelift_codemod.project.exports import Exports
from accelift_codemod.project.recent import parsed
from accelift_codemod.source import Source

LEVEL = "›"  # for the dots of a module's name
QUALIFIED = re.compile(rf"([\w{LEVEL}]+){MARK}(\w+)")


class Unit:
    """One file of a program, or of those that it imports: read once something of it is used.

    Args:
        path: where it lies.
        key: how its globals are marked; empty for the script itself.
        shown: its path, as people see it.
        exports: what others can import from it.
        source: the file, if it is known already.
    """

    def __init__(self, path: Path, key: str, shown: str, exports: Exports, source: Source | None = None) -> None:
        self.path = path
        self.key = key
        self.shown = shown
        self.exports = exports
        self.base = 0  # what its lines are counted from
        self.apart: frozenset[str] = frozenset()  # its functions that are no part of the program
        if source is not None:
            self.source = source

    @cached_property
    def source(self) -> Source:
        return parsed(self.path, self.shown)

    @cached_property
    def index(self) -> Index:
        return Index.of(self.source.tree)

    @cached_property
    def run_alone(self) -> frozenset[str]:
        """The imports and variables that the file uses when it is run itself, which the program does not see."""
        bindings = self.index.module.bindings
        defined = (How.FUNCTION, How.CLASS)
        names = main_names(self.index) if self.key else set()
        inside = (b.node for name in self.apart for b in bindings[name])
        names = names.union(n.id for node in inside for n in walk(node) if isinstance(n, ast.Name))
        return frozenset(n for n in names if n in bindings and all(b.how not in defined for b in bindings[n]))

    def defines(self, name: str) -> bool:
        """Whether a global of the file certainly is a class or function of it."""
        bindings = self.index.module.bindings.get(name, [])
        return len(bindings) == 1 and bindings[0].how in (How.FUNCTION, How.CLASS)

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
    spelled: Callable[[Unit, str], str | None] = lambda unit, name: None  # how a file spells another's global
    reads: dict[ast.AST, list[ast.alias]] = field(default_factory=dict)  # uses of others' globals, and their imports
    modules: dict[ast.AST, list[str]] = field(default_factory=dict)  # modules that are handed on: classes and functions
    more: set[ast.AST] = field(default_factory=set)  # those of them that have others, of which nothing is known

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

    def between(self, first: ast.stmt, second: ast.stmt) -> list[str]:
        """The lines between two statements of a file."""
        ends = (self.originals.get(node, node) for node in (first, second))
        return self.unit(first.lineno).source.between(*ends)  # type: ignore[arg-type]

    def lines_of(self, statement: ast.AST) -> list[str]:
        """The lines that a statement of a file stands on."""
        unit = self.unit(statement.lineno)  # type: ignore[attr-defined]
        return unit.source.lines_of(self.originals.get(statement, statement))

    def unit(self, line: int) -> Unit:
        """The file in which a line of the program lies."""
        return self.units[max(bisect_right(self._bases, line - 1) - 1, 0)]

    def has_name_for(self, variable: str, line: int) -> bool:
        """Whether the file in which a line lies has a name for a global of the program: its own, or imported."""
        unit = self.unit(line)
        home = QUALIFIED.fullmatch(variable)
        return unit.key == (home[1] if home else "") or self.spelled(unit, variable) is not None

    def body(self, node: ast.stmt) -> list[ast.stmt]:
        """The statements of the file in which a statement stands."""
        own = self.unit(node.lineno)
        return [s for s in self.tree.body if self.unit(s.lineno) is own]

    @cached_property
    def _bases(self) -> list[int]:
        return [unit.base for unit in self.units]


def stem_of(path: Path) -> str:
    """What a module's file or package is called."""
    return path.parent.name if path.name == "__init__.py" else path.stem


def main_names(index: Index) -> set[str]:
    """The names that a file uses when it is run itself, in a block that does not run when it is imported."""
    return {n.id for block in main_blocks(index) for n in walk(block) if isinstance(n, ast.Name)}


def main_blocks(index: Index) -> list[ast.If]:
    """The blocks of a file that do not run when it is imported."""
    return [s for s in index.tree.body if isinstance(s, ast.If) and is_main(s.test)]


def is_main(test: ast.expr) -> bool:
    """Whether a condition holds only for the file that is run."""
    return (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.Eq)
        and {ast.unparse(test.left), ast.unparse(test.comparators[0])} == {"__name__", "'__main__'"}
    )
