"""The lints of `accelift check`: what goes wrong on several processes in a script that uses Accelerate.

A lint is a class in one of the modules of this package. It reads a `World` (what is known of the script and its
processes) and yields findings; it changes nothing and is silent where it is not sure.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar

from accelift_codemod.facts.world import World
from accelift_codemod.members import members
from accelift_codemod.plan import Finding, Severity


class Lint(ABC):
    """One kind of mistake. The class's docstring is its documentation."""

    code: ClassVar[str]
    severity: ClassVar[Severity]
    title: ClassVar[str]
    library: ClassVar[str] = ""  # the only library that has the fault: "accelerate" or "accelift"
    wrong: ClassVar[str]
    right: ClassVar[str]

    @abstractmethod
    def check(self, world: World) -> Iterator[Finding]:
        """Yield what goes wrong."""

    @classmethod
    def text(cls) -> str:
        """The documentation, as one paragraph."""
        return " ".join(inspect.cleandoc(cls.__doc__ or "").split())


@lru_cache(maxsize=1)
def all_lints() -> tuple[Lint, ...]:
    """Every lint, by code."""
    found = members(__name__, Lint)  # type: ignore[type-abstract]
    return tuple(sorted(found, key=lambda lint: lint.code))
