"""The extents of expressions and of the variables in them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

from accelift_codemod.facts.extents.data import Data
from accelift_codemod.facts.extents.functions import Functions
from accelift_codemod.facts.extents.networks import Networks
from accelift_codemod.facts.extents.sizes import NUMBER, Extent, alike, broadcast, stacked
from accelift_codemod.facts.extents.subscripts import Subscripts
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How
from accelift_codemod.facts.layout import settled
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.objects import Objects
from accelift_codemod.facts.values import Role

Path: TypeAlias = "tuple[int | str | None, ...]"
_MOST_STEPS = 60


class Extents:
    """Answers that, and says nothing where it is not known."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.resolver = objects.resolver
        self.index = objects.index
        self.networks = Networks(self)
        self.data = Data(self)
        self.functions = Functions(self)
        self.subscripts = Subscripts(self)
        self._known: dict[tuple[ast.AST, Path], Extent | None] = {}
        self._numbers: dict[ast.AST, int | None] = {}
        self._asked: set[object] = set()

    def crossed(self, left: ast.expr, right: ast.expr) -> bool:
        """Whether an elementwise operation surely sets every row of one tensor against every row of the other."""
        one, other = self.of(left), self.of(right)
        if one is None or other is None:
            return False
        return (one.flat and other.column) or (one.column and other.flat)

    def of(self, node: ast.expr | None) -> Extent | None:
        """The extent of an expression; None if it is not known."""
        return self.at(node, ())

    def at(self, node: ast.expr | None, path: Path) -> Extent | None:
        """The extent of what is at a place in what an expression gives."""
        if node is None:
            return None
        if (node, path) not in self._known:
            self._known[node, path] = self.once((node, path), lambda: self._at(node, path))
        return self._known[node, path]

    def once(self, asked: object, answer: Callable[[], Extent | None]) -> Extent | None:
        """An answer that does not depend on itself; what does is not known."""
        if asked in self._asked or len(self._asked) > _MOST_STEPS:
            return None
        self._asked.add(asked)
        try:
            return answer()
        finally:
            self._asked.remove(asked)

    def _at(self, node: ast.expr, path: Path) -> Extent | None:
        if isinstance(node, ast.Name):
            bindings = self.resolver.bindings(node)
            if len(bindings) > 1:  # `if self.transform:` may never be so
                bindings = [b for b in bindings if settled.may_run(self.resolver, b.node)]
            return alike(self.bound(b, path) for b in bindings)
        if isinstance(node, (ast.Tuple, ast.List)):
            return self._listed(node, path)
        if isinstance(node, ast.Dict):
            found = [v for k, v in zip(node.keys, node.values, strict=True) if _is_key(k, path)]
            return self.at(found[0], path[1:]) if len(found) == 1 else None
        if isinstance(node, ast.IfExp):
            return alike([self.at(node.body, path), self.at(node.orelse, path)])
        if isinstance(node, ast.Call):
            return self.functions.call(node, path)
        if isinstance(node, ast.Subscript):
            return self.subscripts.of(node, path)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, path)
        return self._computed(node) if not path else None

    def _computed(self, node: ast.expr) -> Extent | None:
        if isinstance(node, ast.Constant):
            return NUMBER if isinstance(node.value, (int, float)) else None
        if isinstance(node, ast.UnaryOp):
            return self.of(node.operand)
        if isinstance(node, ast.BinOp):
            return None if isinstance(node.op, ast.MatMult) else broadcast(self.of(node.left), self.of(node.right))
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            return broadcast(self.of(node.left), self.of(node.comparators[0]))
        if isinstance(node, ast.ListComp) and len(node.generators) == 1:
            return stacked(self.of(node.elt))
        return None

    def _listed(self, node: ast.Tuple | ast.List, path: Path) -> Extent | None:
        if any(isinstance(e, ast.Starred) for e in node.elts):
            return None
        if path:
            place = path[0]
            inside = isinstance(place, int) and -len(node.elts) <= place < len(node.elts)
            return self.at(node.elts[place], path[1:]) if inside else None  # type: ignore[index]
        element = alike([self.of(e) for e in node.elts])
        if element is None or element.deeper or element.table:
            return None
        return Extent((len(node.elts), *element.sizes))

    # ---- variables

    def bound(self, binding: Binding, path: Path) -> Extent | None:
        """The extent of what a binding gives its name."""
        if binding.how is How.ASSIGN:
            value = binding.value
            if isinstance(value, ast.List) and not value.elts and not binding.path:
                return self._filled(binding) if not path else None
            return self.at(value, (*binding.path, *path))
        if binding.how is How.LOOP and binding.value is not None:
            return self.data.element(binding.value, (*binding.path, *path))
        if binding.how is How.PARAMETER:
            return self.parameter(binding, lambda given: self.at(given, path))
        return None

    def parameter(self, binding: Binding, asked: Callable[[ast.expr | None], Extent | None]) -> Extent | None:
        """What is so of a parameter in every call of its function."""
        function = self.index.parents[self.index.parents[binding.node]]
        if isinstance(function, ast.Lambda):
            return alike([asked(given) for given in self.resolver.handed(binding)])
        if not isinstance(function, FUNCTIONS):
            return None
        if self.takes_places(function):
            return NUMBER
        return alike([asked(given) for given in self.given(binding, function)])

    def given(self, binding: Binding, function: Function) -> list[ast.expr | None]:
        """What each call of its function gives a parameter; those of a network are calls of its forward pass."""
        owner = self.index.parents.get(function)
        if function.name != "forward" or not isinstance(owner, ast.ClassDef):
            return self.resolver.handed(binding)
        names = [p.arg for p in (*function.args.posonlyargs, *function.args.args)][1:]
        place = names.index(binding.name) if binding.name in names else None
        return [self.resolver.argument(c, place, binding.name) for c in self._calls.get(owner, ())]

    @cached_property
    def _calls(self) -> dict[ast.AST | None, list[ast.Call]]:
        """The calls of objects of a class."""
        found: dict[ast.AST | None, list[ast.Call]] = {}
        for call in self.index.calls:
            if not self.resolver.only(call.func, Role.CLASS):
                for owner in {v.declaration for v in self.resolver.values(call.func)}:
                    found.setdefault(owner, []).append(call)
        return found

    def takes_places(self, function: Function) -> bool:
        """Whether a function is what a data set is asked for a sample with: by a number."""
        owner = self.index.parents.get(function)
        return function.name == "__getitem__" and self.resolver.class_role(owner) is Role.DATASET

    def _filled(self, binding: Binding) -> Extent | None:
        """The extent of a list that begins empty, of what is appended to it."""
        appended = []
        for call in self.index.methods.get("append", []):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            if isinstance(receiver, ast.Name) and binding in self.resolver.bindings(receiver):
                appended.append(self.of(call.args[0]) if len(call.args) == 1 else None)
        others = (n for name in ("extend", "insert") for n in self.index.attributes.get(name, []))
        if any(isinstance(n.value, ast.Name) and binding in self.resolver.bindings(n.value) for n in others):
            return None
        return stacked(alike(appended))

    # ---- attributes

    def _attribute(self, node: ast.Attribute, path: Path) -> Extent | None:
        bindings = self.own(node)
        if bindings:
            return alike([self.bound(b, path) for b in bindings])
        return self.data.part(node) if not path else None

    def own(self, node: ast.Attribute) -> list[Binding]:
        """Where an attribute of self is set in its class and the bases of that."""
        cls = self.index.enclosing_class(node)
        bindings = self.resolver.bindings(node.value) if isinstance(node.value, ast.Name) else []
        if cls is None or len(bindings) != 1 or bindings[0].how is not How.PARAMETER:
            return []
        function = self.index.parents[self.index.parents[bindings[0].node]]
        if not isinstance(function, FUNCTIONS) or self.index.parents.get(function) is not cls:
            return []
        if bindings[0].node is not [*function.args.posonlyargs, *function.args.args][0]:
            return []
        classes = self.resolver.ancestry(cls)
        found = self.index.attribute_bindings.get(node.attr, [])
        return [b for b in found if b.how is not How.AUGMENT and self.index.enclosing_class(b.node) in classes]

    # ---- functions and numbers

    def returned(self, function: Function, path: Path) -> Extent | None:
        """The extent of what a function of the script returns."""
        return alike([self.at(r.value, path) for r in self.resolver.returns(function)])

    def number(self, node: ast.expr | None) -> int | None:
        """The whole number that an expression surely is."""
        if node is None:
            return None
        if node not in self._numbers:
            self._numbers[node] = None
            self._numbers[node] = self._number(node)
        return self._numbers[node]

    def _number(self, node: ast.expr) -> int | None:
        written = integer(node)
        if written is not None:
            return written
        if isinstance(node, ast.Attribute):
            bindings = self.own(node)
        else:
            bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        found: set[int | None] = set()
        for binding in bindings:
            if binding.how is How.PARAMETER:
                found |= {self.number(given) for given in self.resolver.handed(binding)} or {None}
            else:
                plain = binding.how is How.ASSIGN and not binding.path
                found.add(self.number(binding.value) if plain else None)
        return found.pop() if len(found) == 1 else None


def _is_key(key: ast.expr | None, path: Path) -> bool:
    return isinstance(key, ast.Constant) and bool(path) and key.value == path[0]
