"""Hooks that make something else of what networks compute, in which the samples of a batch meet: a hook that returns
`output - output.mean(0)`, or that takes the mean away where it is."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from accelift_codemod.facts.hooks import FORWARD, parameters
from accelift_codemod.facts.index import How
from accelift_codemod.facts.layout.algebra import Environment, Frame, Layout, Shape
from accelift_codemod.facts.values import Role, Value

if TYPE_CHECKING:
    from accelift_codemod.facts.hooks import Hook
    from accelift_codemod.facts.layout.interpreter import Layouts

_MET = (Layout.MIXED, Layout.SHIFTED)
_MOST_STEPS = 4


class MixingHooks:
    """Tells which networks have such hooks."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts
        self._hooks: dict[Hook, bool] = {}

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Where a hook is registered in which samples meet."""
        found = self.layouts.registered()
        return [call for call, hook in found if self._meets(call, hook)]

    def met(self, value: Value) -> bool:
        """Whether the samples meet in a hook of a network, or in one of which it is not known whose it is."""
        return any(self._is_of(call, value) for call in self.calls)

    def _is_of(self, call: ast.Call, value: Value) -> bool:
        func = call.func
        owners = self._owners(func.value) if isinstance(func, ast.Attribute) else set()
        return not owners or value.origin in owners or value.declaration in owners

    def _owners(self, node: ast.expr, steps: int = 0) -> set[ast.AST]:
        """The networks that a part is one of, by what makes them or by their class: `net` of `net.layers[0]`, also
        where a loop goes over its parts."""
        resolver, index = self.layouts.resolver, self.layouts.index
        found: set[ast.AST] = set()
        while True:
            found |= {v.origin for v in resolver.values(node) if v.role is Role.MODEL}
            if isinstance(node, (ast.Attribute, ast.Subscript)):
                node = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                node = node.func.value
            else:
                break
        if isinstance(node, ast.Name) and not found and steps < _MOST_STEPS:
            cls = index.enclosing_class(node)
            found |= {cls} if node.id == "self" and cls is not None else set()
            for binding in resolver.bindings(node):
                if binding.how is How.LOOP and binding.value is not None:
                    found |= self._owners(binding.value, steps + 1)
        return found

    def _meets(self, call: ast.Call, hook: Hook) -> bool:
        if hook not in self._hooks:
            self._hooks[hook] = False  # one that leads back to itself
            self._hooks[hook] = self._runs(call, hook)
        return self._hooks[hook]

    def _runs(self, call: ast.Call, hook: Hook) -> bool:
        """Whether samples meet in what a hook gives back, or in what it changes where it is."""
        names = parameters(self.layouts.resolver, hook)
        after = isinstance(call.func, ast.Attribute) and call.func.attr == FORWARD
        given: Sequence[Shape] = (Layout.CONST, (Layout.ROWS,), *([Layout.ROWS] if after else []))
        if len(names) < len(given):
            return False
        env: Environment = dict(zip(names, given, strict=False))
        frame = Frame(None)
        with self.layouts.changes.watched(frozenset(names)) as seen:
            if isinstance(hook, ast.Lambda):
                returned: Shape = self.layouts.read(hook.body, env, frame)
            else:
                self.layouts.run(hook.body, env, frame)
                returned = Layout.CONST if frame.returned is None else frame.returned
        return any(one in _MET for one in (*seen, *(returned if isinstance(returned, tuple) else (returned,))))
