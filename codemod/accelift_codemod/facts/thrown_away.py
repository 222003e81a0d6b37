"""Loops with backward passes that train nothing: they look for inputs that mislead a network, to measure it on those.

Such a loop never steps an optimizer, and the gradients that its passes leave in the parameters are cleared before the
next pass that a step follows.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from functools import cached_property

from accelift_codemod.facts.index import FUNCTIONS, LOOPS, Function, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.scopes import position
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

_STEPPED = frozenset({Role.OPTIMIZER, Role.SCALER})
_CLEARED = frozenset({Role.OPTIMIZER, Role.MODEL})
_INPUTS = frozenset({Role.BATCH, Role.DATA})
_HANDED = frozenset({Role.OPTIMIZER, Role.PARAMETERS})
_OF_PARAMETERS = frozenset({"parameters", "named_parameters", "step", "param_groups"})


class ThrownAway:
    """Tells which loops over batches use no gradient of a parameter."""

    def __init__(self, resolver: Resolver, backwards: Callable[[ast.AST], list[ast.Call]]) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self._backwards = backwards  # those inside a loop

    def by(self, body: list[ast.stmt]) -> bool:
        """Whether statements with a backward pass take no step, and read no parameter, nor do functions they call."""
        if not self._cleared:
            return False
        run = dict.fromkeys(self._run_by(body))
        return not any(self._touches(node) or self._is_of_others(node, run) for node in run)

    def _is_of_others(self, node: ast.AST, run: Collection[ast.AST]) -> bool:
        """Whether a node reads the gradient of something that is no input, and not made in the loop either."""
        if not isinstance(node, ast.Attribute) or node.attr != "grad" or self.resolver.roles(node.value) & _INPUTS:
            return False
        bound = self.resolver.bindings(node.value) if isinstance(node.value, ast.Name) else []
        return not bound or any(b.how is not How.ASSIGN or b.node not in run for b in bound)

    def _touches(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in _OF_PARAMETERS
        given = [a for a in node.args if isinstance(a, ast.Name)] if isinstance(node, ast.Call) else []
        return any(self.resolver.roles(name) & _HANDED for name in given)

    def _run_by(self, body: list[ast.stmt]) -> Iterator[ast.AST]:
        """The nodes of statements, and of the functions that they call."""
        queue: list[ast.AST] = [*body]
        seen: set[Function] = set()
        for one in queue:
            for node in walk(one):
                yield node
                target = self.resolver.callee(node) if isinstance(node, ast.Call) else None
                if isinstance(target, FUNCTIONS) and target not in seen:
                    seen.add(target)
                    queue.append(target)

    @cached_property
    def _cleared(self) -> bool:
        """Whether every step follows a pass before which, in the same loop, gradients are cleared."""
        steps = [c for c in self.index.methods.get("step", []) if self._of(c) & _STEPPED]
        return bool(steps) and all(map(self._is_cleared, steps))

    def _is_cleared(self, step: ast.Call) -> bool:
        loop = next((p for p in self.index.ancestors(step) if isinstance(p, (*LOOPS, *FUNCTIONS))), None)
        if not isinstance(loop, LOOPS):
            return False
        passes = [position(c) for c in self._backwards(loop) if position(c) < position(step)]
        return bool(passes) and any(clear < passes[-1] for clear in self._clears.get(loop, []))

    @cached_property
    def _clears(self) -> dict[ast.AST, list[tuple[int, int]]]:
        """Where loops clear gradients by statements of their own."""
        found: dict[ast.AST, list[tuple[int, int]]] = {}
        for call in self.index.methods.get("zero_grad", []):
            loop = self.index.parents.get(self.index.statement(call))
            if isinstance(loop, LOOPS) and self._of(call) & _CLEARED:
                found.setdefault(loop, []).append(position(call))
        return found

    def _of(self, call: ast.Call) -> frozenset[Role]:
        return frozenset(self.resolver.roles(call.func.value))  # type: ignore[attr-defined]
