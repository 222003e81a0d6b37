"""Which modules a call runs that are reached through the network that has them: `net.encoder`, `net.features[0]`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import Binding, How
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.values import Role, Value

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.modules import Modules

_STEPS = 6  # of names and attributes, until it is given up
_GROWS = ("append", "extend", "insert", "add_module")
_MODULES = (Role.MODEL, Role.LOSS)


class Submodules:
    """Finds them where they are made, in the constructor of the network, or where its container is."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.resolver = modules.resolver
        self.index = modules.index

    def of(self, node: ast.expr | None, steps: int = _STEPS) -> list[Value]:
        """The modules that an expression may be; nothing if one of them cannot be told."""
        values = self.resolver.values(node)
        if values or not steps:
            return list(values) if all(v.role in _MODULES for v in values) else []
        if isinstance(node, ast.Name):
            return self._together([self._bound(b, steps - 1) for b in self.resolver.bindings(node)])
        if isinstance(node, ast.Attribute):
            return self._attribute(node, steps - 1)
        if isinstance(node, ast.Subscript):
            return self._elements(node.value, node.slice, steps - 1)
        return []

    def _together(self, found: list[list[Value]]) -> list[Value]:
        return list(dict.fromkeys(v for part in found for v in part)) if all(found) else []

    def _bound(self, binding: Binding, steps: int) -> list[Value]:
        node, path = binding.value, binding.path
        if binding.how is How.PARAMETER:
            return self._together([self.of(given, steps) for given in self.resolver.handed(binding)])
        if binding.how is How.LOOP:
            if isinstance(node, ast.Call) and self.resolver.builtin(node.func) == "enumerate" and path[:1] == (1,):
                node, path = node.args[0] if node.args else None, path[1:]
            return self._elements(node, None, steps) if not path else []
        return self.of(node, steps) if binding.how is How.ASSIGN and not path else []

    def _attribute(self, node: ast.Attribute, steps: int) -> list[Value]:
        """What networks have in an attribute that only their own methods set."""
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        owners = [self.index.enclosing_class(node)] if own else [v.declaration for v in self.of(node.value, steps)]
        if any(not _is_own(binding) for binding in self.index.attribute_bindings.get(node.attr, ())):
            return []
        found: list[list[Value]] = []
        for owner in owners:
            ancestry = self.resolver.ancestry(owner) if isinstance(owner, ast.ClassDef) else ()
            made = [binding for cls in ancestry for binding in self.index.set_in(cls, node.attr)]
            if not made or any(b.how is not How.ASSIGN or b.path for b in made):
                return []
            found += (self.of(part, steps) for b in made for part in self.modules.parts(b.value))
        return self._together(found)

    def _elements(self, node: ast.expr | None, place: ast.expr | None, steps: int) -> list[Value]:
        """The modules in containers, at one place or at any, if all of them are written where these are made."""
        containers = self.of(node, steps)
        if isinstance(place, ast.Slice):
            return containers
        return self._together([self._written(container, place) for container in containers])

    def _written(self, container: Value, place: ast.expr | None) -> list[Value]:
        made = container.origin
        if not isinstance(made, ast.Call) or container.declaration is not None or self._grows(made):
            return []
        listed = made.args[0] if len(made.args) == 1 else None
        parts: list[ast.expr] = []
        if container.name == "torch.nn.Sequential":
            parts = made.args
        elif container.name == "torch.nn.ModuleList":
            parts = [listed.elt] if isinstance(listed, ast.ListComp) else getattr(listed, "elts", [])
        elif container.name == "torch.nn.ModuleDict" and isinstance(listed, ast.Dict):
            parts = listed.values
        number = integer(place) if place is not None else None
        if number is not None and number < len(parts) and not any(isinstance(part, ast.Starred) for part in parts):
            parts = parts if isinstance(listed, ast.ListComp) else [parts[number]]
        values = [self.resolver.values(part) for part in parts]
        every = all(v.role is Role.MODEL for found in values for v in found)
        return self._together([list(found) for found in values]) if every else []

    def _grows(self, made: ast.Call) -> bool:
        """Whether something may be put into a container after it is made, in the variable that it is in."""
        parent = self.index.parents.get(made)
        names = [ast.dump(target) for target in parent.targets] if isinstance(parent, ast.Assign) else []
        stores = [name.replace("Store()", "Load()") for name in names]
        calls = (call.func for method in _GROWS for call in self.index.methods.get(method, []))
        return any(isinstance(func, ast.Attribute) and ast.dump(func.value) in stores for func in calls)


def _is_own(binding: Binding) -> bool:
    """Whether an attribute is set by a method of its object."""
    target = binding.node
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
