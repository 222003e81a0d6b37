"""Slices that cut data into batches: each iteration of a loop takes the rows that follow those of the one before."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import product

from accelift_codemod.facts import library
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.index import FUNCTIONS, Binding, How, position
from accelift_codemod.facts.layout import polynomials
from accelift_codemod.facts.layout.polynomials import Polynomial
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk

_ONE = polynomials.number(1)
_MOST_STEPS = 8
_FOR = (ast.For, ast.comprehension)


class Strides:
    """The numbers that a loop counts by, and slices whose bounds follow them."""

    def __init__(self, resolver: Resolver, loop: ast.AST | None) -> None:
        self.resolver = resolver
        self.loop = loop
        self.raised: dict[str, ast.stmt] = {}  # the statement that raises a variable
        self._bound = {name for s in getattr(loop, "body", ()) for name in stores(s)}
        comprehended = isinstance(loop, (ast.ListComp, ast.GeneratorExp))
        self._header = loop.generators[0] if comprehended else loop  # type: ignore[union-attr]
        raised = self._raised(loop)
        counted = self._counts(self._header) if isinstance(self._header, _FOR) else next(iter(raised), ("", _ONE))
        self.number = counted[0]
        self._steps: dict[str, Polynomial] = dict((*raised, counted))

    def rows(self, bounds: ast.Slice) -> str | None:
        """The code that says how many rows a slice has, if the slices of two iterations have no row in common."""
        for number in dict.fromkeys((self.number, *self._steps)):
            if number in self.raised and not self._before(bounds, self.raised[number]):
                continue
            found = self._following(bounds, number) if number and bounds.step is None else None
            if found is not None:
                return found
        return None

    def _following(self, bounds: ast.Slice, number: str) -> str | None:
        """The code that says how many rows a slice has, if it begins where that of the iteration before ended."""
        lower = self._value(bounds.lower, number) if bounds.lower is not None else None
        wide = polynomials.growth(lower, number, self._steps[number]) if lower is not None else None
        if not wide or polynomials.names(wide) & {number, *self._bound}:
            return None
        if bounds.upper is None:
            return polynomials.text(wide) if self._sometimes(bounds) else None
        uppers = (self._value(upper, number) for upper in self._least(bounds.upper))
        assert lower is not None
        return polynomials.text(wide) if polynomials.plus(lower, wide) in uppers else None

    def _sometimes(self, bounds: ast.Slice) -> bool:
        """Whether a slice of all that is left is taken in some iterations only: it has no more rows than the others."""
        for outer in self.resolver.index.ancestors(bounds):
            if outer is self.loop:
                return False
            if isinstance(outer, (ast.If, ast.IfExp)):
                return True
        return False

    # ---- what bounds come to

    def _value(self, node: ast.expr, number: str) -> Polynomial | None:
        return polynomials.of(node, lambda part: self._stands_for(part, number))

    def _stands_for(self, node: ast.expr, number: str) -> ast.expr | None:
        """What a variable is bound to, unless it is a number of the loop; another one of that name is told apart."""
        scope = self.resolver.index.scope
        named = self.loop is not None and isinstance(node, ast.Name) and node.id == number
        header = self._header.target if isinstance(self._header, _FOR) else self._header
        if named and scope(node).owner(number) is scope(header).owner(number):  # type: ignore[arg-type]
            return None
        return self._meant(node) or (ast.Constant(f"{number} of a function") if named else None)

    def _least(self, node: ast.expr, steps: int = 0) -> Iterator[ast.expr]:
        """The expressions of which one is the least, and is the value: those of `min(i + size, len(x))`."""
        if steps > _MOST_STEPS:
            return
        if isinstance(node, ast.Call) and self.resolver.builtin(node.func) == "min":
            yield from node.args
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):  # `i + min(size, len(x) - i)`
            sides = (list(self._least(side, steps + 1)) for side in (node.left, node.right))
            yield from (ast.BinOp(left, node.op, right) for left, right in product(*sides))
        elif (meant := self._meant(node) or self._cut(node)) is not None:
            yield from self._least(meant, steps + 1)
        else:
            yield node

    def _meant(self, node: ast.expr) -> ast.expr | None:
        """What a variable of the loop, or of a function that it calls, is bound to, if that is one and only one
        expression: `end = start + size`."""
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        binding = bindings[0] if len(bindings) == 1 else None
        if binding is None or not self._runs(binding):
            return None
        if binding.how is How.PARAMETER:
            return self._given(binding)
        value = binding.value if binding.how is How.ASSIGN else None
        for place in binding.path:  # `start, end = i * size, (i + 1) * size`
            if not isinstance(value, (ast.Tuple, ast.List)) or not isinstance(place, int):
                return None
            value = value.elts[place] if place < len(value.elts) else None
        return value

    def _runs(self, binding: Binding) -> bool:
        """Whether a variable is bound in the loop, or in another function."""
        index = self.resolver.index
        inside = any(outer is self.loop for outer in index.ancestors(binding.node))
        own = index.function(self.loop) if self.loop is not None else None
        return inside or index.holder(binding.scope) not in (None, own)

    def _given(self, binding: Binding) -> ast.expr | None:
        """What the calls of a function in the loop give a parameter, if that is the same in all."""
        function, index = binding.scope.node, self.resolver.index
        sites = self.resolver.sites(function) if isinstance(function, FUNCTIONS) else []
        inside = [call for call in sites if any(outer is self.loop for outer in index.ancestors(call))]
        given = [(self.resolver.bind(call, function) or {}).get(binding.name) for call in inside]  # type: ignore[arg-type]
        alike = {ast.unparse(one) if one is not None else "" for one in given}
        return given[0] if len(alike) == 1 else None

    def _cut(self, node: ast.expr) -> ast.expr | None:
        """What a variable is bound to that is cut down where it is too large: `if end > len(x): end = len(x)`."""
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        if len(bindings) != 2 or any(b.how is not How.ASSIGN or b.path for b in bindings):
            return None
        first, second = sorted(bindings, key=lambda b: position(b.node))
        test = self.resolver.index.parents.get(self.resolver.index.statement(second.node))
        compared = test.test if isinstance(test, ast.If) and not test.orelse else None
        plain = self.resolver.index.parents.get(self.resolver.index.statement(first.node)) is self.loop
        if not plain or not isinstance(compared, ast.Compare) or len(compared.ops) != 1 or second.value is None:
            return None
        greater = isinstance(compared.ops[0], (ast.Gt, ast.GtE)) and ast.unparse(compared.left) == ast.unparse(node)
        return first.value if greater and ast.unparse(compared.comparators[0]) == ast.unparse(second.value) else None

    # ---- what the loop counts by

    def _before(self, bounds: ast.Slice, statement: ast.stmt) -> bool:
        """Whether a slice is taken in the loop, before a variable in its bounds is raised."""
        inside = self.loop is not None and self.loop in self.resolver.index.ancestors(bounds)
        return inside and position(bounds.lower or bounds) < position(statement)

    def _raised(self, loop: ast.AST | None) -> list[tuple[str, Polynomial]]:
        """The variables that each iteration raises, and by how much; nothing else in the loop changes them, but that a
        `for` loop may begin again at a number. What is raised last comes first."""
        found: list[tuple[str, Polynomial]] = []
        for statement in reversed(loop.body) if isinstance(loop, (ast.For, ast.While)) else ():
            target, value = _set(statement)
            if not isinstance(target, ast.Name) or value is None or self._set_otherwise(target.id, statement):
                continue
            after = self._value(value, target.id)
            own = polynomials.of(target, lambda part: None)
            step = polynomials.plus(after, own, -1) if after is not None and own is not None else None
            if step and target.id not in polynomials.names(step):
                self.raised[target.id] = statement
                found.append((target.id, step))
        return found

    def _set_otherwise(self, name: str, raises: ast.stmt) -> bool:
        """Whether something else in the loop binds a variable, other than to a number that is written there."""
        if self.loop is None:
            return True
        index = self.resolver.index
        stored = [n for n in walk(self.loop) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
        others = [index.statement(n) for n in stored if n.id == name and index.statement(n) is not raises]
        again = isinstance(self.loop, ast.For)
        return not all(again and isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant) for s in others)

    def _counts(self, loop: ast.For | ast.comprehension) -> tuple[str, Polynomial]:
        """The variable that a loop over a range counts with, and the step."""
        target, node = loop.target, loop.iter
        while isinstance(node, ast.Call) and node.args:
            name = self.resolver.builtin(node.func) or self.resolver.qualified(node.func) or ""
            if name == "range" or name.endswith("trange"):
                step = self._value(node.args[2], "") if len(node.args) == 3 else _ONE
                return (target.id, step) if isinstance(target, ast.Name) and step is not None else ("", _ONE)
            if name == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
                target = target.elts[1]
            elif name not in library.ITERATES:
                break
            node = node.args[0]
        return "", _ONE


def _set(statement: ast.stmt) -> tuple[ast.expr | None, ast.expr | None]:
    """What a statement sets, and what to: `i += size`, `i = i + size`, `i = (i + size) % len(x)`."""
    if isinstance(statement, ast.AugAssign):
        return statement.target, ast.BinOp(statement.target, statement.op, statement.value)
    value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod):
        value = value.left
    return (statement.targets[0], value) if isinstance(statement, ast.Assign) else (None, None)
