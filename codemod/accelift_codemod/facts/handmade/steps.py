"""Loops that train without a loader, as data."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.index import Function
from accelift_codemod.facts.layout import Environment
from accelift_codemod.facts.loops import BatchLoop
from accelift_codemod.facts.tree import walk


class NotProved(Exception):
    """Why the batches of a loop cannot be shared out: a clause, and the node that it is about.

    If that is because a `part` of the loss cannot be followed, which one.
    """

    def __init__(self, node: ast.AST, why: str, part: ast.expr | None = None) -> None:
        super().__init__(why)
        self.node = node
        self.why = why
        self.part = part


class UsedLater(NotProved):
    """A variable that a loop binds to a share is used after the loop."""


@dataclass
class Step:
    """One loop that trains without a loader.

    `picks` are the expressions that pick the rows of its batches. If they can be shared out, the variables `names` hold
    them after the statement `made`, and all that is computed from these is computed row by row, up to losses that are
    means or sums over the rows; else `obstacle` says why not. The statements `again` make as many rows once more, as
    new noise for a generator, in the variables beside them; `sizes` say how many rows the batch has, where states are
    made for it. Without picks, if every step computes on the same data and
    the rows of these can be shared out before the loop, `whole` are the variables that hold them, with their reads;
    what stands `apart` looks at all of them, and `gathered` are computed for each row and used after the loop, for all
    of them. If the loop hands its batches to a `function` that trains on them, `names` are parameters of that.
    """

    loop: BatchLoop
    function: Function | None = None
    sites: list[ast.Call] = field(default_factory=list)  # where the loop calls it
    picks: list[ast.expr] = field(default_factory=list)
    names: tuple[str, ...] = ()
    made: ast.stmt | None = None
    again: dict[ast.stmt, tuple[str, ...]] = field(default_factory=dict)
    sizes: frozenset[ast.AST] = frozenset()
    whole: dict[str, list[ast.Name]] = field(default_factory=dict)
    apart: frozenset[ast.AST] = frozenset()
    gathered: tuple[str, ...] = ()
    obstacle: NotProved | None = None
    before: list[Environment] = field(default_factory=list)  # what holds before each statement of the loop's body

    @property
    def body(self) -> list[ast.stmt]:
        """The statements that one iteration runs on its batch."""
        return self.function.body if self.function is not None else self.loop.body

    @property
    def first(self) -> ast.stmt:
        """The statement before which a batch that is handed to a function can be shared out."""
        docstring = self.function is not None and ast.get_docstring(self.function) is not None
        return self.body[1] if docstring and len(self.body) > 1 else self.body[0]

    @property
    def local(self) -> set[str]:
        """The variables of the loop that are of a share of the batch only, before anything is computed from these."""
        if self.function is None:
            return {*self.names, *(name for names in self.again.values() for name in names)}
        found: set[str] = set()
        for statement in (s for s in self.loop.body if any(c in self.sites for c in walk(s))):
            call = statement.value if isinstance(statement, ast.Expr) else None
            into = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
            found |= stores(statement)
            if isinstance(into, ast.Name) and call not in self.sites:  # `losses.append(train(x, y))`
                found.add(into.id)
        return found
