"""What becomes of a value in its function: the variables that it gets into."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import Index
from accelift_codemod.facts.tree import walk

_PUTS = frozenset("append extend add insert update add_batch appendleft".split())
_MOST = 8  # rounds through the statements of a function


class Onwards:
    """Follows values forwards, through assignments and what is put into objects. Names are compared as they are
    written, so that too many variables are found rather than too few."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._known: dict[ast.AST, frozenset[str]] = {}

    def names(self, node: ast.AST) -> frozenset[str]:
        """The variables and attributes that may hold a value, or something made of it, in its function."""
        if node not in self._known:
            self._known[node] = self._find(node)
        return self._known[node]

    def holds(self, node: ast.AST, value: ast.AST) -> bool:
        """Whether an expression in the same function may be made of a value."""
        found = self.names(value)
        return any(part is value or _text(part) in found for part in walk(node))

    def _find(self, value: ast.AST) -> frozenset[str]:
        home = self.index.function(value) or self.index.tree
        statements = [n for n in walk(home) if isinstance(n, (ast.stmt, ast.comprehension))]
        found: set[str] = set()
        for _ in range(_MOST):
            before = len(found)
            for statement in statements:
                for target, made in _flows(statement):
                    if any(part is value or _text(part) in found for part in walk(made)):
                        found |= {text for part in walk(target) if (text := _text(part))}
            if len(found) == before:
                break
        return frozenset(found)


def _flows(statement: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What a statement puts into what: pairs of the target and what gets into it."""
    if isinstance(statement, ast.Assign):
        yield from ((target, statement.value) for target in statement.targets)
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)) and statement.value is not None:
        yield statement.target, statement.value
    elif isinstance(statement, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield statement.target, statement.iter
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        func = statement.value.func
        if isinstance(func, ast.Attribute) and func.attr in _PUTS:
            yield from ((func.value, given) for given in statement.value.args)
            yield from ((func.value, keyword.value) for keyword in statement.value.keywords)


def _text(node: ast.AST) -> str:
    """A variable or an attribute as it is written; empty for anything else, and for what all objects begin with."""
    if isinstance(node, ast.Name):
        return "" if node.id == "self" else node.id
    return ast.unparse(node) if isinstance(node, ast.Attribute) else ""
