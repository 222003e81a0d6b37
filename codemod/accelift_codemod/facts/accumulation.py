"""Gradient accumulation by hand: the `if` that applies the gradients of several micro-batches."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from accelift_codemod.facts.index import How, position
from accelift_codemod.facts.loops import BatchLoop
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role


@dataclass(frozen=True)
class Gate:
    """An `if` that applies the gradients of several micro-batches."""

    node: ast.If
    steps: ast.expr  # how many micro-batches make an update
    flushes: bool  # the last, incomplete group of an epoch is applied, too
    counts_on: bool  # the counter runs on from epoch to epoch


def find_gate(resolver: Resolver, loop: BatchLoop) -> Gate | None:
    """The `if` of a training loop that steps an optimizer by a modulo; None if there is none."""
    node = loop.node
    return _Finder(resolver).find(loop, node) if isinstance(node, (ast.For, ast.AsyncFor)) else None


class _Finder:
    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.index = resolver.index

    def find(self, loop: BatchLoop, node: ast.For | ast.AsyncFor) -> Gate | None:
        """The `if` of the loop body that steps an optimizer by a modulo."""
        for statement in node.body:
            if not isinstance(statement, ast.If) or not self._steps(statement):
                continue
            tests = statement.test.values if _is_or(statement.test) else [statement.test]  # type: ignore[attr-defined]
            modulos = [m for t in tests if (m := _modulo(t)) is not None]
            if len(modulos) != 1:
                return None
            counter, steps = modulos[0]
            others = [t for t in tests if _modulo(t) is None]
            flushes = len(others) == 1 and self._is_last(others[0], loop, node)
            known = flushes or not others
            counts_on = not others and self._runs_on(counter, node)
            in_epoch = self._counts_batches(counter, node)
            if not known or statement.orelse or not (in_epoch or counts_on):
                return Gate(statement, steps, False, False)
            return Gate(statement, steps, flushes and in_epoch, counts_on)
        return None

    def _steps(self, statement: ast.If) -> bool:
        """Whether an `if` applies gradients that were computed outside of it."""
        calls = (n for s in statement.body for n in walk(s) if isinstance(n, ast.Call))
        if any(isinstance(c.func, ast.Attribute) and c.func.attr == "backward" for c in calls):
            return False  # another model's turn, every few batches
        return any(
            isinstance(n, ast.Call)
            and isinstance(n.func, ast.Attribute)
            and n.func.attr == "step"
            and (
                Role.OPTIMIZER in self.resolver.roles(n.func.value) or Role.SCALER in self.resolver.roles(n.func.value)
            )
            for s in statement.body
            for n in walk(s)
        )

    def _counts_batches(self, counter: ast.expr, node: ast.For | ast.AsyncFor) -> bool:
        """Whether an expression is the number of the batch in its epoch, from 1."""
        start = self._enumerated(node)
        if start is None or not isinstance(node.target, ast.Tuple) or not isinstance(node.target.elts[0], ast.Name):
            return False
        index = node.target.elts[0].id
        if start == 0:
            return _plus_one(counter) == index
        return start == 1 and isinstance(counter, ast.Name) and counter.id == index

    def _is_last(self, test: ast.expr, loop: BatchLoop, node: ast.For | ast.AsyncFor) -> bool:
        """Whether a test says that this is the last batch of the epoch."""
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)):
            return False
        left, right = test.left, test.comparators[0]
        if self._is_length(left, loop):
            left, right = right, left
        if self._is_length(right, loop):
            return self._counts_batches(left, node)
        if (
            isinstance(right, ast.BinOp)
            and isinstance(right.op, ast.Sub)
            and isinstance(right.right, ast.Constant)
            and right.right.value == 1
            and self._is_length(right.left, loop)
            and isinstance(node.target, ast.Tuple)
            and isinstance(node.target.elts[0], ast.Name)
        ):
            return self._enumerated(node) == 0 and isinstance(left, ast.Name) and left.id == node.target.elts[0].id
        return False

    def _is_length(self, node: ast.expr, loop: BatchLoop) -> bool:
        """`len(loader)`, perhaps through a variable."""
        if isinstance(node, ast.Call) and self.resolver.builtin(node.func) == "len" and len(node.args) == 1:
            return set(self.resolver.values(node.args[0])) == set(loop.loaders)
        if isinstance(node, ast.Name):
            bindings = self.resolver.bindings(node)
            return len(bindings) == 1 and bindings[0].value is not None and self._is_length(bindings[0].value, loop)
        return False

    def _runs_on(self, counter: ast.expr, node: ast.For | ast.AsyncFor) -> bool:
        """Whether an expression counts the batches of all epochs, from 1: 0 at first, one more in every iteration."""
        name = counter if isinstance(counter, ast.Name) else None
        before = True  # the increment comes before the test
        if name is None and (plain := _plus_one(counter)):
            before = False
            name = next((n for n in walk(counter) if isinstance(n, ast.Name) and n.id == plain), None)
        if name is None:
            return False
        owner = self.index.scope(name).owner(name.id)
        if owner is None:
            return False
        starts = [b for b in owner.bindings[name.id] if b.how is How.ASSIGN]
        grows = [b for b in owner.bindings[name.id] if b.how is How.AUGMENT]
        if len(starts) != 1 or len(grows) != 1 or len(owner.bindings[name.id]) != 2:
            return False
        start, grow = starts[0], grows[0]
        if not (isinstance(start.value, ast.Constant) and start.value.value == 0):
            return False
        statement = self.index.statement(grow.node)
        if statement not in node.body or not isinstance(statement, ast.AugAssign):
            return False
        if not (
            isinstance(statement.op, ast.Add)
            and isinstance(statement.value, ast.Constant)
            and statement.value.value == 1
        ):
            return False
        if self.index.enclosing_loops(start.node) or self._runs_often(start.node):
            return False  # starts again with every epoch
        if any(isinstance(n, ast.Continue) for s in node.body for n in walk(s)):
            return False
        return (position(statement) < position(counter)) is before

    def _runs_often(self, node: ast.AST) -> bool:
        """Whether a function's code may run more than once."""
        function = self.index.function(node)
        if function is None:
            return False
        sites = self.resolver.sites(function)
        return len(sites) != 1 or bool(self.index.enclosing_loops(sites[0])) or self._runs_often(sites[0])

    def _enumerated(self, node: ast.For | ast.AsyncFor) -> int | None:
        """Where the loop's `enumerate` starts; None if there is none."""
        iterated = node.iter
        while isinstance(iterated, ast.Call) and self.resolver.builtin(iterated.func) != "enumerate":
            if Role.ITERATOR not in self.resolver.roles(iterated) or not iterated.args:
                return None
            iterated = iterated.args[0]
        if not isinstance(iterated, ast.Call):
            return None
        start = self.resolver.argument(iterated, 1, "start")
        if start is None:
            return 0
        return start.value if isinstance(start, ast.Constant) and isinstance(start.value, int) else None


def _is_or(node: ast.expr) -> bool:
    return isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)


def _modulo(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """`a % k == 0` or `not a % k`, as (a, k)."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = node.operand
    elif (
        isinstance(node, ast.Compare)
        and len(node.ops) == 1
        and isinstance(node.ops[0], ast.Eq)
        and isinstance(node.comparators[0], ast.Constant)
        and node.comparators[0].value == 0
    ):
        inner = node.left
    else:
        return None
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mod):
        return inner.left, inner.right
    return None


def _plus_one(node: ast.expr) -> str:
    """The name `n` of `n + 1` or `1 + n`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for a, b in ((node.left, node.right), (node.right, node.left)):
            if isinstance(a, ast.Name) and isinstance(b, ast.Constant) and b.value == 1:
                return a.id
    return ""
