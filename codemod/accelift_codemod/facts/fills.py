"""Containers that are filled entry by entry: `loaders["train"] = ...`, `optimizers.append(...)`."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from accelift_codemod.facts.index import Index, position

# Methods that change what is in a list or dict.
_CHANGING = frozenset("append extend insert remove pop popitem clear update setdefault sort reverse".split())


@dataclass(frozen=True)
class Fill:
    """One entry that is put into a container."""

    node: ast.expr  # the subscript that is assigned to, or the call of `append`
    value: ast.expr
    key: ast.expr | None  # None: at the end of a list
    path: tuple[int, ...] = ()  # through the unpacking of the value


@dataclass
class Fills:
    """What is put into the container in a variable, in source order, where it goes by that name."""

    entries: list[Fill] = field(default_factory=list)
    others: list[ast.expr] = field(default_factory=list)  # what changes it in other ways

    @property
    def otherwise(self) -> bool:
        """Whether it is changed in other ways, too."""
        return bool(self.others)

    @cached_property
    def keys(self) -> frozenset[object]:
        """The keys that are written out."""
        return frozenset(entry.key.value for entry in self.entries if isinstance(entry.key, ast.Constant))

    @cached_property
    def anywhere(self) -> bool:
        """Whether an entry has no key that is written out."""
        return not all(isinstance(entry.key, ast.Constant) for entry in self.entries)


def find(index: Index, loads: Iterable[ast.Name | ast.Attribute]) -> Fills:
    """What reads of a variable, or of an attribute, put into the container that it is."""
    found = Fills()
    for load in sorted(loads, key=position):
        parent = index.parents.get(load)
        if isinstance(parent, ast.Subscript):
            if parent.value is load and not isinstance(parent.ctx, ast.Load):
                if not _assigned(index, parent, found.entries):
                    found.others.append(parent)
            continue
        call = index.parents.get(parent) if isinstance(parent, ast.Attribute) else None
        if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
            if parent.attr == "append" and len(call.args) == 1 and isinstance(index.parents[call], ast.Expr):
                found.entries.append(Fill(call, call.args[0], None))
            elif parent.attr in _CHANGING:
                found.others.append(call)
    return found


def _assigned(index: Index, target: ast.Subscript, entries: list[Fill]) -> bool:
    """Note the entry that an assignment makes; whether that is what changes it."""
    outer = index.parents[target]
    if isinstance(outer, ast.Assign):
        entries.append(Fill(target, outer.value, target.slice))
        return True
    statement = index.parents[outer] if isinstance(outer, (ast.Tuple, ast.List)) else None
    if not isinstance(statement, ast.Assign) or any(isinstance(e, ast.Starred) for e in outer.elts):  # type: ignore[attr-defined]
        return False
    place = outer.elts.index(target)  # type: ignore[attr-defined]
    entries.append(Fill(target, statement.value, target.slice, (place,)))
    return True
