"""Which parts of a script only run where it has no accelerator: functions that work with one and without."""

from __future__ import annotations

import ast

from accelift_codemod.facts.accelerate import AccelerateResolver, is_state
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import is_constant

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Absent:
    """Reads tests that ask whether there is an accelerator: `if accelerator is None:`."""

    def __init__(self, resolver: AccelerateResolver) -> None:
        self.resolver = resolver
        self.index = resolver.index

    def at(self, node: ast.AST) -> bool:
        """Whether a node, in its function, is only come to without an accelerator."""
        child = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
                body = parent.body if isinstance(parent.body, list) else [parent.body]
                if self._says(parent.test, child in body):
                    return True
            if isinstance(child, ast.stmt) and self._left_with(child):
                return True
            if isinstance(parent, FUNCTIONS):
                return False
            child = parent
        return False

    def _left_with(self, statement: ast.stmt) -> bool:
        """Whether an `if` before a statement in its block has left the function where there is an accelerator."""
        try:
            block, place = self.index.block(statement)
        except KeyError:
            return False
        return any(
            isinstance(earlier, ast.If)
            and not earlier.orelse
            and isinstance(earlier.body[-1], _LEAVES)
            and self._says(earlier.test, False)
            for earlier in block[:place]
        )

    def _says(self, test: ast.expr, holds: bool) -> bool:
        """Whether there is no accelerator if a test holds, or if it does not."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._says(test.operand, not holds)
        if isinstance(test, ast.BoolOp):
            parts = [self._says(value, holds) for value in test.values]
            return any(parts) if isinstance(test.op, ast.And) is holds else all(parts)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            (other,) = test.comparators
            if not is_constant(other, None):
                return False
            if isinstance(test.ops[0], (ast.Is, ast.Eq)):
                return holds and self._is_accelerator(test.left)
            if isinstance(test.ops[0], (ast.IsNot, ast.NotEq)):
                return not holds and self._is_accelerator(test.left)
            return False
        return not holds and self._is_accelerator(test)

    def _is_accelerator(self, node: ast.expr) -> bool:
        """Whether an expression may be an accelerator: also an attribute of an object that is not followed, if one of
        its methods sets it so."""
        if any(map(is_state, self.resolver.values(node))):
            return True
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return False
        cls = next((p for p in self.index.ancestors(node) if isinstance(p, ast.ClassDef)), None)
        return cls is not None and any(
            isinstance(statement := self.index.parents.get(store), ast.Assign)
            and any(map(is_state, self.resolver.values(statement.value)))
            for store in self.index.attributes.get(node.attr, [])
            if isinstance(store.ctx, ast.Store) and cls in self.index.ancestors(store)
        )
