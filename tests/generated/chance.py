"""Choices that a seed decides, and pieces of code with names left open."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

T = TypeVar("T")

_OPEN = re.compile(r"\$(\w+)")


class Chance:
    """The choices of one script. They are remembered, so that a script can be described by what it has."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.traits: list[str] = []

    def of(self, *options: T) -> T:
        """One of the options."""
        return self._random.choice(options)

    def maybe(self, odds: float = 0.5) -> bool:
        """Whether something is to be."""
        return self._random.random() < odds

    def named(self, question: str, options: Mapping[str, T], weights: Mapping[str, int] | None = None) -> T:
        """One of the options, whose name is kept as a trait of the script."""
        names = list(options)
        chosen = self._random.choices(names, [(weights or {}).get(name, 1) for name in names])[0]
        self.traits.append(f"{question}={chosen}")
        return options[chosen]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in another order."""
        return self._random.sample(items, len(items))


@dataclass(frozen=True)
class Stage:
    """A part of a script that may be written in place, or become a function or a method.

    The code writes variables as `$name`: what they are called is decided later.

    Attributes:
        name: what its function would be called.
        code: its statements.
        binds: the variables that later stages read.
        updates: variables of earlier stages that it binds anew.
        decorator: what its function may be decorated with; `code` then does without.
        inline: it can only stand in place (it breaks out of the loop, for instance).
    """

    name: str
    code: str
    binds: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    decorator: str = ""
    inline: bool = False

    @property
    def mentioned(self) -> list[str]:
        """The variables in its code, in the order of their first mention."""
        return list(dict.fromkeys(_OPEN.findall(self.code)))


def filled(code: str, names: Mapping[str, str]) -> str:
    """Code with its variables called by their names."""
    return _OPEN.sub(lambda found: names.get(found[1], found[1]), code)


def block(*parts: str, depth: int = 0) -> str:
    """Pieces of code one below the other, indented; empty ones leave nothing."""
    lines = [part.strip("\n") for part in parts]
    return textwrap.indent("\n".join(line for line in lines if line), "    " * depth)
