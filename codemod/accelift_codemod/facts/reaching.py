"""Which bindings of a variable can reach a read of it, worked out for all of its bindings together.

A script may bind one variable very often. So what a binding hides from what comes after it is noted once, at the block
of statements in which it stands, and a read looks at the blocks around it, not at every binding.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from accelift_codemod.facts.scopes import Binding, Function, How, position

if TYPE_CHECKING:
    from accelift_codemod.facts.index import Index

Entry = TypeVar("Entry")
With = ast.With | ast.AsyncWith
Passes = Callable[[With], bool]
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_OPENS = (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)


class Reaching:
    """The bindings of one variable, and which of them a read can see where all are made in its `home`."""

    def __init__(
        self,
        index: Index,
        bindings: list[Binding],
        home: Function | None,
        sure: Collection[ast.stmt],
        passes: Passes,
    ) -> None:
        """`sure` are the statements that bind the variable whenever they run; `passes` tells whether all in a statement
        has run where the program goes on after it."""
        self.bindings = bindings
        self.home = home
        self.local = all(b.how is How.PARAMETER or index.function(b.node) is home for b in bindings)
        self._index = index
        if self.local:
            self._note(bindings, sure, passes)

    def _note(self, bindings: list[Binding], sure: Collection[ast.stmt], passes: Passes) -> None:
        index = self._index
        self._bindings = sorted(bindings, key=lambda b: position(b.node))
        self._positions = [position(b.node) for b in self._bindings]
        self._statements = [index.statement(b.node) if b.how is not How.PARAMETER else None for b in self._bindings]
        self._opening: dict[ast.AST, list[int]] = {}  # bindings in the headers of statements
        self._hiding = _Blocks[int](index, passes)  # bindings that have surely been made after a place
        self._choosing = _Blocks[tuple[int, ast.If]](index, passes)  # the last ones in choices that surely make some
        self._parameter = -1
        self._in_loops: dict[ast.AST, tuple[list[tuple[int, int]], list[Binding]]] | None = None
        chosen: dict[ast.If, bool] = {}
        for number, (binding, statement) in enumerate(zip(self._bindings, self._statements, strict=True)):
            if statement is None:
                self._parameter = number
                continue
            if not isinstance(index.parents.get(binding.node), ast.comprehension):
                if isinstance(statement, _OPENS):
                    self._opening.setdefault(statement, []).append(number)
                self._hiding.add(statement, number)
            for choice in index.ancestors(statement):
                if not isinstance(choice, ast.If):
                    break
                if choice not in chosen:
                    chosen[choice] = _binds(choice, sure)
                if chosen[choice]:
                    self._choosing.add(choice, (number, choice))

    def of(self, name: ast.Name | ast.Attribute) -> list[Binding]:
        """Those that can reach a read, the latest before it first, then those of other iterations."""
        index, here = self._index, position(name)
        chain = index.chain(name)
        last = bisect_left(self._positions, here)
        own = last  # from here on, those before the read are of its own statement
        while own and isinstance(chain[-1], (ast.Assign, ast.AnnAssign)) and self._statements[own - 1] is chain[-1]:
            own -= 1
        first, killer = self._first(chain, own)
        reached = self._bindings[first:own][::-1]
        loops = index.enclosing_loops(name)
        killers = index.enclosing_loops(killer) if killer is not None else []
        if killer is not None and isinstance(statement := index.statement(killer), (ast.For, ast.AsyncFor)):
            killers = [*killers, statement]
        open_loops = [loop for loop in loops if loop not in killers]  # in which another iteration may bind it
        if open_loops:
            begin = self._positions[own] if own < last else here
            positions, bindings = self._within(open_loops[-1])
            reached += bindings[bisect_left(positions, begin) :]
        return reached

    def _first(self, chain: list[ast.stmt], end: int) -> tuple[int, ast.AST | None]:
        """The first binding, of those before one, that reaches what stands in statements, and what hides others."""
        around = self._index.places(chain[-1]) if chain else {}
        hiding = [self._parameter, *self._hiding.before(around)]
        hiding += (n for s in chain if isinstance(s, _OPENS) for n in self._opening.get(s, ()))
        hidden = max((n for n in hiding if n < end), default=-1)
        choices = [(n, choice) for n, choice in self._choosing.before(around) if hidden < n < end]
        if choices:
            choice = max(choices, key=lambda found: found[0])[1]
            return bisect_left(self._positions, position(choice)), choice
        return max(hidden, 0), self._bindings[hidden].node if hidden >= 0 else None

    def _within(self, loop: ast.AST) -> tuple[list[tuple[int, int]], list[Binding]]:
        """The bindings in a loop, with where they stand."""
        if self._in_loops is None:
            self._in_loops = {}
            for place, binding in zip(self._positions, self._bindings, strict=True):
                for around in self._index.enclosing_loops(binding.node):
                    places, bindings = self._in_loops.setdefault(around, ([], []))
                    places.append(place)
                    bindings.append(binding)
        return self._in_loops.get(loop, ([], []))


class _Blocks(Generic[Entry]):
    """What is noted at statements, in the order of the source, by the places after which these have surely begun.

    A statement has one in its block, and in the blocks around a `with`, if that lets every exception pass.
    """

    def __init__(self, index: Index, passes: Passes) -> None:
        self._index = index
        self._passes = passes
        self._blocks: dict[int, tuple[list[int], list[tuple[Entry, list[With]]]]] = {}

    def add(self, statement: ast.stmt, entry: Entry) -> None:
        """Note something at a statement."""
        through: list[With] = []
        while True:
            block, place = self._index.block(statement)
            places, entries = self._blocks.setdefault(id(block), ([], []))
            places.append(place)
            entries.append((entry, through))
            around = self._index.parents.get(statement)
            if not isinstance(around, (ast.With, ast.AsyncWith)):
                return
            through = [*through, around]
            statement = around

    def before(self, around: Mapping[int, int]) -> Iterator[Entry]:
        """The last of each block that stands before a place in it."""
        for block, place in around.items():
            if block not in self._blocks:
                continue
            places, entries = self._blocks[block]
            while last := bisect_left(places, place):
                noted = entries[last - 1]
                if all(map(self._passes, noted[1])):
                    yield noted[0]
                    break
                if entries[last - 1] is noted:  # asking that may lead here, too
                    del places[last - 1], entries[last - 1]


def _binds(choice: ast.If, sure: Collection[ast.stmt]) -> bool:
    """Whether whatever comes after a choice finds a variable that one of its arms has bound."""
    return all(
        any(s in sure or (isinstance(s, ast.If) and _binds(s, sure)) for s in arm)
        or isinstance(arm[-1] if arm else None, _LEAVES)
        for arm in (choice.body, choice.orelse)
    )
