"""Dicts and lists whose entries are known: what is asked of them, and what becomes of them, under all their names.

A record stands for one dict, by its identity: what changes the dict puts another record in its place, wherever an
environment has it. So it is with lists.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from accelift_codemod.facts.layout.algebra import SOME, Environment, Layout, Listed, Record, Shape, element, join
from accelift_codemod.facts.layout.products import integer

_MET = (Layout.MIXED, Layout.SHIFTED)
_REORDERS = frozenset("insert remove clear sort reverse pop".split())
_CHANGES = frozenset("pop popitem clear setdefault update".split())


def asked(record: Record, name: str, call: ast.Call, arguments: list[Shape]) -> Shape:
    """What a method of a dict gives."""
    if name == "values":
        return tuple(record)
    if name == "items":
        return tuple((Layout.CONST, entry) for entry in record)
    if name == "copy":
        return copied(record)
    if name not in ("get", "pop", "setdefault") or len(arguments) != len(call.args) or len(arguments) not in (1, 2):
        return Layout.CONST if name == "keys" else Layout.UNKNOWN
    key = written(call.args[0])
    if key is None:
        return any_of(record)
    return record.entry(key) if key in record.names else arguments[1] if len(arguments) > 1 else Layout.UNKNOWN


def after(record: Record, name: str, call: ast.Call, arguments: list[Shape], keywords: Mapping[str, Shape]) -> Shape:
    """What a dict is after one of its methods; the record itself where that changes nothing."""
    if name not in _CHANGES:
        return record
    key = written(call.args[0]) if call.args else None
    if name == "clear":
        return Record.of({})
    if name == "update":
        return updated(record, arguments, keywords)
    if key is None or name == "popitem":
        return lost(record)
    if name == "pop":
        return Record.of({n: entry for n, entry in zip(record.names, record, strict=True) if n != key})
    if name == "setdefault" and key not in record.names:
        return given(record, call.args[0], arguments[1] if len(arguments) > 1 else Layout.CONST)
    return record


def updated(record: Record, arguments: list[Shape], keywords: Mapping[str, Shape]) -> Shape:
    """What a dict is once the entries of others, and those that are told by name, are put into it."""
    if "**" in keywords or not all(isinstance(other, Record) for other in arguments):
        return Layout.MIXED if Layout.MIXED in (*arguments, *keywords.values()) else lost(record)
    entries = dict(zip(record.names, record, strict=True))
    for other in arguments:
        if isinstance(other, Record):
            entries |= zip(other.names, other, strict=True)
    return Record.of({**entries, **keywords})


def joined(left: Record, right: Shape) -> Shape:
    """`left | right`: the entries of the second one are those that count."""
    return updated(left, [right], {})


def given(record: Record, key: ast.expr, value: Shape) -> Shape:
    """The record once an entry is put into it: any of them, if it cannot be told which one."""
    name = written(key)
    if name is not None:
        return Record.of(dict(zip(record.names, record, strict=True)) | {name: value})
    others = {n: join(entry, value) for n, entry in zip(record.names, record, strict=True)}
    return Record.of({SOME: value} | others)


def without(record: Record, key: ast.expr) -> Shape:
    """The record once an entry is taken out of it."""
    name = written(key)
    entries = zip(record.names, record, strict=True)
    return lost(record) if name is None else Record.of({n: entry for n, entry in entries if n != name})


def any_of(record: Record) -> Shape:
    """What an entry is of which it cannot be told which one."""
    found: Shape = record[0] if record else Layout.UNKNOWN
    for entry in record[1:]:
        found = join(found, entry)
    return found


def lost(record: Record) -> Shape:
    """What a dict is that something may have changed of which nothing is known: samples that met have met."""
    met = {n: entry for n, entry in zip(record.names, record, strict=True) if entry in _MET}
    return Record.of(dict.fromkeys(record.names, Layout.UNKNOWN) | met) if met else Layout.UNKNOWN


def written(key: ast.expr) -> str | None:
    """The name of an entry, where it is spelled out."""
    return str(key.value) if isinstance(key, ast.Constant) and isinstance(key.value, (str, int)) else None


# ---- lists


def grown(found: Listed, name: str, call: ast.Call, arguments: list[Shape]) -> Shape:
    """What a list is after one of its methods; the same object where that changes nothing."""
    given = arguments[-1] if arguments else Layout.CONST
    if name == "append":
        return Listed((*found, given))
    if name == "extend":
        return (
            Listed((*found, *given))
            if isinstance(given, Listed)
            else given
            if given is Layout.MIXED
            else unlisted(found)
        )
    if name == "pop" and found and integer(call.args[0] if call.args else ast.Constant(-1)) in (0, -1):
        return Listed(found[1:] if call.args and integer(call.args[0]) == 0 else found[:-1])
    return unlisted(found) if name in _REORDERS else found


def put(found: Listed, place: ast.expr, value: Shape) -> Shape:
    """A list once something is put into one of its places: any of them, if it cannot be told which one."""
    number = integer(place)
    if number is not None and -len(found) <= number < len(found):
        number %= len(found)
        return Listed((*found[:number], value, *found[number + 1 :]))
    return unlisted(Listed((*found, value)))


def unlisted(found: Listed) -> Shape:
    """A list of which only what is in it is known."""
    every = element(found)
    return every if every in (Layout.UNKNOWN, Layout.MIXED) else Listed((every, every))


# ---- one dict under several names


def replace(env: Environment, old: Shape, new: Shape) -> None:
    """Put what a dict has become in its place, also where it is an entry of others."""
    rebuilt: dict[int, Shape] = {id(old): new}
    for name, value in env.items():
        if isinstance(value, tuple):
            env[name] = _rebuilt(value, rebuilt)


def _rebuilt(value: Shape, rebuilt: dict[int, Shape]) -> Shape:
    if not isinstance(value, tuple):
        return value
    if id(value) not in rebuilt:
        parts = [_rebuilt(part, rebuilt) for part in value]
        same = all(part is before for part, before in zip(parts, value, strict=True))
        rebuilt[id(value)] = value if same else _like(value, parts)
    return rebuilt[id(value)]


def copied(value: Shape, known: dict[int, Shape] | None = None) -> Shape:
    """The layout of other dicts with the same entries. `known` has copies that are there already."""
    known = {} if known is None else known
    if not isinstance(value, tuple):
        return value
    if id(value) not in known:
        known[id(value)] = _like(value, [copied(part, known) for part in value])
    return known[id(value)]


def _like(value: tuple[Shape, ...], parts: list[Shape]) -> Shape:
    return Record.of(dict(zip(value.names, parts, strict=True))) if isinstance(value, Record) else type(value)(parts)
