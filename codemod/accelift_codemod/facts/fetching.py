"""What runs where samples are fetched: each process fetches its own, so that it says and writes what no other does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accelift_codemod.facts.accelerate import AccelerateResolver
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.ranks import Ranks
from accelift_codemod.facts.tree import walk

_GIVES = frozenset({"__getitem__", "__getitems__"})
_DATA = ("torch.utils.data.", "torchvision.datasets.", "torchaudio.datasets.")
_STEPS = 4  # of functions that call each other


class Fetching:
    """Reads whether a node only runs where a data set gives a sample, or samples are put together to a batch."""

    def __init__(self, resolver: AccelerateResolver, ranks: Ranks) -> None:
        self.resolver = resolver
        self.ranks = ranks
        self.index = resolver.index

    def at(self, node: ast.AST, steps: int = _STEPS) -> bool:
        """Whether a node is only come to where samples are fetched."""
        function = self.index.function(node)
        if not isinstance(function, FUNCTIONS):
            return False
        if function in self._collates or self._gives(function):
            return True
        sites = self.ranks.calls_of(function, node) if steps else []
        return bool(sites) and all(self.at(site, steps - 1) for site in sites)

    def _gives(self, function: Function) -> bool:
        """Whether a function is that of a data set which gives a sample."""
        cls = self.index.parents.get(function)
        if function.name not in _GIVES or not isinstance(cls, ast.ClassDef):
            return False
        bases = [self.resolver.qualified(b) or "" for c in self.resolver.ancestry(cls) for b in c.bases]
        return any(base.startswith(_DATA) for base in bases) or self.resolver.method(cls, "__len__") is not None

    @cached_property
    def _collates(self) -> set[ast.AST]:
        """The functions that a loader is given to put samples together: by themselves, in `partial`, or as objects."""
        found: set[ast.AST] = set()
        for given in self._given():
            for node in walk(given):
                if isinstance(node, ast.Name):
                    found |= {b.node for b in self.resolver.bindings(node) if isinstance(b.node, FUNCTIONS)}
            for value in self.resolver.values(given):
                called = self.resolver.method(value.declaration, "__call__")
                found |= {called} if called is not None else set()
        return found

    def _given(self) -> Iterator[ast.expr]:
        for call in self.index.calls:
            yield from (k.value for k in call.keywords if k.arg == "collate_fn")
        for attribute in self.index.attributes.get("collate_fn", []):
            statement = self.index.parents.get(attribute)
            if isinstance(statement, ast.Assign) and attribute in statement.targets:
                yield statement.value
