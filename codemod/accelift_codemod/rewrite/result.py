"""What a rewrite gives, or why it cannot."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field


class CannotRewrite(Exception):
    """An edit that cannot be applied: a fault of the tool, or code laid out in an unforeseen way."""


@dataclass(frozen=True)
class Change:
    """Original lines `start` to `end` (from 0, end excluded) replaced by new ones."""

    start: int
    end: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Rewritten:
    """The outcome of a rewrite: the text and where it differs."""

    text: str
    changes: tuple[Change, ...]
    regions: tuple[Change, ...]  # the changes with the lines in them that are the same before and after
    edited: frozenset[ast.AST] = frozenset()  # the author's statements that edits change or remove
    headers: Mapping[ast.AST, int] = field(default_factory=dict)  # how many each of the author's statements has got
    without: tuple[str, ...] = ()  # comments that go with the statements that they are about
    bared: frozenset[ast.AST] = frozenset()  # those of `edited` of which only what was under their header is left
