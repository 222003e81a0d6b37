"""What surely runs before a statement does, by the structure of its function."""

from __future__ import annotations

import ast
from collections.abc import Set

from accelift_codemod.facts.command_line import is_main
from accelift_codemod.facts.index import Function, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import fails, own_nodes, walk

_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_PLAIN = (ast.Assign, ast.AnnAssign, ast.Expr, ast.With)  # what is around an expression, and surely runs it


class Certainty:
    """Tells which statements of a function have run for sure when another has."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.index = resolver.index

    def passed(self, wanted: Set[ast.stmt], statement: ast.stmt) -> bool:
        """Whether one of some statements of a function has surely run when another of them is done."""
        for outer in self.index.chain(statement):
            block, i = self.index.block(outer)
            if outer in wanted or self._passes(block[:i], wanted):
                return True
        return self._passes([statement], wanted)

    def is_set(self, store: ast.AST, read: ast.AST) -> bool:
        """Whether what sets an attribute has surely run where that is read: before, in one function, or else whatever
        the other function finds."""
        statement = self.index.statement(store)
        if self.index.function(store) is not self.index.function(read):
            around = (outer for outer in self.index.chain(statement) if outer is not statement)
            return all(
                isinstance(o, (ast.With, ast.AsyncWith)) or (isinstance(o, ast.If) and is_main(o)) for o in around
            )
        return self.passed({statement}, self.index.statement(read))

    def may_leave(self, statement: ast.stmt) -> bool:
        """Whether what follows a statement may not run because of it."""
        return any(isinstance(n, (ast.Return, ast.Raise)) or self._exits(n) for n in own_nodes(statement))

    def alike(self, loop: ast.AST, node: ast.AST) -> bool:
        """Whether all iterations of a loop that get so far come by a node, or none: what chooses it stays the same."""
        for parent in self.index.ancestors(node):
            if parent is loop:
                return True
            if isinstance(parent, ast.If):
                if not self._stays(loop, parent.test):
                    return False
            elif isinstance(parent, ast.stmt) and not isinstance(parent, _PLAIN):
                return False
        return False

    def _stays(self, loop: ast.AST, test: ast.expr) -> bool:
        """Whether a test has one result for as long as the function that a loop is in runs."""
        outer = [*self.index.enclosing_loops(loop), loop]
        for part in walk(test):
            stores: list[ast.AST] = []
            if isinstance(part, (ast.Call, ast.Subscript, ast.NamedExpr, ast.Await)):
                return False
            if isinstance(part, ast.Attribute):
                stores += (n for n in self.index.attributes.get(part.attr, []) if not isinstance(n.ctx, ast.Load))
            elif isinstance(part, ast.Name):
                owner = self.index.scope(part).owner(part.id)
                bindings = owner.bindings.get(part.id, []) if owner is not None else []
                stores += (b.node for b in bindings if b.how is not How.PARAMETER)
            if any(self._may_run(outer, loop, store) for store in stores):
                return False
        return True

    def _may_run(self, outer: list[ast.AST], loop: ast.AST, store: ast.AST) -> bool:
        """Whether what sets something may run between two iterations of a loop."""
        function = self.index.function(store)
        if function is None or function is self.index.function(loop):
            return any(one in outer for one in self.index.ancestors(store))
        return function.name != "__init__"

    def runs_through(self, function: Function) -> bool:
        """Whether a function that returns has run to its last statement."""
        return not any(self.may_return(s) for s in function.body[:-1])

    def may_return(self, statement: ast.stmt) -> bool:
        """Whether a statement may end the function that it stands in, by returning."""
        return any(isinstance(n, ast.Return) for n in own_nodes(statement))

    def _passes(self, statements: list[ast.stmt], wanted: Set[ast.stmt]) -> bool:
        """Whether statements in a row surely run one of some, or never get to their end."""
        return any(self._one_passes(s, wanted) for s in statements)

    def _one_passes(self, statement: ast.stmt, wanted: Set[ast.stmt]) -> bool:
        if isinstance(statement, _LOOPS):  # of which there may be no pass
            test = statement.test if isinstance(statement, ast.While) else None
            endless = isinstance(test, ast.Constant) and bool(test.value)
            return endless and self._passes(statement.body, wanted)
        if statement in wanted or isinstance(statement, _LEAVES) or fails(statement):
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
