"""What things are moved to that is a GPU by its number: `x.to(args.gpu)`, where `model.cuda(args.gpu)` is, too."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from accelift_codemod.facts.devices import Devices
from accelift_codemod.facts.gpu_numbers import is_integer, plain
from accelift_codemod.facts.index import Binding
from accelift_codemod.facts.tree import is_spelled_out, walk

_Place = tuple[str, frozenset[Binding]]  # an attribute or entry as it is written, and what binds its names


class NumberedTargets:
    """Tells what is a GPU by its number: a literal, an option, and whatever `.cuda` takes, as that takes no other
    number than that of a GPU, and no name of the CPU."""

    def __init__(self, devices: Devices, calls: Iterable[ast.Call]) -> None:
        self.devices = devices
        self.resolver = devices.resolver
        given = (self.resolver.argument(call, 0, "device") for call in calls)
        taken = [g for g in given if g is not None and not devices.is_device(g)]
        self._bindings = {b for g in taken for b in self._bound(g)}
        self._places = {self._place(g) for g in taken if self._is_place(g)}

    def holds(self, node: ast.expr | None) -> bool:
        """Whether an expression is such a number, perhaps handed on."""
        return self.devices.numbers.only_ever(node, self._is_number, self._bound, self._bindings)

    def _is_number(self, node: ast.expr) -> bool:
        taken = self._is_place(node) and self._place(node) in self._places
        return taken or is_integer(node) or self.devices.numbers.is_option(node)

    def is_choice(self, node: ast.expr) -> bool:
        """Whether an expression is the number of a GPU, or else the name of a device."""
        values = [plain(binding) for binding in self._bound(node)] or [node]
        arms = [arm for v in values for arm in ((v.body, v.orelse) if isinstance(v, ast.IfExp) else (v,))]
        return any(map(self.devices.numbers.is_numeral, arms)) and any(map(self.devices.is_device, arms))

    def _bound(self, node: ast.expr) -> list[Binding]:
        return self.devices.bindings(node) if isinstance(node, (ast.Name, ast.Attribute)) else []

    def _is_place(self, node: ast.expr) -> bool:
        return isinstance(node, (ast.Attribute, ast.Subscript)) and is_spelled_out(node)

    def _place(self, node: ast.expr) -> _Place:
        names = (n for n in walk(node) if isinstance(n, ast.Name))
        return ast.unparse(node), frozenset(b for name in names for b in self.resolver.bindings(name))
