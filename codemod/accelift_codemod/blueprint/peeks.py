"""Batches that a script looks at before it trains: for their shape, for a graph of the model, for pictures to show.

They are whole batches on every process if the loader is prepared later.
"""

from __future__ import annotations

import ast
from itertools import takewhile

from accelift_codemod.blueprint import Blueprint
from accelift_codemod.facts import Role, Value
from accelift_codemod.facts.contents import inside
from accelift_codemod.facts.index import COMPREHENSIONS, FUNCTIONS, LOOPS, Function, How
from accelift_codemod.facts.passing import drawn_from
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Values


class Peeks:
    """Finds the places where a script takes single batches of a loader, and does not pass over it."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.facts = blueprint.facts
        self.resolver = blueprint.facts.resolver
        self.index = blueprint.facts.index

    def find(self, passes: dict[Value, list[ast.Call]]) -> dict[ast.AST, Values]:
        """The loaders of each such place: a call of iter(), a draw from what it gives, or a loop that ends with its
        first batch.

        `passes` are the calls that take each loader to pass over it.
        """
        found: dict[ast.AST, list[Value]] = {}
        for loader, calls in passes.items():
            for call in calls:
                for node in self._single(call):
                    found.setdefault(node, []).append(loader)
        passed = {v for loop in self.blueprint.train_loops for v in loop.loaders}
        for loop in self.blueprint.eval_loops:
            if self._ends_at_once(loop.node) and passed.issuperset(loop.loaders):
                node = loop.node.iter if isinstance(loop.node, ast.For) else loop.node
                found.update({loop.node: list(loop.loaders), node: list(loop.loaders)})
        return {node: tuple(loaders) for node, loaders in found.items()}

    def of_makers(self) -> set[ast.AST]:
        """The loops by which functions look at the first batch of a loader that they make and return.

        Others pass over it, none of which such a function runs: it is prepared where that has returned it.
        """
        loops = [loop for loop in self.facts.loops.batch_loops if self.facts.runs(loop.node) and loop.loaders]
        found: set[ast.AST] = set()
        for loop in (loop for loop in loops if self._ends_at_once(loop.node)):
            maker, origins = self.index.function(loop.node), {v.origin for v in loop.loaders}
            if maker is None or any(self.index.function(origin) is not maker for origin in origins):
                continue
            others = [o for o in loops if o is not loop and origins & {v.origin for v in o.loaders}]
            outside = [o for o in others if not self._runs(maker, o.node)]
            own = [o for o in others if o not in outside]
            if origins <= {v.origin for o in outside for v in o.loaders} and origins <= self._returned(maker):
                if all(self.index.function(o.node) is maker and self._ends_at_once(o.node) for o in own):
                    found.add(loop.node)
        return found

    def _runs(self, maker: Function, node: ast.AST) -> bool:
        """Whether a function has a node, or leads to it."""
        function = self.index.function(node)
        return function is maker or maker in self.blueprint.timeline.callers(function)

    def _returned(self, function: Function) -> set[ast.AST]:
        """What makes the objects that a function returns, one by one or together."""
        returns = self.resolver.returns(function)
        return {v.origin for r in returns for v in inside(self.resolver.values(r.value))}

    def _single(self, call: ast.Call) -> list[ast.AST]:
        """A call of iter() with the draws from it, if batches are only drawn one by one, outside of loops."""
        if self.resolver.roles(call) != {Role.ITERATOR} or self._repeats(call):
            return []
        parent = self.index.parents[call]
        if self._draws(parent, call):
            return [call]
        target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
        owner = self.index.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
        if owner is None or not isinstance(target, ast.Name) or owner.is_class:
            return []
        reached = {n: self.resolver.reaching(n, owner) for n in self.facts.loads(owner, target.id)}
        loads = [n for n, bound in reached.items() if any(b.node is target for b in bound)]
        alone = all(b.how is How.ASSIGN and b.node is target for n in loads for b in reached[n])
        if any(self.index.function(load) is not self.index.function(call) for load in loads):
            return []  # how often that function draws is another matter
        single = (self._draws(self.index.parents[load], load) and not self._repeats(load) for load in loads)
        return [call, *loads] if alone and all(single) else []

    def _repeats(self, node: ast.AST) -> bool:
        """Whether a loop, or a comprehension, is around a node in its function."""
        around = self.index.ancestors(node)
        inside = takewhile(lambda parent: not isinstance(parent, FUNCTIONS), around)
        return any(isinstance(parent, (*LOOPS, *COMPREHENSIONS)) for parent in inside)

    def _draws(self, node: ast.AST, iterator: ast.expr) -> bool:
        """Whether a node draws from an iterator: `next(iterator)`, `iterator.next()`."""
        if isinstance(node, ast.Attribute):
            node = self.index.parents[node]
        return isinstance(node, ast.Call) and drawn_from(node, self.resolver) is iterator

    def _ends_at_once(self, node: ast.AST) -> bool:
        """Whether a loop, in no other one, breaks off in its first iteration."""
        return (
            isinstance(node, ast.For)
            and not node.orelse
            and isinstance(node.body[-1], ast.Break)
            and not self._repeats(node)
            and not any(isinstance(n, ast.Continue) for s in node.body for n in walk(s))
        )
