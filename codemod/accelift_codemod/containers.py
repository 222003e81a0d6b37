"""Loaders in dicts and lists: which containers hold an object, and how its places there are written."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import Facts, Role, Scope
from accelift_codemod.facts.objects import Key, key
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Value, Values

_CONTAINERS = frozenset({Role.DICT, Role.TUPLE, Role.SEQUENCE, Role.ENUMERATE, Role.ZIP, Role.ITERATOR})


def holds(values: Values, one: Key) -> bool:
    """Whether one of the values is an object, or may have it inside."""
    return any(key(v) == one or (v.role in _CONTAINERS and any(holds(part, one) for part in v.inner)) for v in values)


def holds_some(values: Values, role: Role) -> bool:
    """Whether one of the values has a role, or may have something of that role inside."""
    return any(
        v.role is role or (v.role in _CONTAINERS and any(holds_some(part, role) for part in v.inner)) for v in values
    )


def places(facts: Facts, scope: Scope, name: str, values: Values, one: Key) -> tuple[str, ...] | None:
    """The expressions that are the object, or the entries of the containers that a variable may be.

    None if they cannot be assigned to one by one.
    """
    found: dict[str, None] = {}
    for value in values:
        if key(value) == one:
            found.setdefault(name)
        elif holds((value,), one):
            if facts.resolver.changed(scope, name):
                return None  # what else is in it is not known
            entries = list(_entries(facts, value, one))
            if not entries or None in entries:
                return None
            found.update(dict.fromkeys(f"{name}[{entry}]" for entry in entries))
    return tuple(found)


def replaceable(facts: Facts, scope: Scope, name: str) -> bool:
    """Whether every loader that a variable is, or has inside, can be assigned to by itself."""
    values = tuple(v for b in scope.bindings[name] for v in facts.resolver.bound(b))
    return all(places(facts, scope, name, values, one) is not None for one in _loaders(values))


def _loaders(values: Values) -> Iterator[Key]:
    for value in values:
        if value.role is Role.LOADER:
            yield key(value)
        elif value.role in _CONTAINERS:
            for part in value.inner:
                yield from _loaders(part)


def _entries(facts: Facts, container: Value, one: Key) -> Iterator[str | None]:
    """How the entries of a container that are the object are called; None if it has others than loaders."""
    for i, inner in enumerate(container.inner):
        if not inner or any(v.role is not Role.LOADER for v in inner):
            yield None
        if not holds(inner, one):
            continue
        if any(key(v) != one for v in inner) or isinstance(container.origin, ast.Tuple):
            yield None  # it may be something else, or is in a container itself; a tuple stays as it is
        elif container.role is Role.DICT:
            yield _spelled(facts, container.origin, container.keys[i])
        else:
            yield str(i) if container.role is Role.TUPLE else None


def _spelled(facts: Facts, node: ast.AST, wanted: object) -> str | None:
    """How a dict's own expression writes one of its keys, or how Python does."""
    if not isinstance(wanted, (str, int)):
        return None
    constants = (n for n in walk(node) if isinstance(n, ast.Constant))
    return next((facts.segment(n) for n in constants if n.value == wanted), repr(wanted))
