"""The rules: one module each, found by looking into this package.

A rule reads the draft (facts and shared decisions) and yields edits and findings; it touches no code. Rules
whose `closing` is set run after the others and see what those have yielded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from accelift_codemod.draft import Draft
from accelift_codemod.members import members
from accelift_codemod.plan import Assumption, Edit, Finding, Severity


@dataclass(frozen=True)
class Explained:
    """A finding that a rule may report, for `accelift rule` and the documentation."""

    code: str
    severity: Severity
    title: str
    text: str


class Rule(ABC):
    """One kind of change. The class's docstring is its documentation."""

    code: ClassVar[str]
    name: ClassVar[str]
    assumptions: ClassVar[tuple[Assumption, ...]] = ()  # what some of its edits take for granted
    required: ClassVar[bool] = False  # part of every conversion: cannot be ignored
    closing: ClassVar[int] = 0  # 0: an ordinary rule; else its place among the closing ones
    always: ClassVar[bool] = False  # also for scripts that distribute themselves, and decide who prints and saves
    before: ClassVar[str] = ""
    after: ClassVar[str] = ""
    findings: ClassVar[tuple[Explained, ...]] = ()

    @abstractmethod
    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        """Yield what to change and what to tell."""


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    """Every rule: ordinary ones by code, then the closing ones in their order."""
    found = members(__name__, Rule)  # type: ignore[type-abstract]
    return tuple(sorted(found, key=lambda r: (r.closing, r.code)))
