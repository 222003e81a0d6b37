"""Methods that nothing calls."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk


def is_idle(resolver: Resolver, method: ast.AST) -> bool:
    """Whether nothing in a script asks an object for a method by its name, and no library can know of it: the bases of
    its class are none of a library's."""
    index = resolver.index
    cls = index.parents.get(method)
    if not isinstance(method, FUNCTIONS) or not isinstance(cls, ast.ClassDef):
        return False
    known = {c.name for c in index.classes} | {"object"}
    if not all(isinstance(base, ast.Name) and base.id in known for base in cls.bases) or method.decorator_list:
        return False
    asked = (a for a in index.attributes.get(method.name, []) if resolver.qualified(a) is None)
    if method.name.startswith("__") or next(asked, None) is not None:
        return False
    texts = (n.value for n in walk(index.tree) if isinstance(n, ast.Constant))
    return method.name not in texts and not any(f"self.{method.name}" in s.loads for s in index.scopes.values())
