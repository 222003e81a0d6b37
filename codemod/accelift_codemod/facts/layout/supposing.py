"""What would be so of losses if networks that are not known gave one row for each sample, as almost all do, if what is
sorted had one number for each, and if loops over something that is not known were over labels.

Nothing is proved by that. But where samples are then compared with each other, it is to be said.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import How
from accelift_codemod.facts.layout.algebra import CURVING, FIXED, Environment, Frame, Layout, Shape, are_rows, tensor
from accelift_codemod.facts.layout.calls import Calls
from accelift_codemod.facts.layout.choosing import Choosing
from accelift_codemod.facts.layout.filled_by_hooks import filled_by_hooks
from accelift_codemod.facts.layout.interpreter import Layouts
from accelift_codemod.facts.layout.modules import Modules
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.objects import Objects
from accelift_codemod.facts.torch_ops import REDUCES
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role, Value

if TYPE_CHECKING:
    from accelift_codemod.facts.extents import Extents
    from accelift_codemod.facts.hooks import Hook, Kept

_NETWORKS = (Role.MODEL, Role.OBJECT)


class Supposing(Layouts):
    """Interprets code on layouts, and supposes that."""

    def __init__(
        self,
        objects: Objects,
        extents: Extents,
        hooked: Callable[[], Mapping[ast.expr, Sequence[Kept]]],
        registered: Callable[[], Sequence[tuple[ast.Call, Hook]]],
    ) -> None:
        super().__init__(objects, extents, hooked=hooked, registered=registered)
        self.modules = _Modules(self)
        self.calls = _Calls(self)
        self.choosing = _Choosing(self)

    def by_hooks(self, node: ast.expr) -> Shape:
        return filled_by_hooks(self, self.hooked[node])

    def operated(self, node: ast.BinOp, left: Shape, right: Shape, env: Environment, frame: Frame) -> Shape:
        found, sides = super().operated(node, left, right, env, frame), {tensor(left), tensor(right)}
        statistics = Layout.MIXED not in sides and sides & {Layout.SHIFTED, *CURVING}
        along = any(self._is_along_samples(side) for side in (node.left, node.right))
        if found in (Layout.MIXED, Layout.SHIFTED) and statistics and not along:
            return Layout.UNKNOWN  # what is supposed to have rows may be a loss
        return found

    def entry(self, iterated: Shape) -> Shape:
        # Of what is not known, a label, by which some are picked.
        return Layout.CONST if iterated in (Layout.UNKNOWN, Layout.UNSURE) else super().entry(iterated)

    def _is_along_samples(self, node: ast.expr) -> bool:
        """Whether an expression is a statistic along dimension 0: `x.mean(0)`, which of a loss nobody takes."""
        if isinstance(node, ast.Name):
            bindings = self.resolver.bindings(node)
            made = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
            return isinstance(made, ast.Call) and self._is_along_samples(made)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in REDUCES:
            return False
        place = int(self.resolver.library_function(node.func) is not None)
        return integer(self.resolver.argument(node, place, "dim")) == 0


class _Choosing(Choosing):
    """Supposes that samples which are put into some order have one number each that is sorted."""

    def __init__(self, layouts: Layouts) -> None:
        super().__init__(layouts.resolver)
        self.ranks = layouts.ranks

    def subscript(self, base: Shape, first: ast.expr, index: Shape) -> Shape | None:
        found = super().subscript(base, first, index)
        return base if found is None and base is Layout.ROWS and self.ranks.is_order(first) else found


class _Modules(Modules):
    def __init__(self, layouts: Layouts) -> None:
        super().__init__(layouts)
        self._foreign: dict[ast.ClassDef, bool] = {}

    def forward(
        self, value: Value, arguments: list[Shape], keywords: dict[str, Shape], call: ast.Call | None = None
    ) -> Shape:
        found = super().forward(value, arguments, keywords, call)
        if self._has_foreign(value) and are_rows([*arguments, *keywords.values()]):
            return _supposed(found)
        return _supposed(found) if _is_foreign((value,)) and _of_samples(arguments, keywords) else found

    def _has_foreign(self, value: Value) -> bool:
        """Whether a network of the script has one of a library, by which it cannot be followed, as a part."""
        cls = value.declaration
        if value.role is not Role.MODEL or not isinstance(cls, ast.ClassDef):
            return False
        if cls not in self._foreign:
            made = (n for n in walk(cls) if isinstance(n, ast.Call) and self.index.enclosing_class(n) is cls)
            parts = [v for call in made for v in self.resolver.values(call) if v.role is Role.MODEL]
            self._foreign[cls] = any(_is_foreign((part,)) for part in parts)
        return self._foreign[cls]

    def own(
        self, name: str, call: ast.Call, arguments: list[Shape], keywords: dict[str, Shape], cls: ast.ClassDef
    ) -> Shape:
        found = super().own(name, call, arguments, keywords, cls)
        made = [binding.value for binding in self.index.set_in(cls, name)]
        values = [v for value in made for v in self.resolver.values(value)]
        return _supposed(found) if _is_foreign(values) and _of_samples(arguments, keywords) else found


class _Calls(Calls):
    def read(self, call: ast.Call, env: Environment, frame: Frame) -> Shape:
        tensor, places = self.layouts.ranks.taken(call)
        if tensor is not None and places is not None and self.layouts.ranks.is_order(places):
            return self.layouts.read(tensor, env, frame)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "get" and len(call.args) == 1:
            if self.layouts.read(call.func.value, env, frame) is Layout.BATCH:
                return Layout.ROWS  # an entry of a dict
        return super().read(call, env, frame)

    def _called(
        self, call: ast.Call, arguments: list[Shape], keywords: dict[str, Shape], env: Environment, frame: Frame
    ) -> Shape:
        found = super()._called(call, arguments, keywords, env, frame)
        values = self.resolver.values(call.func)
        if not values and isinstance(call.func, ast.Attribute):
            values = self.resolver.values(call.func.value)  # `model.encode_image(x)`
        foreign = _is_foreign(values) and _of_samples(arguments, keywords)
        return _supposed(found) if foreign or self._is_given(call.func, arguments, keywords) else found

    def _is_given(self, func: ast.expr, arguments: list[Shape], keywords: dict[str, Shape]) -> bool:
        """Whether samples are given to what nothing is known of but that a function gets it: `net`, in `forward(net,
        x)` of a loss."""
        bindings = self.resolver.bindings(func) if isinstance(func, ast.Name) else []
        given = bool(bindings) and all(b.how is How.PARAMETER for b in bindings) and not self.resolver.values(func)
        return given and _of_samples(arguments, keywords)


def _is_foreign(values: Sequence[Value]) -> bool:
    """Whether something is an object, perhaps a network, of libraries that are not known."""
    return bool(values) and all(
        v.role in _NETWORKS and v.declaration is None and not v.name.startswith("torch.") for v in values
    )


def _of_samples(arguments: list[Shape], keywords: dict[str, Shape]) -> bool:
    """Whether a call is given one tensor that depends on the batch, with the samples in dimension 0."""
    given = [part for part in (*arguments, *keywords.values()) if part not in FIXED]
    return len(given) == 1 and tensor(given[0]) is Layout.ROWS


def _supposed(found: Shape) -> Shape:
    if isinstance(found, tuple):
        return tuple(map(_supposed, found))
    return Layout.BATCH if found is Layout.UNKNOWN else found
