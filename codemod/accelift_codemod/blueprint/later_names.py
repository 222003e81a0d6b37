"""Variables that are given an object once its training has begun, when it is prepared: they get the prepared one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Sequence

from accelift_codemod.blueprint.containers import keeps
from accelift_codemod.blueprint.rebinding import keeps_as_it_is
from accelift_codemod.facts import Binding, Facts, Function, How, Role, Scope, Value, position
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.scopes import end_position
from accelift_codemod.facts.values import Key, key

Root = tuple[Scope, str]


class LaterNames:
    """Tells which variables have an object only later than another one."""

    def __init__(self, facts: Facts, value: Value, uses: Callable[[Function | None], Sequence[ast.AST]]) -> None:
        self.facts = facts
        self.index = facts.index
        self.resolver = facts.resolver
        self.value = value
        self.uses = uses  # the places in a function after which it is too late to prepare

    def has(self, root: Root, first: Root) -> bool:
        """Whether a variable is only given the object by another one when its training has begun, and so once it is
        prepared: `best = train(model)`, `net = model.eval()`, or the `net` that a function makes, trains and returns.
        """
        bindings = self._giving(root)
        if root[0].is_class or not bindings or len(bindings) != len(root[0].bindings[root[1]]):
            return False  # it may hold another one
        if root[0] is first[0]:
            return self._given_beside(bindings, first)
        return self._returned(bindings, first)

    def aliases(self, root: Root, first: Root, prepared: Container[Key]) -> list[Binding]:
        """The bindings that give a variable the object of another one before the training, if it can be prepared before
        them: `best = model`, where the loop binds `best = copy.deepcopy(model)`. Else none."""
        scope, bindings = root[0], self._giving(root)
        if scope is not first[0] or scope.is_class or self.value.role is not Role.MODEL or not bindings:
            return []
        made, home = scope.bindings[first[1]], self.index.function(bindings[0].node)
        others = (v for b in scope.bindings[root[1]] if b not in bindings for v in self.resolver.bound(b))
        plain = all(isinstance(b.value, ast.Name) and b.value.id == first[1] for b in bindings)
        if not plain or any(key(v) in prepared for v in others):
            return []
        if any(b.path or self.index.function(b.node) is not home for b in (*made, *bindings)):
            return []
        if any(self.index.enclosing_loops(b.node) for b in (*made, *bindings)):
            return []
        begin, end = (pick(position(b.node) for b in bindings) for pick in (min, max))
        begun = self._begun(home, made)
        if begun is None or not all(position(b.node) < begin for b in made) or position(begun) < end:
            return []
        reads = (n for name in (root[1], first[1]) for n in self.facts.loads(scope, name))
        reads = (n for n in reads if begin < position(n) < position(begun) and self.index.function(n) is home)
        taken = [b.value for b in bindings]
        return bindings if all(n in taken or keeps_as_it_is(self.index, n) for n in reads) else []

    def _giving(self, root: Root) -> list[Binding]:
        """The bindings that give a variable the object."""
        scope, name = root
        return [b for b in scope.bindings[name] if keeps(self.resolver.bound(b), key(self.value))]

    def _given_beside(self, bindings: list[Binding], first: Root) -> bool:
        """Whether statements of one function give a variable what another one has that is used already."""
        before = self._giving(first)
        loops = {tuple(self.index.enclosing_loops(b.node)) for b in (*bindings, *before)}
        if len(loops) != 1:
            return False  # it may hold this one again
        if any(b.how is not How.ASSIGN or b.path or b.value is None for b in (*bindings, *before)):
            return False
        begun = self._begun(self.index.function(bindings[0].node), before)
        statements = [self.index.statement(b.node) for b in bindings]
        given = (any(n.id == first[1] for n in loads(s)) for s in statements)
        return begun is not None and all(given) and all(position(begun) < end_position(s) for s in statements)

    def _returned(self, bindings: list[Binding], first: Root) -> bool:
        """Whether a variable is given what a function returns which has made the object and used it in any case."""
        home = first[0].node
        if (
            self.value.role is Role.LOADER
            or first[0].is_class
            or not isinstance(home, FUNCTIONS)
            or self.resolver.yields(home)
        ):
            return False
        calls = [b.value if b.how is How.ASSIGN else None for b in bindings]
        if not all(isinstance(call, ast.Call) and self.resolver.callee(call) is home for call in calls):
            return False
        before = self._giving(first)
        begun = self._begun(home, before)
        if begun is None or any(self.index.statement(b.node) not in home.body for b in before):
            return False
        around = next((s for s in self.index.chain(begun) if s in home.body), None)
        sure = isinstance(around, ast.stmt) and not isinstance(around, (ast.If, ast.Try, ast.Match))
        returned = [s for s in self.resolver.returns(home) if keeps(self.resolver.values(s.value), key(self.value))]
        return sure and all(position(begun) < position(statement) for statement in returned)

    def _begun(self, home: Function | None, made: list[Binding]) -> ast.AST | None:
        """Where the objects of a function are first used once the object is there."""
        end = max((end_position(self.index.statement(b.node)) for b in made), default=(0, 0))
        return next((use for use in self.uses(home) if position(use) > end), None)
