"""The expressions through which training and evaluation use objects."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from accelift_codemod.blueprint.rebinding import carriers
from accelift_codemod.facts import Role
from accelift_codemod.facts.values import Key, key

if TYPE_CHECKING:
    from accelift_codemod.blueprint import Blueprint


class Uses:
    """Finds them for all objects of a script."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.facts = blueprint.facts
        self.resolver = blueprint.facts.resolver
        self.index = blueprint.facts.index

    @cached_property
    def found(self) -> dict[Key, list[ast.expr]]:
        """For each object: the expressions through which it may be used for training or evaluation."""
        found: dict[Key, list[ast.expr]] = {}

        def note(node: ast.expr) -> None:
            values = self.resolver.values(node)
            for one in dict.fromkeys(key(v) for v in (*values, *self.facts.loops.loaders(values))):
                found.setdefault(one, []).append(node)

        for loop in (*self.blueprint.train_loops, *self.blueprint.eval_loops):
            if isinstance(loop.node, (ast.For, ast.AsyncFor, ast.comprehension)):
                for carrier in carriers(loop.node.iter):
                    note(carrier)
            for stream in self.facts.loops.streams(loop.node) if not loop.direct else ():
                for carrier in carriers(stream):
                    note(carrier)
        for call in self.index.calls:
            func = call.func
            if isinstance(func, ast.Attribute) and func.attr in ("step", "zero_grad") and self.facts.runs(call):
                if values := self.resolver.values(func.value):
                    note(func.value)
                    if any(v.role is Role.SCALER for v in values) and call.args:
                        note(call.args[0])
                    continue
            if isinstance(func, ast.Attribute) and func.attr == "forward" and self.resolver.values(func.value):
                func = func.value
            if isinstance(func, (ast.Name, ast.Attribute, ast.Subscript)) and self.resolver.values(func):
                if self.facts.runs(call) and self._in_batch_loop(call):
                    note(func)
        return found

    @cached_property
    def asked(self) -> dict[Key, list[ast.expr]]:
        """For each network: the expressions whose methods training or evaluation runs, `model.loss(x, y)`."""
        found: dict[Key, list[ast.expr]] = {}
        for call in self.index.calls:
            node = call.func.value if isinstance(call.func, ast.Attribute) else None
            networks = [v for v in self.resolver.values(node) if v.role is Role.MODEL]
            if node is not None and networks and self.facts.runs(call) and self._in_batch_loop(call):
                for one in dict.fromkeys(map(key, networks)):
                    found.setdefault(one, []).append(node)
        return found

    @cached_property
    def run_in_loops(self) -> set[ast.AST]:
        """Functions that batch loops call."""
        found: set[ast.AST] = set()
        for loop in (*self.blueprint.train_loops, *self.blueprint.eval_loops):
            for statement in loop.body:
                found |= self.blueprint.timeline.calls_into(statement)
        return found

    def _in_batch_loop(self, node: ast.AST) -> bool:
        if any(outer in self.blueprint.loops for outer in self.index.enclosing_loops(node)):
            return True
        return self.index.function(node) in self.run_in_loops
