"""Gradients that are written by hand: steps of optimizers that no backward pass goes before, as far as is seen."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.index import How, position
from accelift_codemod.facts.loops import BatchLoop
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.timeline import Timeline
from accelift_codemod.facts.tree import children, is_constant, own_nodes, targets, walk, whole
from accelift_codemod.facts.values import Role

# What is done to a gradient in place that leaves none.
_CLEARS = frozenset({"zero_", "detach_", "requires_grad_"})
# What says nothing of the numbers in a batch; and gradients, which are those of all processes after a backward pass.
_NO_NUMBERS = torch_ops.ABOUT | {"grad"}
_MOST_NODES = 1000


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

    def added(self, loop: BatchLoop) -> ast.AST | None:
        """The first node, in a loop that runs a backward pass, that gives a parameter a gradient made of the batch.

        What is made of the parameters and of the gradients alone (decay, clipping, a constant) is the same everywhere.
        """
        found = (n for s in loop.body for n in self._run(s) if self._changes(n))
        return min((n for n in found if self._from_batch(n)), key=position, default=None)

    def loose(self, loop: BatchLoop) -> ast.Attribute | None:
        """The first gradient that a loop reads of a tensor that the script has made itself, and not of the batch.

        Nothing averages it over the processes, as it is that of no network.
        """
        found = (n for s in loop.body for n in self._run(s) if isinstance(n, ast.Attribute) and n.attr == "grad")
        return min((n for n in found if self._is_made(n.value)), key=position, default=None)

    def _is_made(self, node: ast.expr) -> bool:
        """Whether an expression is a tensor that a call of torch has made, of nothing in a batch."""
        values = self.resolver.values(node)
        made = all(v.role is Role.OBJECT and v.name.startswith("torch.") for v in values)
        return bool(values) and made and not self.of_batch(node)

    def _run(self, statement: ast.stmt) -> Iterator[ast.AST]:
        """The nodes that a statement may run, in functions of the script, too."""
        yield from walk(statement)
        for function in self.timeline.calls_into(statement):
            yield from own_nodes(*function.body)

    def _trains(self, node: ast.AST) -> bool:
        if self._changes(node):
            return True
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "step":
            return False
        kind = Role.SCALER if node.args or node.keywords else Role.OPTIMIZER  # a closure computes gradients itself
        return kind in self.resolver.roles(node.func.value)

    def _changes(self, node: ast.AST) -> bool:
        """Whether a node sets a gradient, or changes it in place."""
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            empty = is_constant(node.value, None)
            return not empty and any(self._is_gradient(t) for t in targets(node))
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        name = node.func.attr
        inplace = name.endswith("_") and not name.endswith("__") and name not in _CLEARS
        return inplace and self._is_gradient(node.func.value)

    def _from_batch(self, node: ast.AST) -> bool:
        """Whether what a node makes of a parameter's gradient is computed from the batch: not of an input's."""
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            owners = [t for t in targets(node) if self._is_gradient(t)]
            given = [node.value, *(n.slice for o in owners for n in walk(o) if isinstance(n, ast.Subscript))]
        else:
            assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            owners, given = [node.func.value], [*node.args, *(k.value for k in node.keywords)]
        return any(map(self.of_batch, given)) and not any(self.of_batch(_owner(owner)) for owner in owners)

    def of_batch(self, node: ast.expr) -> bool:
        """Whether an expression is computed from the numbers in a batch."""
        queue: list[ast.AST] = [node]
        seen: set[ast.AST] = set(queue)
        while queue and len(seen) < _MOST_NODES:
            current, following = queue.pop(0), list[ast.AST]()
            if isinstance(current, ast.Name):
                if any(v.role in (Role.BATCH, Role.DATA) for v in self.resolver.values(current)):
                    return True
                owner = self.resolver.index.scope(current).owner(current.id)
                grown = [b for b in owner.bindings[current.id] if b.how is How.AUGMENT] if owner is not None else []
                for binding in (*self.resolver.bindings(current), *grown):
                    following += self.resolver.taken_from(binding)
            elif (isinstance(current, ast.Attribute) and current.attr in _NO_NUMBERS) or (
                isinstance(current, ast.Call) and self.resolver.builtin(current.func) == "len"
            ):
                continue
            else:
                following = list(children(current))
            fresh = [n for n in following if n not in seen]
            seen.update(fresh)
            queue += fresh
        return False

    def _is_gradient(self, node: ast.expr) -> bool:
        """Whether an expression is `p.grad` of a tensor, as far as is known."""
        node = whole(node)
        if not isinstance(node, ast.Attribute) or node.attr != "grad":
            return False
        return all(v.declaration is None for v in self.resolver.values(node.value))


def _owner(gradient: ast.expr) -> ast.expr:
    """What a gradient is that of."""
    gradient = whole(gradient)
    assert isinstance(gradient, ast.Attribute)
    return gradient.value
