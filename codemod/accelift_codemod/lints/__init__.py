"""The lints of `accelift check`: what goes wrong on several processes in a script that uses Accelerate.

A lint is a class in one of the modules of this package. It reads a `World` (what is known of the script and its
processes) and yields findings; it changes nothing and is silent where it is not sure.
"""

from __future__ import annotations

import ast
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar

from accelift_codemod.facts.world import World
from accelift_codemod.members import members
from accelift_codemod.plan import Edit, Finding, Operation, Severity, Span


class Lint(ABC):
    """One kind of mistake. The class's docstring is its documentation."""

    code: ClassVar[str]
    severity: ClassVar[Severity]
    title: ClassVar[str]
    library: ClassVar[str] = ""  # the only library that has the fault: "accelerate" or "accelift"
    wrong: ClassVar[str]
    right: ClassVar[str]
    fixed: ClassVar[str] = ""  # where `accelift check --fix` sets it right

    @abstractmethod
    def check(self, world: World) -> Iterator[Finding]:
        """Yield what goes wrong."""

    def edit(self, world: World, node: ast.AST, operation: Operation, code: str) -> Edit:
        """A change of a node that sets right what was found."""
        written = world.facts.original(node)
        return Edit(self.code, Span.of(written), operation, self.title, code, node=written)

    @classmethod
    def text(cls) -> str:
        """The documentation, as one paragraph."""
        return " ".join(inspect.cleandoc(cls.__doc__ or "").split())


@lru_cache(maxsize=1)
def all_lints() -> tuple[Lint, ...]:
    """Every lint, by code."""
    found = members(__name__, Lint)  # type: ignore[type-abstract]
    return tuple(sorted(found, key=lambda lint: lint.code))
