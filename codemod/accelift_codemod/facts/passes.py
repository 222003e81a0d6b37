"""Loops that train in some passes over a loader, and evaluate in others: by a flag, a phase, the mode of the model."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from accelift_codemod.facts import signatures
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import FUNCTIONS, Function, How
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
        loops = frozenset({node, *self.index.enclosing_loops(node)})
        return not self._trains(body, stores(node), loops, frozenset(), {})

    def _trains(
        self,
        statements: list[ast.stmt],
        changing: set[str],
        loops: frozenset[ast.AST],
        seen: frozenset[ast.AST],
        settled: Mapping[str, bool],
    ) -> bool:
        """Whether statements run a backward pass in every pass; other tests are taken to let it run.

        `changing` are the variables that may differ from batch to batch, `loops` those in which the code stands,
        `settled` parameters that the call gives a literal: how a test of them comes out.
        """
        for statement in statements:
            inner = _blocks(statement)
            outcome = _outcome(statement.test, settled) if isinstance(statement, ast.If) else None
            if isinstance(statement, ast.If) and outcome is not None:
                way = statement.body if outcome else statement.orelse
                if self._trains(way, changing, loops, seen, settled):
                    return True
                if _leaves(way):
                    return False
            elif isinstance(statement, ast.If):
                ways = [self._trains(way, changing, loops, seen, settled) for way in (statement.body, statement.orelse)]
                fixed = self._of_pass(statement.test, changing, loops)
                if all(ways) or (any(ways) and not fixed):
                    return True
                if fixed and any(_leaves(way) for way in (statement.body, statement.orelse)):
                    return False
            elif inner:
                if any(self._trains(block, changing, loops, seen, settled) for block in inner):
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
            stored = {name for inner in target.body for name in stores(inner)}
            values = {**_defaults(target), **given}.items()
            literals = {name: bool(v.value) for name, v in values if isinstance(v, ast.Constant) and name not in stored}
            return self._trains(target.body, local | stored, loops, seen | {target}, literals)
        return True

    def _of_pass(self, test: ast.expr, changing: set[str], loops: frozenset[ast.AST]) -> bool:
        """Whether a test has one outcome for a whole pass over a loader, but may have another for the next pass."""
        names = loads(test)
        if changing & {n.id for n in names} and not self._only_ends(test, loops):
            return False
        return any(self._varies(n, loops) for n in names)

    def _only_ends(self, test: ast.expr, loops: frozenset[ast.AST]) -> bool:
        """Whether batches can only change the outcome of a test to one that is not to train: a pass in which it is so
        from the start has none that trains (`if model is None: train = False`)."""
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        name, wanted = (test.operand if isinstance(test, ast.UnaryOp) and negated else test), not negated
        if not isinstance(name, ast.Name):
            return False
        inside = [b for b in self.resolver.bindings(name) if loops & {*self.index.ancestors(b.node)}]
        ends = (isinstance(b.value, ast.Constant) and not b.path and bool(b.value.value) is not wanted for b in inside)
        return bool(inside) and all(ends)

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


def _defaults(function: Function) -> dict[str, ast.expr | None]:
    arguments = function.args
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return {parameter.arg: signatures.default(function, parameter) for parameter in parameters}


def _outcome(test: ast.expr, settled: Mapping[str, bool]) -> bool | None:
    """How a test of a parameter that has a literal comes out: `train`, `not train`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        outcome = _outcome(test.operand, settled)
        return None if outcome is None else not outcome
    return settled.get(test.id) if isinstance(test, ast.Name) else None


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a statement, function and class definitions left out."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return []
    return [block for name in ("body", "orelse", "finalbody") if (block := getattr(statement, name, None))]


def _leaves(statements: list[ast.stmt]) -> bool:
    """Whether a block ends the iteration that it is in."""
    return bool(statements) and isinstance(statements[-1], (ast.Continue, ast.Break, ast.Return, ast.Raise))
