"""What a file lets others import: all that has to be known of a file of which nothing is used in the end."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from accelift_codemod.facts.command_line import is_main
from accelift_codemod.facts.index import How, Index


@dataclass(frozen=True)
class Reference:
    """What an import names: a name in a module, or the module itself if there is none."""

    module: str
    level: int  # leading dots
    name: str = ""


@dataclass(frozen=True)
class Exports:
    """The globals of a file."""

    names: Mapping[str, bool]  # with whether a function binds it
    imports: Mapping[str, tuple[Reference, ...]]  # for those that only imports bind: all that they may be
    stars: tuple[Reference, ...]  # the modules from which it imports everything
    listed: frozenset[str] | None  # `__all__`, if it is written out
    seeds: bool  # whether it seeds random numbers where it is imported, by the names of what it calls

    def public(self, name: str) -> bool:
        """Whether `from file import *` brings a name along."""
        return name in self.listed if self.listed is not None else not name.startswith("_")


def exports(index: Index) -> Exports:
    """The globals of an indexed file."""
    bound = index.module.bindings
    imports = {
        name: tuple(reference(index, b.node) for b in bindings)
        for name, bindings in bound.items()
        if all(b.how is How.IMPORT for b in bindings)
    }
    names = {name: any(_within_function(index, b.node) for b in bindings) for name, bindings in bound.items()}
    stars = tuple(
        Reference(statement.module or "", statement.level)
        for statement in index.tree.body
        if isinstance(statement, ast.ImportFrom) and any(a.name == "*" for a in statement.names)
    )
    return Exports(names, imports, stars, _listed(index.tree), any(_seeds(index, call) for call in index.calls))


def reference(index: Index, alias: ast.AST) -> Reference:
    """What one name of an import statement stands for."""
    assert isinstance(alias, ast.alias)
    statement = index.parents[alias]
    if isinstance(statement, ast.ImportFrom):
        return Reference(statement.module or "", statement.level, alias.name)
    return Reference(alias.name if alias.asname else alias.name.partition(".")[0], 0)


def _seeds(index: Index, call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if "seed" not in name or not isinstance(index.parents[call], ast.Expr) or index.function(call) is not None:
        return False
    return not any(isinstance(around, ast.If) and is_main(around) for around in index.ancestors(call))


def _listed(tree: ast.Module) -> frozenset[str] | None:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in statement.targets
        ):
            if isinstance(statement.value, (ast.List, ast.Tuple)):
                return frozenset(str(e.value) for e in statement.value.elts if isinstance(e, ast.Constant))
    return None


def _within_function(index: Index, node: ast.AST) -> bool:
    function = index.function(node)
    return function is not None and function is not node
