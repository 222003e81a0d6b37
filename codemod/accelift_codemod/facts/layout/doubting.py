"""Losses without the benefit of the doubt: elsewhere the mean of something that is not known is taken for one over the
samples, as it almost always is. Here it is not known either."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout.algebra import Environment, Frame, Layout, Shape
from accelift_codemod.facts.layout.calls import Calls
from accelift_codemod.facts.layout.interpreter import Layouts
from accelift_codemod.facts.objects import Objects

if TYPE_CHECKING:
    from accelift_codemod.facts.extents import Extents


class Doubting(Layouts):
    """Interprets code on layouts, and takes nothing for a mean that is one of something unknown.

    Args:
        objects: those of the script.
        extents: what is known of sizes in it.
        compares: what is compared with one row for each sample, `criterion(out, y)`, is taken for such rows itself.
    """

    def __init__(self, objects: Objects, extents: Extents, compares: bool = False) -> None:
        super().__init__(objects, extents)
        self.calls = _Calls(self, compares)


class _Calls(Calls):
    def __init__(self, layouts: Layouts, compares: bool) -> None:
        super().__init__(layouts)
        self._compares = compares

    def read(self, call: ast.Call, env: Environment, frame: Frame) -> Shape:
        found = super().read(call, env, frame)
        if found not in (Layout.MEAN, Layout.WEIGHTED) or isinstance(self.resolver.callee(call), FUNCTIONS):
            return found
        func = call.func
        of = [func.value] if isinstance(func, ast.Attribute) and not self.resolver.qualified(func) else []
        parts = [self.layouts.read(part, env, frame) for part in (*of, *call.args)]
        compared = self._compares and Layout.ROWS in parts
        return Layout.UNKNOWN if Layout.UNKNOWN in parts and not compared else found
