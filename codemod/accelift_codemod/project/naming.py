"""Copies of files' trees in which globals carry the names of their files."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from accelift_codemod.facts.copying import Copier
from accelift_codemod.facts.index import How, Scope, position
from accelift_codemod.project.program import Module, Target, Unit, Variable, is_main

if TYPE_CHECKING:
    from accelift_codemod.project.linking import Linker


Definition = TypeVar("Definition", ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Bound = TypeVar("Bound", ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


class CannotLink(Exception):
    """The files are too many, or one changes the globals of another."""


class Copy(Copier):
    """A copy of a file's tree, in which globals carry the names of their files."""

    def __init__(self, linker: Linker, unit: Unit) -> None:
        self.linker = linker
        self.unit = unit
        self.index = unit.index
        self.used: list[Unit] = []
        self.aliases: dict[tuple[Scope, str], list[ast.alias]] = {}
        self.modules: dict[ast.AST, list[str]] = {}  # modules that are handed on, and their classes and functions
        self.more: set[ast.AST] = set()  # those of them that have others, of which nothing is known
        self.reads: list[tuple[ast.Name, Scope, str]] = []  # those of imported globals, and what imports them
        self._targets: dict[tuple[Scope | None, str], Target | None] = {}
        super().__init__(
            {
                ast.Name: self._name,
                ast.Attribute: self._attribute,
                ast.Import: self._import,
                ast.ImportFrom: self._import,
                ast.If: self._if,
                ast.FunctionDef: self._definition,
                ast.AsyncFunctionDef: self._definition,
                ast.ClassDef: self._definition,
                ast.Global: self._global,
                ast.ExceptHandler: self._bound,
                ast.MatchAs: self._bound,
                ast.MatchStar: self._bound,
            }
        )
        self.tree = self.copy(unit.source.tree)

    @cached_property
    def spellings(self) -> dict[str, str]:
        """How the file's module-level imports spell the globals of other files."""
        found: dict[str, str] = {}
        for name in self.index.module.bindings:
            target = self._target(self.index.module, name)
            if isinstance(target, Variable):
                found.setdefault(target.marked, name)
            elif isinstance(target, Module) and target.unit is not None:
                for other in target.unit.exports.names:
                    variable = self.linker.exported(target.unit, other)
                    if isinstance(variable, Variable):
                        found.setdefault(variable.marked, f"{name}.{other}")
        return found

    # ---- copying

    def _name(self, node: ast.Name) -> ast.Name:
        owner = self.index.scope(node).owner(node.id)
        target = self._target(owner, node.id)
        new = self._used(node, target) or ast.Name(self._variable(owner, node.id), node.ctx)
        if isinstance(target, Module):
            self._hand_on(node, new, target)
        return new

    def _attribute(self, node: ast.Attribute) -> ast.expr | None:
        target = self._reached(node)
        if isinstance(target, Module):
            new = self.plain(node)
            self._hand_on(node, new, target)
            return new
        return self._used(node, target)

    def _hand_on(self, node: ast.expr, new: ast.expr, target: Module) -> None:
        """Note a module that is given to a call, where something may be looked up in it."""
        parent = self.index.parents[node]
        call = self.index.parents[parent] if isinstance(parent, ast.keyword) else parent
        if isinstance(call, ast.Call) and node is not call.func:
            members = self.linker.members(target)
            self.modules[new] = [v.marked for v in members]
            self.more |= {new} if self.linker.has_more(target) else set()
            self.used += [v.unit for v in members]

    def _used(self, node: ast.Name | ast.Attribute, target: Target | None) -> ast.Name | None:
        """The global of another file in the place of what names it; None if nothing does."""
        if not isinstance(target, Variable):
            return None
        if not isinstance(node.ctx, ast.Load):
            raise CannotLink(f"{self.unit.source.path}:{node.lineno} sets a global of {target.unit.path.name}")
        self.used.append(target.unit)
        new = ast.Name(target.marked, node.ctx)
        root = _root(node)
        owner = self.index.scope(root).owner(root.id)
        if owner is not None:
            self.reads.append((new, owner, root.id))
        return new

    def _if(self, node: ast.If) -> ast.Pass | None:
        return ast.Pass() if self.unit.key and is_main(node.test) else None

    def _definition(self, node: Definition) -> Definition:
        new = self.plain(node)
        if self.index.scope(node).is_module:
            new.name = self.unit.marked(node.name)
        return new

    def _global(self, node: ast.Global) -> ast.Global:
        return ast.Global([self.unit.marked(name) for name in node.names])

    def _bound(self, node: Bound) -> Bound:
        new = self.plain(node)
        if node.name and self.index.scope(node).owner(node.name) is self.index.module:
            new.name = self.unit.marked(node.name)
        return new

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
            self.aliases.setdefault((scope, bound), []).append(copy)
            kept.append(self.noted(copy, alias))
        if not kept:
            return ast.Pass()
        if isinstance(node, ast.Import):
            return ast.Import(kept)
        return ast.ImportFrom(node.module, kept, node.level)

    # ---- names

    def _variable(self, owner: Scope | None, name: str) -> str:
        """How a file's own name is written in the program."""
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

    def _still(self, node: ast.Name, owner: Scope | None) -> Target | None:
        """What an import has bound, where a name is read before it is bound otherwise: `model = model.Net()`."""
        bindings = owner.bindings.get(node.id, []) if owner is self.index.scope(node) and owner is not None else []
        imports = [b for b in bindings if b.how is How.IMPORT]
        if len(imports) != 1 or len(bindings) == 1 or self.index.enclosing_loops(node):
            return None
        statement = self.index.statement(node)
        later = {self.index.statement(b.node) for b in bindings if b.how is not How.IMPORT}
        if any(self.index.scope(s) is not owner or position(s) < position(statement) for s in later):
            return None
        if position(imports[0].node) > position(statement) or not isinstance(statement, ast.Assign):
            return None
        return self.linker.imported(self.unit, imports[0])

    def _reached(self, node: ast.expr) -> Target | None:
        """What a chain of attributes leads to, from an imported module."""
        if isinstance(node, ast.Name):
            owner = self.index.scope(node).owner(node.id)
            return self._target(owner, node.id) or self._still(node, owner)
        if isinstance(node, ast.Attribute):
            base = self._reached(node.value)
            if isinstance(base, Module):
                return self.linker.attribute(base, node.attr)
        return None


def _root(node: ast.Name | ast.Attribute) -> ast.Name:
    """The name at the start of a chain of attributes."""
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    assert isinstance(inner, ast.Name)
    return inner
