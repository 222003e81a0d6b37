"""Methods that nothing calls."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cached_property

from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk


class Idle:
    """Tells them: nothing in a script asks an object for them by their name, and no library can know of them, as the
    bases of their class are none of a library's."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.index = resolver.index

    def lines(self, lines: Iterable[int]) -> set[int]:
        """Of some lines, those in such methods."""
        ordered, found = sorted(set(lines)), set[int]()
        for method in self.index.functions if ordered else ():
            if isinstance(method, FUNCTIONS):
                end = method.end_lineno or method.lineno
                inside = ordered[bisect_left(ordered, method.lineno) : bisect_right(ordered, end)]
                if not found.issuperset(inside) and self.is_idle(method):
                    found.update(inside)
        return found

    def is_idle(self, method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Whether a function is such a method."""
        cls = self.index.parents.get(method)
        if not isinstance(cls, ast.ClassDef) or method.decorator_list or method.name.startswith("__"):
            return False
        if not self.is_own(cls):
            return False
        asked = (a for a in self.index.attributes.get(method.name, []) if self.resolver.qualified(a) is None)
        return next(asked, None) is None and method.name not in self._spelled

    def is_own(self, cls: ast.ClassDef) -> bool:
        """Whether no library can know of the methods of a class: all that it is derived from is the script's."""
        return all(isinstance(base, ast.Name) and base.id in self._classes for base in cls.bases)

    @cached_property
    def _classes(self) -> set[str]:
        return {c.name for c in self.index.classes} | {"object"}

    @cached_property
    def _spelled(self) -> set[str]:
        """What a script has in strings, by which it may ask for a method, and what it asks its objects for."""
        texts = {n.value for n in walk(self.index.tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        loads = (name for scope in self.index.scopes.values() for name in scope.loads)
        return texts | {name.removeprefix("self.") for name in loads if name.startswith("self.")}
