"""Loops that train in some passes over a loader, and evaluate in others: by a flag, a phase, the mode of the model."""

from __future__ import annotations

import ast
from collections.abc import Callable

from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

_MAX_DEPTH = 4  # of flags computed from flags


class Passes:
    """Finds whether a loop that trains may also pass over all batches of a loader without a backward pass."""

    def __init__(self, resolver: Resolver, reaches: Callable[[list[ast.stmt]], bool]) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self.reaches = reaches  # whether statements may run a backward pass

    def evaluates(self, node: ast.AST, body: list[ast.stmt]) -> bool:
        """Whether a test decides for a whole pass whether a loop trains: no batch changes its outcome."""
        return not self._trains(body, stores(node), frozenset({node, *self.index.enclosing_loops(node)}), frozenset())

    def _trains(
        self, statements: list[ast.stmt], changing: set[str], loops: frozenset[ast.AST], seen: frozenset[ast.AST]
    ) -> bool:
        """Whether statements run a backward pass in every pass; other tests are taken to let it run.

        `changing` are the variables that may differ from batch to batch, `loops` those in which the code stands.
        """
        for statement in statements:
            inner = _blocks(statement)
            if isinstance(statement, ast.If):
                ways = [self._trains(way, changing, loops, seen) for way in (statement.body, statement.orelse)]
                fixed = self._of_pass(statement.test, changing, loops)
                if all(ways) or (any(ways) and not fixed):
                    return True
                if fixed and any(_leaves(way) for way in (statement.body, statement.orelse)):
                    return False
            elif inner:
                if any(self._trains(block, changing, loops, seen) for block in inner):
                    return True
            elif self.reaches([statement]) and self._runs(statement, changing, loops, seen):
                return True
        return False

    def _runs(
        self, statement: ast.stmt, changing: set[str], loops: frozenset[ast.AST], seen: frozenset[ast.AST]
    ) -> bool:
        """Whether a simple statement runs the backward pass that it may run, by the tests of functions it calls."""
        for call in (n for n in walk(statement) if isinstance(n, ast.Call)):
            target = self.resolver.callee(call)
            if not isinstance(target, FUNCTIONS) or target in seen or not self.reaches(target.body):
                continue
            given = self.resolver.bind(call, target)
            if given is None:
                return True
            local = {name for name, value in given.items() if changing & {n.id for n in loads(value)}}
            for inner in target.body:
                local |= stores(inner)
            return self._trains(target.body, local, loops, seen | {target})
        return True

    def _of_pass(self, test: ast.expr, changing: set[str], loops: frozenset[ast.AST]) -> bool:
        """Whether a test has one outcome for a whole pass over a loader, but may have another for the next pass."""
        names = loads(test)
        return not changing & {n.id for n in names} and any(self._varies(n, loops) for n in names)

    def _varies(self, name: ast.Name, loops: frozenset[ast.AST], depth: int = 0) -> bool:
        """Whether a variable is a parameter, is bound anew by a loop around, or is a model asked for its mode.

        Or is computed from such ones.
        """
        parent = self.index.parents[name]
        if isinstance(parent, ast.Attribute) and parent.attr == "training":
            return Role.MODEL in self.resolver.roles(name)
        for binding in self.resolver.bindings(name):
            if binding.how is How.PARAMETER or loops & {*self.index.ancestors(binding.node)}:
                return True
            made_of = loads(binding.value) if binding.value is not None and depth < _MAX_DEPTH else []
            if any(self._varies(part, loops, depth + 1) for part in made_of):
                return True
        return False


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a statement, function and class definitions left out."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return []
    return [block for name in ("body", "orelse", "finalbody") if (block := getattr(statement, name, None))]


def _leaves(statements: list[ast.stmt]) -> bool:
    """Whether a block ends the iteration that it is in."""
    return bool(statements) and isinstance(statements[-1], (ast.Continue, ast.Break, ast.Return, ast.Raise))
