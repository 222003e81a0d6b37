"""Whether a number of samples divides what was measured on one process's share: then it is to be that of the share."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.index import Function
from accelift_codemod.facts.tree import walk
from accelift_codemod.following.onward import reads_of
from accelift_codemod.measured import called
from accelift_codemod.measured.shares import local_names

_JOINS = frozenset({"METRIC", "PHASE", "REDUCE"})  # rules that make a sum that of all processes


class Dividing:
    """Answers that for expressions in the body of a training loop, and in the functions that it calls."""

    def __init__(self, draft: Draft, loop: BatchLoop) -> None:
        self.draft = draft
        self.loop = loop

    def a_share(self, number: ast.expr) -> bool:
        """Whether a number, or the variable that it is kept in, divides something of a share."""
        return any(self._is_local(measured) for measured in self._divided(number))

    def _divided(self, number: ast.expr) -> Iterator[ast.expr]:
        """What a number divides: `hits / (i * len(x))`, `hits /= seen`."""
        statement = self.draft.facts.index.statement(number)
        kept = isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is number
        for read in (number, *(reads_of(self.draft, statement) if kept else ())):
            child: ast.AST = read
            for parent in self.draft.facts.index.ancestors(read):
                if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.right is child:
                    yield parent.left
                if isinstance(parent, ast.AugAssign) and isinstance(parent.op, ast.Div) and parent.value is child:
                    yield parent.target
                if isinstance(parent, ast.stmt):
                    break
                child = parent

    def _is_local(self, measured: ast.expr) -> bool:
        function = self.draft.function(measured)
        inside = function is not None and function is not self.draft.function(self.loop.node)
        names = self._called.get(function, set()) if inside and function is not None else self._names
        return any(n.id in names for n in walk(measured) if isinstance(n, ast.Name))

    @cached_property
    def _names(self) -> set[str]:
        """The variables of the loop that are of a share, when what others reduce is that of all."""
        node = self.loop.node
        if isinstance(node, ast.comprehension):
            return set()
        summed: set[str] = set()
        for changed in (e.node for e in self.draft.edits if e.rule in _JOINS):
            statement = self.draft.facts.index.statement(changed) if changed is not None else None
            if isinstance(statement, ast.AugAssign):
                summed |= {n.id for n in walk(statement.target) if isinstance(n, ast.Name)}
        return local_names(self.draft, self.loop, node, summed) - summed

    @cached_property
    def _called(self) -> dict[Function, set[str]]:
        """The same of the functions that the loop calls."""
        node = self.loop.node
        if isinstance(node, ast.comprehension):
            return {}
        return called.shares(self.draft, node, self._names)
