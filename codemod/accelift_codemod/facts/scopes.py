"""Scopes and what their names are bound to."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
MARK = "»"  # in a program of several files, between a file's name and that of its global (see project/program.py)


class How(Enum):
    """How a name came to be bound."""

    ASSIGN = "assignment"
    AUGMENT = "augmented assignment"
    LOOP = "loop variable"
    WITH = "with ... as"
    PARAMETER = "parameter"
    IMPORT = "import"
    FUNCTION = "def"
    CLASS = "class"
    OTHER = "other"


@dataclass(slots=True, eq=False)
class Binding:
    """One place where a name is bound.

    `value` is the expression assigned, iterated over or entered; `path` leads from it to the name
    through tuple unpacking (`a, (b, c) = value` binds `c` at path (1, 1); None stands for a starred rest).
    """

    name: str
    how: How
    node: ast.AST
    scope: Scope
    value: ast.expr | None = None
    path: tuple[int | None, ...] = ()
    qualified: str = ""


@dataclass(slots=True, eq=False)
class Scope:
    """A module, function, class, lambda or comprehension."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    loads: dict[str, list[ast.Name]] = field(default_factory=dict)
    outer_names: dict[str, bool] = field(default_factory=dict)  # name -> True for `global`, False for `nonlocal`

    @property
    def is_module(self) -> bool:
        return self.parent is None

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    def owner(self, name: str) -> Scope | None:
        """The scope whose variable `name` means here; None for a builtin or a star import's name.

        An attribute of self that is a variable (`self.model`) belongs to the class, and all its methods see it.
        """
        if name in self.bindings and not self.outer_names:
            return self
        scope: Scope | None = self
        first = True
        while scope is not None:
            declared = scope.outer_names.get(name)
            if declared is True:
                while scope.parent is not None:
                    scope = scope.parent
                return scope if name in scope.bindings else None
            if declared is None and name in scope.bindings and (first or not scope.is_class or "." in name):
                return scope
            first = False
            scope = scope.parent
        return None


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Every parameter in the order of the signature, `*args` and `**kwargs` included."""
    found = [*arguments.posonlyargs, *arguments.args]
    if arguments.vararg:
        found.append(arguments.vararg)
    found += arguments.kwonlyargs
    if arguments.kwarg:
        found.append(arguments.kwarg)
    return found


def position(node: ast.AST) -> tuple[int, int]:
    """Where a node starts: for ordering."""
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def end_position(node: ast.stmt | ast.expr) -> tuple[int, int]:
    """Where a node ends."""
    return node.end_lineno or 0, node.end_col_offset or 0
