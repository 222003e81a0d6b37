"""What iterating over values, subscripting them and computing with them yields."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from accelift_codemod.facts.index import Index
from accelift_codemod.facts.supposed import passed_by
from accelift_codemod.facts.values import Role, Value, Values

MAX_VALUES = 64  # an expression that may be more things than this is as good as unknown
MAX_NESTING = 3
MAX_SIZE = 300  # of a value; containers of containers without end are what a recursive function makes
PASSES = frozenset({Role.ITERATOR, Role.ENUMERATE, Role.ZIP})  # over something else
MEMBERS = ".__dict__"  # of a library's module, by name
BATCH_LIKE = frozenset({Role.BATCH, Role.DATA})


def element(values: Values) -> Values:
    """What iterating over the values yields."""
    found: list[Value] = []
    for value in values:
        if value.role is Role.LOADER:
            found.append(Value(Role.BATCH, value.origin, inner=((value,),)))
        elif value.role is Role.ENUMERATE:
            found.append(Value(Role.TUPLE, value.origin, inner=((), element(value.inner[0]))))
        elif value.role is Role.ZIP:
            found.append(Value(Role.TUPLE, value.origin, inner=tuple(element(v) for v in value.inner)))
        elif value.role is Role.ITERATOR:  # of some, what they hand on of each element is told
            found += value.inner[1] if len(value.inner) > 1 else element(value.inner[0])
        elif value.role in (Role.SEQUENCE, Role.TUPLE):
            found += (v for inner in value.inner for v in inner)
        elif value.role is Role.BATCH:
            found.append(Value(Role.BATCH, value.origin, part(value.name, "*"), value.inner))
        elif value.role is Role.DATA:
            found.append(value)
        elif value.role is Role.OBJECT:
            found.append(Value(Role.OBJECT, value.origin, part(value.name, "*")))
    return unique(found)


def of_entry(
    values: Values, within: ast.AST | None, asked: ast.expr | None, keys: Values, key: object, index: Index
) -> Values:
    """What an entry of a dict may be that a loop over several keys fills, each of which is `asked` in it: loaders made
    `within` it are others for each key, which is written there."""
    values = tuple(v for v in values if not passed_by(index, _made(v), within, asked, key))
    written = [k.origin for k in keys if k.role is Role.CONSTANT and k.keys == (key,)]
    if within is None or len(keys) < 2 or len(written) != 1:
        return values
    return of_element(values, within, written[0], index)


def _made(value: Value) -> ast.AST:
    """Where a value is made, as seen from what it is made for."""
    return value.sites[0] if value.sites else value.origin


def of_element(values: Values, within: ast.AST, element: ast.AST, index: Index) -> Values:
    """What is made for one element that a loop, or a comprehension, goes through: loaders made `within` it are others
    for each."""
    found: list[Value] = []
    for value in values:
        anew = value.role is Role.LOADER and within in index.ancestors(_made(value))
        found.append(replace(value, sites=(element, *value.sites)) if anew else value)
    return tuple(found)


def item(values: Values, key: object) -> Values:
    """What subscripting (or unpacking at a place) yields."""
    found: list[Value] = []
    for value in values:
        if value.role is Role.TUPLE:
            if isinstance(key, int) and not isinstance(key, bool) and -len(value.inner) <= key < len(value.inner):
                found += value.inner[key]
            elif not isinstance(key, int):
                found += (v for inner in value.inner for v in inner)
        elif value.role is Role.SEQUENCE:
            found += value.inner[0]
        elif value.role is Role.DICT:
            for k, inner in zip(value.keys, value.inner, strict=False):
                if k is None or key is None or k == key:
                    found += inner
        elif value.role is Role.LIBRARY and value.name.endswith(MEMBERS):  # one that is not known is one of them: `.*`
            name = key if isinstance(key, str) else "*"
            found.append(Value(Role.LIBRARY, value.origin, f"{value.name.removesuffix(MEMBERS)}.{name}"))
        elif value.role is Role.BATCH:
            found.append(Value(Role.BATCH, value.origin, part(value.name, key), value.inner))
        elif value.role is Role.DATA:
            found.append(value)
        elif value.role is Role.OBJECT:
            found.append(Value(Role.OBJECT, value.origin, part(value.name, key)))
        elif value.role is Role.PARAMETERS:
            found.append(value)
    return unique(found)


def as_data(node: ast.AST, value: Value) -> Value:
    return Value(Role.DATA, node, inner=value.inner)


def data(node: ast.AST, values: Iterable[Value]) -> Values:
    """A tensor computed from those of the values that come from batches."""
    loaders = unique(v for value in values if value.role in BATCH_LIKE for part in value.inner for v in part)
    return (Value(Role.DATA, node, inner=(loaders,)),) if loaders else ()


def alike(node: ast.AST, values: Iterable[Value], library: str) -> Values:
    """What an expression makes of objects of a library, which is one of their kind."""
    return unique(replace(v, origin=node) for v in values if v.role is Role.OBJECT and v.name.startswith(library))


def bounded(values: Iterable[Value], node: ast.AST) -> Values:
    """What an expression may be; of what is made of too many values only that it is an object."""
    found = tuple(values)
    return unique(v if v.size <= MAX_SIZE else Value(Role.OBJECT, node) for v in found) if found else ()


def unique(values: Iterable[Value]) -> Values:
    found = tuple(values)
    if len(found) > 1:
        found = tuple(dict.fromkeys(found))
    return found if len(found) <= MAX_VALUES else ()


def part(name: str, key: object) -> str:
    """The name of a part of an object; deep inside, parts are not told apart any more."""
    return name if name.count("[") >= MAX_NESTING else f"{name}[{key!r}]"
