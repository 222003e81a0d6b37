"""Gradients that are written by hand: steps of optimizers that no backward pass goes before, as far as is seen."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import position
from accelift_codemod.facts.loops import BatchLoop
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.signatures import own_nodes
from accelift_codemod.facts.timeline import Timeline
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

# What is done to a gradient in place that leaves none.
_CLEARS = frozenset({"zero_", "detach_", "requires_grad_"})


class ByHand:
    """Answers which loops over batches train without a backward pass."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.timeline = Timeline(resolver)

    def step(self, loop: BatchLoop) -> ast.AST | None:
        """The first node, in a loop or in what it calls, that steps an optimizer or gives a parameter its gradient.

        None if the loop runs a backward pass, too.
        """
        if loop.trains:
            return None
        return min((n for s in loop.body for n in self._run(s) if self._trains(n)), key=position, default=None)

    def _run(self, statement: ast.stmt) -> Iterator[ast.AST]:
        """The nodes that a statement may run, in functions of the script, too."""
        yield from walk(statement)
        for function in self.timeline.calls_into(statement):
            yield from own_nodes(function)

    def _trains(self, node: ast.AST) -> bool:
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            empty = isinstance(node.value, ast.Constant) and node.value.value is None
            return not empty and any(self._is_gradient(t) for t in targets)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        name, receiver = node.func.attr, node.func.value
        if name.endswith("_") and not name.endswith("__") and name not in _CLEARS:
            return self._is_gradient(receiver)
        kind = Role.SCALER if node.args or node.keywords else Role.OPTIMIZER  # a closure computes gradients itself
        return name == "step" and kind in self.resolver.roles(receiver)

    def _is_gradient(self, node: ast.expr) -> bool:
        """Whether an expression is `p.grad` of a tensor, as far as is known."""
        if isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        if not isinstance(node, ast.Attribute) or node.attr != "grad":
            return False
        return all(v.declaration is None for v in self.resolver.values(node.value))
