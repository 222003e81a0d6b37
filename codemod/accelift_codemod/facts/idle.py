"""Methods and functions that nothing calls, or nothing but what runs on one process."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import cached_property

from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk

# Bases of which it is known what they have: what else a class has, no library asks for.
_BASES = frozenset({"torch.nn.Module", "torch.utils.data.Dataset"})
_OF_BASES = frozenset(
    "forward extra_repr train eval state_dict load_state_dict parameters named_parameters children named_children "
    "modules named_modules buffers named_buffers apply to cuda cpu xpu float double half bfloat16 type to_empty "
    "zero_grad requires_grad_ share_memory compile add_module get_extra_state set_extra_state".split()
)


class Idle:
    """Tells them: nothing in a script asks an object for them by their name, and no library can know of them, as the
    bases of their class are none of a library's, or have nothing of that name. `apart` says of what is asked that it is
    asked on one process only."""

    def __init__(self, resolver: Resolver, apart: Callable[[ast.AST], bool] = lambda _: False) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self._apart = apart

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
        if not self.is_own(cls) and not self._is_apart_from_bases(cls, method.name):
            return False
        asked = (a for a in self.index.attributes.get(method.name, []) if self.resolver.qualified(a) is None)
        return all(map(self._apart, asked)) and method.name not in self._spelled

    def _is_apart_from_bases(self, cls: ast.ClassDef, name: str) -> bool:
        """Whether a class is derived from nothing but what is known, and that has no method of this name."""
        bases = (self.resolver.qualified(base) for base in cls.bases)
        return (
            all(base in _BASES for base in bases) and name not in _OF_BASES and not name.startswith(("_", "register"))
        )

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
