"""What is so of measures if networks of libraries that are not known give one row for each sample, as almost all do."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.layout.algebra import FIXED, Layout, Shape
from accelift_codemod.facts.layout.interpreter import Layouts
from accelift_codemod.facts.layout.modules import Modules
from accelift_codemod.facts.objects import Objects
from accelift_codemod.facts.values import Value

if TYPE_CHECKING:
    from accelift_codemod.facts.extents import Extents

_UNKNOWN = (Layout.UNKNOWN, Layout.UNSURE)


class Trusting(Layouts):
    """Interprets code on layouts, and takes that for granted of what is given samples and nothing else."""

    def __init__(self, objects: Objects, extents: Extents) -> None:
        super().__init__(objects, extents)
        self.modules = _Modules(self)


class _Modules(Modules):
    def forward(
        self, value: Value, arguments: list[Shape], keywords: dict[str, Shape], call: ast.Call | None = None
    ) -> Shape:
        found = super().forward(value, arguments, keywords, call)
        given = [part for part in (*arguments, *keywords.values()) if part not in FIXED]
        own = value.declaration is not None or (value.name.startswith("torch.") and value.name != "torch.nn.Sequential")
        return Layout.ROWS if found in _UNKNOWN and given == [Layout.ROWS] and not own else found
