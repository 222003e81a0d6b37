"""What goes with rows that are counted out by the size of a batch: `arange(size) + size`, a sum over them `/ size`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.tree import children, walk
from accelift_codemod.rows.row_numbers import numbers

_ARANGE = frozenset({"torch.arange", "numpy.arange"})
_SHIFTS = (ast.Add, ast.Sub, ast.Mult, ast.Mod, ast.FloorDiv)
_JOINS = frozenset(f"torch.{name}" for name in "cat concat hstack vstack stack tensor as_tensor".split())


class Counted:
    """The numbers in the code around a count of rows that have to change with it, or that cannot.

    Args:
        draft: the draft.
        size: the number of rows that is counted to, in a call of range() or arange().
        nodes: the code that is looked into for what a loop adds up.
    """

    def __init__(self, draft: Draft, size: ast.expr, nodes: list[ast.AST]) -> None:
        self.draft = draft
        self.nodes = nodes
        self.changing: list[ast.expr] = []  # by what places are shifted, or a sum over the rows is divided
        self.torn: list[ast.expr] = []  # by what places are divided: what is made of them is another thing for a share
        call = next((p for p in draft.facts.index.ancestors(size) if isinstance(p, ast.Call)), None)
        if call is not None and draft.facts.resolver.qualified(call.func) in _ARANGE:
            self._around(call)
        elif call is not None and draft.facts.resolver.builtin(call.func) == "range":
            self._over(call)

    def _around(self, part: ast.AST) -> None:
        """Shifts of places, in the expression that they stand in."""
        for parent in self.draft.facts.index.ancestors(part):
            if isinstance(parent, ast.BinOp):
                self._operand(parent, part)
            elif isinstance(parent, ast.Call) and parent.func is not part:
                if self.draft.facts.resolver.qualified(parent.func) not in _JOINS:
                    return
            elif not isinstance(parent, (ast.Attribute, ast.Call, ast.List, ast.Tuple)):
                return
            part = parent

    def _operand(self, operation: ast.BinOp, part: ast.AST) -> None:
        other = operation.right if operation.left is part else operation.left
        if isinstance(operation.op, _SHIFTS):
            self.changing += numbers(self.draft, other)
        elif isinstance(operation.op, ast.Div):
            self.torn += numbers(self.draft, other)

    def _over(self, call: ast.Call) -> None:
        """What a loop over rows does with their numbers, and what its sum is divided by."""
        parent = self.draft.facts.index.parents[call]
        if isinstance(parent, ast.comprehension) and parent.iter is call:
            made = self.draft.facts.index.parents[parent]
            self._shifts(made, stores(parent.target))
            divisor = self._divided_sum(made)
            self.changing += numbers(self.draft, divisor) if divisor is not None else []
        elif isinstance(parent, ast.For) and parent.iter is call:
            for statement in parent.body:
                self._shifts(statement, stores(parent.target))
            self._totals(parent)

    def _shifts(self, tree: ast.AST, counters: set[str]) -> None:
        for node in (n for n in walk(tree) if isinstance(n, ast.BinOp)):
            for part in (node.left, node.right):
                if any(isinstance(n, ast.Name) and n.id in counters for n in _bare(part)):
                    self._operand(node, part)

    def _divided_sum(self, part: ast.AST) -> ast.expr | None:
        """What a sum of something is divided by, in the expression that this stands in: `sum(rows) / size`."""
        summed = False
        for parent in self.draft.facts.index.ancestors(part):
            if isinstance(parent, ast.Call):
                summed = summed or self._sums(parent)
            elif isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div):
                return parent.right if summed and parent.left is part else None
            elif not isinstance(parent, (ast.Attribute, ast.List, ast.Tuple)):
                return None
            part = parent
        return None

    def _sums(self, call: ast.Call) -> bool:
        method = isinstance(call.func, ast.Attribute) and call.func.attr == "sum"
        return method or self.draft.facts.resolver.builtin(call.func) == "sum"

    def _totals(self, loop: ast.For) -> None:
        """What is divided of the sums that a loop over rows makes, in it or after it."""
        sums: set[str] = set()
        lists: set[str] = set()
        for node in (n for statement in loop.body for n in walk(statement)):
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                sums |= stores(node)
                self._divided(node.value)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
                again = isinstance(node.value.op, ast.Add) and isinstance(node.value.left, ast.Name)
                if again and node.value.left.id in stores(node):  # type: ignore[attr-defined]
                    sums |= stores(node)
                    self._divided(node.value.right)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
                lists |= {node.func.value.id} if isinstance(node.func.value, ast.Name) else set()
        for node in self.nodes:
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div) and stores(node) & sums:
                self.changing += numbers(self.draft, node.value)
            elif isinstance(node, ast.BinOp) and isinstance(node.left, ast.Name) and node.left.id in sums:
                self._divided(node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in lists:
                divisor = self._divided_sum(node)
                self.changing += numbers(self.draft, divisor) if divisor is not None else []

    def _divided(self, value: ast.expr) -> None:
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
            self.changing += numbers(self.draft, value.right)


def _bare(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a number, but not what calls are given or what a place is taken from or by."""
    if not isinstance(node, (ast.Call, ast.Subscript)):
        yield node
        for child in children(node):
            yield from _bare(child)
