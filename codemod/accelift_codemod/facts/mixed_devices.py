"""Variables that hold the number of a GPU, or else the name of a device: `where = 0 if torch.cuda.is_available() else
"cpu"`. They are devices as long as nothing takes the number for one."""

from __future__ import annotations

import ast
import re

from accelift_codemod.facts.index import FUNCTIONS, Scope
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.showing import is_shown

_MOVES = frozenset({"to", "cuda", "to_empty"})
_PLACES = frozenset({"device", "map_location"})
# Functions of torch that take a device by its place; others that take a number take it for one.
_TAKE_DEVICES = re.compile(
    r"torch\.(device|load|set_default_device|cuda\.(device|set_device|synchronize|mem_get_info|utilization|"
    r"current_stream|default_stream|(get_device|memory|max_memory|reset)_\w+))"
)


class MixedDevices:
    """Tells of variables whether everything that reads them wants to know where things are to be."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self._asked: dict[tuple[Scope, str], bool] = {}

    def are_devices(self, choice: ast.expr) -> bool:
        """Whether a choice of a number or a name only says where things are to be, where it is made or in the variable
        that it is assigned to."""
        parent = self.index.parents.get(choice)
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            return self.is_read_so(parent.targets[0])
        return self._takes(choice)

    def is_read_so(self, target: ast.AST) -> bool:
        """The same of what a statement binds."""
        owner = self.index.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
        return owner is not None and isinstance(target, ast.Name) and self._variable(owner, target.id)

    def _variable(self, owner: Scope, name: str) -> bool:
        if (owner, name) not in self._asked:
            self._asked[owner, name] = True  # of those that lead back to it, too
            reads = [n for s in self.index.scopes.values() for n in s.loads.get(name, ()) if s.owner(name) is owner]
            self._asked[owner, name] = all(map(self._takes, reads))
        return self._asked[owner, name]

    def _takes(self, read: ast.expr) -> bool:
        parent = self.index.parents[read]
        if isinstance(parent, ast.keyword):
            call = self.index.parents[parent]
            return parent.arg in _PLACES or (isinstance(call, ast.Call) and self._call_takes(call, read))
        if isinstance(parent, ast.Call):
            return read is not parent.func and self._call_takes(parent, read)
        if isinstance(parent, ast.FormattedValue):
            around = [n for n in self.index.ancestors(parent) if isinstance(n, ast.Call)]
            return any(is_shown(self.resolver, call) for call in around)
        if isinstance(parent, ast.Compare):
            others = [n for n in (parent.left, *parent.comparators) if n is not read]
            return all(isinstance(n, ast.Constant) and n.value in ("cpu", None) for n in others)
        return False

    def _call_takes(self, call: ast.Call, read: ast.expr) -> bool:
        callee = self.resolver.callee(call)
        if isinstance(callee, FUNCTIONS):
            bound = self.resolver.bind(call, callee) or {}
            names = [name for name, value in bound.items() if value is read]
            return bool(names) and all(self._variable(self.index.scopes[callee], name) for name in names)
        moves = isinstance(call.func, ast.Attribute) and call.func.attr in _MOVES
        takes = _TAKE_DEVICES.fullmatch(self.resolver.qualified(call.func) or "") is not None
        return moves or takes or is_shown(self.resolver, call)
