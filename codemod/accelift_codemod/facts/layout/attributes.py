"""What an expression takes of another one by name: entries of objects, properties, shapes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.layout import made_objects
from accelift_codemod.facts.layout.algebra import (
    FIXED,
    SCALARS,
    Environment,
    Frame,
    Layout,
    Record,
    Shape,
    item,
    tensor,
)
from accelift_codemod.facts.layout.arithmetic import ALTERED, altered

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts

_FIELDS = ("values", "indices")  # of what torch's functions return that tell the greatest
_OF_TENSORS = frozenset({"shape", "T", "mT", "data", "device", "dtype"})


class Attributes:
    """Reads attributes on layouts."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts
        self.resolver = layouts.resolver

    def _is_of_network(self, node: ast.Attribute) -> bool:
        """Whether an attribute is one that a network which trains itself has from its constructor, and keeps."""
        trained, index = self.resolver.self_trained, self.layouts.index
        bound = [b.node for b in index.attribute_bindings.get(node.attr, [])]
        own = [n for n in bound if index.enclosing_class(n) in trained]
        others = (n.value for n in bound if n not in own and isinstance(n, ast.Attribute))
        made = all(index.function(n) is self.resolver.constructor(index.enclosing_class(n)) for n in own)  # type: ignore[arg-type]
        return bool(own) and made and not any(v.declaration in trained for o in others for v in self.resolver.values(o))

    def read(self, node: ast.Attribute, env: Environment, frame: Frame) -> Shape:
        """The layout of `base.name`."""
        if node in self.layouts.hooked:
            return self.layouts.by_hooks(node)
        if isinstance(node.value, ast.Name) and node.value.id == "self" and frame.owner is not None:
            this = env.get("self")  # what this pass has set, or else the network's own
            if isinstance(this, Record):
                if node.attr in this.names:
                    return this.entry(node.attr)
                found = self._computed(frame.owner, node.attr, this)
                return Layout.CONST if found in (None, Layout.UNKNOWN) else found
            return env.get(f"self.{node.attr}", Layout.CONST)
        if any(v.declaration in self.resolver.followed for v in self.resolver.values(node.value)):
            return Layout.CONST if self._is_of_network(node) else Layout.UNKNOWN
        base = self.layouts.read(node.value, env, frame)
        if self.layouts.modules.left and base in FIXED:
            base = self.layouts.modules.kept(self.layouts.objects.models(node.value)) or base
            if isinstance(base, Record) and node.attr not in base.names:
                return Layout.CONST
        if isinstance(base, Record):
            owners = {v.declaration for v in self.resolver.values(node.value)} if node.attr not in base.names else ()
            found = self._computed(next(iter(owners)), node.attr, base) if len(owners) == 1 else None
            return base.entry(node.attr) if found is None else found
        if isinstance(base, tuple) and node.attr in _FIELDS:
            return item(base, _FIELDS.index(node.attr))
        if node.attr in _OF_TENSORS:
            base = tensor(base)
        if base in (Layout.MIXED, Layout.SHIFTED):
            return Layout.CONST if node.attr == "shape" else Layout.MIXED
        if base is Layout.UNSURE:
            return Layout.UNKNOWN if node.attr == "shape" else base
        if base is Layout.PACKED:
            return Layout.PICKED if node.attr == "data" else Layout.UNKNOWN
        if base is Layout.PICKED and node.attr not in ("T", "mT"):
            return altered([base], lambda parts: self._part(node.attr, parts[0]))
        if node.attr in ("T", "mT") and base in (Layout.ROWS, *ALTERED, Layout.COLUMNS):
            return Layout.ROWS if base is Layout.COLUMNS else Layout.COLUMNS
        if base is Layout.ROWS:
            return self._part(node.attr, base)
        if base in SCALARS:
            return base if node.attr == "data" else Layout.CONST if node.attr == "shape" else _flag(node.attr)
        return base if base in FIXED else _flag(node.attr)

    def _computed(self, cls: ast.AST | None, name: str, this: Record) -> Shape | None:
        """What a property of an object is; None if an attribute is none."""
        method = made_objects.computed(self.resolver, cls, name)
        owner = cls if isinstance(cls, ast.ClassDef) else None
        return None if method is None else self.layouts.modules.function(method, {"self": this}, owner)

    def _part(self, name: str, rows: Shape) -> Shape:
        """An attribute of a sample-first tensor."""
        return Layout.SHAPE if name == "shape" else rows if name in ("data", "grad", "real") else _flag(name)


def _flag(name: str) -> Shape:
    return Layout.CONST if name in ("device", "dtype", "is_cuda", "ndim", "requires_grad") else Layout.UNKNOWN
