"""Which parts of a script only run where it has no accelerator: functions that work with one and without."""

from __future__ import annotations

import ast
from collections.abc import Set
from functools import cached_property

from accelift_codemod.facts.accelerate import AccelerateResolver, is_state
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.timeline import Timeline
from accelift_codemod.facts.tree import is_constant, walk

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Absent:
    """Reads tests that ask whether there is an accelerator (`if accelerator is None:`), and those whose other arm makes
    it: `if args.prepare: prepare() else: train()`."""

    def __init__(self, resolver: AccelerateResolver, timeline: Timeline) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self.timeline = timeline

    def at(self, node: ast.AST) -> bool:
        """Whether a node, in its function, is only come to without an accelerator."""
        child = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
                body = parent.body if isinstance(parent.body, list) else [parent.body]
                if self._says(parent.test, child in body) or self._is_made_beside((parent, child in body)):
                    return True
            if isinstance(child, ast.stmt) and self._left_with(child):
                return True
            if isinstance(parent, FUNCTIONS):
                return False
            child = parent
        return False

    @memoised
    def _is_made_beside(self, way: tuple[ast.If | ast.IfExp, bool]) -> bool:
        """Whether accelerators are only made where an `if` goes the other way: in its other arm, or below it, if the
        arm leaves the function."""
        choice, holds = way
        asked = (n for n in walk(choice.test) if isinstance(n, (ast.Name, ast.Attribute)))
        if not isinstance(choice, ast.If) or not self._makers or any(map(self._is_accelerator, asked)):
            return False  # it may have been handed one
        arm, beside = (choice.body, choice.orelse) if holds else (choice.orelse, choice.body)
        if isinstance(arm[-1], ast.Return):
            block, place = self.index.block(choice)
            beside = [*beside, *block[place + 1 :]]
        inside = {function for statement in beside for function in self.timeline.runs(statement)}
        inside -= {function for statement in arm for function in self.timeline.runs(statement)}
        return all(self._is_within(maker, beside, inside) for maker in self._makers)

    def _is_within(self, maker: ast.Call, statements: list[ast.stmt], functions: Set[ast.AST]) -> bool:
        """Whether a call stands in some statements, or in a function that they alone run."""
        if any(one in statements for one in self.index.ancestors(maker)):
            return True
        function = self.index.function(maker)
        sites = self.resolver.sites(function) if function in functions else []  # type: ignore[arg-type]
        within = ({self.index.function(site), *self.index.ancestors(site)} for site in sites)
        return function in functions and all(around & {*statements, *functions} for around in within)

    @cached_property
    def _makers(self) -> list[ast.Call]:
        """The calls that make accelerators, or states of the processes."""
        calls = self.index.calls
        return [c for c in calls if any(is_state(v) and v.origin is c for v in self.resolver.values(c))]

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
