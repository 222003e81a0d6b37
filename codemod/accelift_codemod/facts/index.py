"""The index of a syntax tree: what is around a node, and where it is evaluated. Everything else is asked on demand."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Set
from functools import cached_property
from itertools import takewhile

from accelift_codemod.facts.indexing import Indexing
from accelift_codemod.facts.memo import Answers, memoised
from accelift_codemod.facts.scopes import (
    COMPREHENSIONS,
    FUNCTIONS,
    LOOPS,
    MARK,
    Binding,
    Function,
    How,
    Scope,
    parameters,
    position,
)

__all__ = [
    "COMPREHENSIONS",
    "FUNCTIONS",
    "INDEX",
    "LOOPS",
    "MARK",
    "Binding",
    "Function",
    "How",
    "Index",
    "Scope",
    "parameters",
    "position",
]

INDEX = "_accelift_index"  # where it is noted on a tree
_BLOCKS = ("body", "orelse", "finalbody")
_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
_AROUND = frozenset({*_DEFINITIONS, ast.For, ast.AsyncFor, ast.While})


class Index(Indexing):
    """Parents, scopes, bindings and calls of one module."""

    @classmethod
    def of(cls, tree: ast.Module) -> Index:
        """The index of a tree, made once."""
        known: Index | None = tree.__dict__.get(INDEX)
        if known is None:
            known = tree.__dict__[INDEX] = cls(tree)
        return known

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around this one, from the inside out."""
        parents = self.parents
        while (parent := parents.get(node)) is not None:
            yield parent
            node = parent

    def meeting(self, left: ast.AST, right: ast.AST) -> tuple[ast.AST, ast.AST, ast.AST] | None:
        """The innermost node around two nodes, and those of its children that they are in; None for different trees."""
        arms: dict[ast.AST, ast.AST] = {}
        child = left
        for parent in self.ancestors(left):
            arms[parent] = child
            child = parent
        child = right
        for parent in self.ancestors(right):
            if parent in arms:
                return parent, arms[parent], child
            child = parent
        return None

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that contains the node (itself, if it is one)."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    @cached_property
    def scope(self) -> Callable[[ast.AST], Scope]:
        """The scope in which an expression or statement is evaluated."""
        return Answers(self._scope, self._evaluated).__getitem__

    def _scope(self, node: ast.AST) -> Scope:
        child, before = node, node
        for parent in self.ancestors(node):
            if parent in self.scopes and not _outside(child, parent):
                first_iterable = (
                    isinstance(child, ast.comprehension) and before is child.iter and child is parent.generators[0]  # type: ignore[attr-defined]
                )
                if not first_iterable:
                    return self.scopes[parent]
            child, before = parent, child
        return self.module

    @memoised
    def function(self, node: ast.AST) -> Function | None:
        """The function whose body contains the node; None at module level."""
        return self.holder(self.scope(node))

    def holder(self, scope: Scope | None) -> Function | None:
        """The function in which a scope's code runs; None for module level (class bodies run there, too)."""
        while scope is not None:
            if isinstance(scope.node, FUNCTIONS):
                return scope.node
            scope = scope.parent
        return None

    @cached_property
    def reads(self) -> dict[tuple[Scope | None, str], list[ast.Name]]:
        """The reads of every variable, in nested scopes too, by the scope that it belongs to."""
        found: dict[tuple[Scope | None, str], list[ast.Name]] = {}
        for scope in self.scopes.values():
            for name, loads in scope.loads.items():
                found.setdefault((scope.owner(name), name), []).extend(loads)
        return found

    @cached_property
    def calling(self) -> Set[ast.AST]:
        """Calls, and the nodes around them: what looks for calls need not look into others."""
        found: set[ast.AST] = set()
        parents = self.parents
        for call in self.calls:
            node: ast.AST | None = call
            while node is not None and node not in found:
                found.add(node)
                node = parents.get(node)
        return found

    def set_in(self, cls: ast.AST | None, attribute: str) -> list[Binding]:
        """Where the code of a class (None: what is in no class) sets an attribute of an object."""
        return self._set_in(attribute).get(cls, [])

    @memoised
    def _set_in(self, attribute: str) -> dict[ast.AST | None, list[Binding]]:
        found: dict[ast.AST | None, list[Binding]] = {}
        for binding in self.attribute_bindings.get(attribute, ()):
            found.setdefault(self.enclosing_class(binding.node), []).append(binding)
        return found

    @memoised
    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class that directly or indirectly contains the node."""
        parents = self.parents
        around = parents.get(node)
        while around is not None and not isinstance(around, ast.ClassDef):
            around = parents.get(around)
        return around

    def block(self, statement: ast.stmt) -> tuple[list[ast.stmt], int]:
        """The statement list that holds a statement, and its place there."""
        if statement not in self._blocks:
            owner = self.parents[statement]
            for name in (*_BLOCKS, "handlers", "cases"):
                statements = getattr(owner, name, None)
                if isinstance(statements, list):
                    for i, sibling in enumerate(statements):
                        if isinstance(sibling, ast.stmt):
                            self._blocks[sibling] = (statements, i)
        return self._blocks[statement]

    @memoised
    def places(self, statement: ast.stmt) -> dict[int, int]:
        """The statement lists that a statement is in within its function, by `id`, and its place in each."""
        return {id(block): place for block, place in map(self.block, self.chain(statement))}

    @memoised
    def chain(self, node: ast.AST) -> list[ast.stmt]:
        """The statements that contain the node, outermost first, within its function (or module)."""
        found: list[ast.stmt] = []
        child = node
        if isinstance(node, ast.stmt):
            found.append(node)
        for parent in self.ancestors(node):
            if isinstance(parent, ast.stmt):
                if isinstance(parent, _DEFINITIONS) and not _outside(child, parent):
                    break
                found.append(parent)
            child = parent
        return found[::-1]

    def tests_around(self, node: ast.AST, within: ast.AST | None) -> Iterator[ast.expr]:
        """The tests on which a node runs that a function or loop around it makes, or the module; innermost first."""
        child = node
        for parent in takewhile(lambda n: n is not within, self.ancestors(node)):
            if isinstance(parent, ast.If) and parent.test is not child:
                yield parent.test
            child = parent

    def set_as_spelled(self, node: ast.Attribute) -> list[Binding]:
        """Assignments to the same attribute of the same variable."""
        owner = ast.dump(node.value)
        found = self.attribute_bindings.get(node.attr, ())
        return [b for b in found if isinstance(b.node, ast.Attribute) and ast.dump(b.node.value) == owner]

    @memoised
    def enclosing_loops(self, node: ast.AST) -> list[ast.AST]:
        """Loop statements around the node within its function, innermost first (not loops it merely feeds)."""
        found: list[ast.AST] = []
        parents = self.parents
        child, parent = node, parents.get(node)
        while parent is not None:
            if parent.__class__ in _AROUND:
                if isinstance(parent, _DEFINITIONS):
                    if not _outside(child, parent):
                        break
                elif child is not getattr(parent, "iter", None) and child not in parent.orelse:  # type: ignore[attr-defined]
                    found.append(parent)
            child, parent = parent, parents.get(parent)
        return found


def _outside(child: ast.AST, opener: ast.AST) -> bool:
    """Whether a child of a scope-opening node is evaluated in the enclosing scope."""
    if isinstance(opener, FUNCTIONS):
        return child in opener.decorator_list or child is opener.returns or child is opener.args
    if isinstance(opener, ast.Lambda):
        return child is opener.args
    if isinstance(opener, ast.ClassDef):
        return child in opener.decorator_list or child in opener.bases or child in opener.keywords
    return False
