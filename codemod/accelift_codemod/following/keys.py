"""Which entries of a dict are meant: what is put under one key is not read under another."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

from accelift_codemod.draft import Draft

_Read = TypeVar("_Read", bound=ast.AST)
Path = tuple[str | None, ...]  # the keys that lead to an entry, outermost first; None for one that is not written out
_OF_ENTRY = frozenset({"get", "setdefault", "pop"})


def stored(node: ast.expr) -> Path:
    """The keys under which something is put into an object: of `history["best"]["loss"]`."""
    found: list[str | None] = []
    while isinstance(node, (ast.Subscript, ast.Call)):
        if isinstance(node, ast.Subscript):
            found.append(_text(node.slice))
            node = node.value
        elif isinstance(node.func, ast.Attribute):
            if node.func.attr in _OF_ENTRY and node.args:  # `history.setdefault("loss", [])`
                found.append(_text(node.args[0]))
            else:
                found.clear()  # of something else that it gives
            node = node.func.value
        else:
            break
    return tuple(reversed(found))


def read(draft: Draft, node: ast.AST) -> Path:
    """The keys by which an entry is taken out of the object that a node reads."""
    found: list[str | None] = []
    parents = draft.facts.index.parents
    while True:
        outer = parents.get(node)
        if isinstance(outer, ast.Subscript) and outer.value is node:
            found.append(_text(outer.slice))
            node = outer
            continue
        call = parents.get(outer) if isinstance(outer, ast.Attribute) and outer.attr in _OF_ENTRY else None
        if not (isinstance(call, ast.Call) and call.func is outer and call.args):
            return tuple(found)
        found.append(_text(call.args[0]))
        node = call


def parts_asked(draft: Draft, load: ast.Name) -> set[str]:
    """What is read of the object in a variable, as it is written: `state.loss` and `state.loss.mean` of the latter."""
    found: set[str] = set()
    node: ast.AST = load
    while isinstance(outer := draft.facts.index.parents.get(node), (ast.Attribute, ast.Subscript)):
        if outer.value is not node or not isinstance(outer.ctx, ast.Load):
            break
        found.add(ast.unparse(outer))
        node = outer
    return found


def same_entries(draft: Draft, loop: ast.AST, name: str, reads: Sequence[_Read]) -> list[_Read]:
    """Those of some reads of a variable that may be of an entry that a loop uses, too."""
    used = draft.names_in(loop).get(name, [])
    if not used or not all(read(draft, n) for n in used):  # of one that is read as a whole, none is apart
        return list(reads)
    inside = {read(draft, n) for n in used}
    return [n for n in reads if not all(apart(path, read(draft, n)) for path in inside)]


def apart(one: Path, other: Path) -> bool:
    """Whether two entries of one object are surely not the same, nor one in the other."""
    return any(a is not None and b is not None and a != b for a, b in zip(one, other, strict=False))


def _text(key: ast.expr) -> str | None:
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
