"""What is left of expressions once it is known what some conditions are."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from accelift_codemod.facts.tree import children
from accelift_codemod.plan import Span


@dataclass(frozen=True)
class Known:
    """What conditions are, by their places; those in `plain` are True or False themselves, and not only as a test."""

    truths: Mapping[Span, bool | None] = field(default_factory=dict)
    plain: frozenset[Span] = frozenset()

    def truth(self, node: ast.AST) -> bool | None:
        """What a test is, if it is known."""
        return self.truths.get(Span.of(node))

    def left(self, node: ast.expr, tested: bool) -> bool | list[ast.expr] | None:
        """What is left of an expression: a constant, or some of its operands; None if it stays as it is.

        Of one that is not only `tested`, the very value has to stay: `a or False` is no `a`.
        """
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            return None
        if isinstance(node, ast.IfExp):
            test = self.truth(node.test)
            return None if test is None else [node.body if test else node.orelse]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and self._is_plain(node.right) is False:
            return [node.left]
        known = self.truth(node) if tested else self._is_plain(node)
        if known is not None or not isinstance(node, ast.BoolOp):
            return known
        kept, same = [*node.values], isinstance(node.op, ast.And)  # `True and a` is `a`
        while len(kept) > 1 and self.truth(kept[0]) is same:
            del kept[0]
        if tested:
            kept = [v for v in kept if self.truth(v) is not same] or kept
        return kept if len(kept) < len(node.values) else None

    def _is_plain(self, node: ast.expr) -> bool | None:
        return self.truth(node) if Span.of(node) in self.plain else None


def parts(node: ast.AST, tested: bool) -> Iterator[tuple[ast.AST, bool]]:
    """The parts of a node, each with whether it is only tested."""
    for part in children(node):
        if isinstance(node, (ast.If, ast.While, ast.Assert, ast.IfExp)):
            inherits = isinstance(node, ast.IfExp) and part is not node.test
            yield part, tested if inherits else part is node.test
        elif isinstance(node, ast.comprehension):
            yield part, part in node.ifs
        elif isinstance(node, ast.UnaryOp):
            yield part, isinstance(node.op, ast.Not)
        else:
            yield part, tested and isinstance(node, ast.BoolOp)
