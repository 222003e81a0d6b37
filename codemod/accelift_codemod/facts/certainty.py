"""What surely runs before a statement does, by the structure of its function."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import children

_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Certainty:
    """Tells which statements of a function have run for sure when another has."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.index = resolver.index

    def passed(self, wanted: set[ast.stmt], statement: ast.stmt) -> bool:
        """Whether one of some statements of a function has surely run when another of them is done."""
        for outer in self.index.chain(statement):
            block, i = self.index.block(outer)
            if outer in wanted or self._passes(block[:i], wanted):
                return True
        return self._passes([statement], wanted)

    def may_leave(self, statement: ast.stmt) -> bool:
        """Whether what follows a statement may not run because of it."""
        stack: list[ast.AST] = [statement]
        while stack:
            node = stack.pop()
            if isinstance(node, (ast.Return, ast.Raise)) or self._exits(node):
                return True
            if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
                stack += children(node)
        return False

    def runs_through(self, function: Function) -> bool:
        """Whether a function that returns has run to its last statement."""
        return not any(self.may_return(s) for s in function.body[:-1])

    def may_return(self, statement: ast.stmt) -> bool:
        """Whether a statement may end the function that it stands in, by returning."""
        stack: list[ast.AST] = [statement]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Return):
                return True
            if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
                stack += children(node)
        return False

    def _passes(self, statements: list[ast.stmt], wanted: set[ast.stmt]) -> bool:
        """Whether statements in a row surely run one of some, or never get to their end."""
        return any(self._one_passes(s, wanted) for s in statements)

    def _one_passes(self, statement: ast.stmt, wanted: set[ast.stmt]) -> bool:
        if isinstance(statement, _LOOPS):  # of which there may be no pass
            test = statement.test if isinstance(statement, ast.While) else None
            endless = isinstance(test, ast.Constant) and bool(test.value)
            return endless and self._passes(statement.body, wanted)
        if statement in wanted or isinstance(statement, _LEAVES):
            return True
        if isinstance(statement, ast.Expr):
            return self._exits(statement.value)
        if isinstance(statement, ast.If):
            return self._passes(statement.body, wanted) and self._passes(statement.orelse, wanted)
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            return self._passes(statement.body, wanted)
        if isinstance(statement, ast.Try):
            tried = self._passes([*statement.body, *statement.orelse], wanted)
            caught = all(self._passes(h.body, wanted) for h in statement.handlers)
            return (tried and caught) or self._passes(statement.finalbody, wanted)
        if isinstance(statement, ast.Match):
            last = statement.cases[-1]
            rest = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
            return rest and all(self._passes(case.body, wanted) for case in statement.cases)
        return False

    def _exits(self, node: ast.AST) -> bool:
        """Whether a node ends the program: `sys.exit()`."""
        if not isinstance(node, ast.Call):
            return False
        named = self.resolver.qualified(node.func) in ("sys.exit", "os._exit")
        return named or self.resolver.builtin(node.func) in ("exit", "quit")
