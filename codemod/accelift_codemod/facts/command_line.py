"""The options of a script's command line."""

from __future__ import annotations

import ast
from functools import cached_property

from accelift_codemod.facts.resolve import Resolver


class CommandLine:
    """Finds the options that a script's argument parser is told of."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    @cached_property
    def calls(self) -> frozenset[ast.AST]:
        """The `add_argument` calls."""
        return frozenset(self.resolver.index.methods.get("add_argument", []))

    @cached_property
    def options(self) -> dict[str, ast.Call]:
        """`add_argument` calls by destination."""
        found = {}
        for call in self.resolver.index.methods.get("add_argument", []):
            flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            destination = self.resolver.argument(call, None, "dest")
            if isinstance(destination, ast.Constant):
                found[str(destination.value)] = call
            elif flags:
                name = next((f for f in flags if f.startswith("--")), flags[0])
                found[name.lstrip("-").replace("-", "_")] = call
        return found
