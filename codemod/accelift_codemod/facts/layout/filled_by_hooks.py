"""What hooks of networks put into dicts, lists and attributes, if layers give one row for each sample."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from accelift_codemod.facts.hooks import BEFORE, FORWARD, parameters
from accelift_codemod.facts.layout.algebra import SOME, Environment, Layout, Listed, Record, Shape, join
from accelift_codemod.facts.tree import targets, walk

if TYPE_CHECKING:
    from accelift_codemod.facts.hooks import Kept
    from accelift_codemod.facts.layout.interpreter import Layouts

_LISTS = frozenset("append appendleft add insert".split())


def filled_by_hooks(layouts: Layouts, kept: Sequence[Kept]) -> Shape:
    """The layout of what some hooks have filled."""
    found: Shape | None = None
    for one in kept:
        this = _put(layouts, one)
        found = this if found is None else join(found, this)
    return Layout.UNKNOWN if found is None else found


def _put(layouts: Layouts, one: Kept) -> Shape:
    env = _begins(layouts, one)
    if env is None:
        return Layout.UNKNOWN
    if isinstance(one.put, (ast.Assign, ast.AnnAssign)):
        value = layouts.read(one.put.value, env)
        if any(target is one.place for target in targets(one.put)):
            return value
        entry = any(isinstance(target, ast.Subscript) and target.value is one.place for target in targets(one.put))
        return Record.of({SOME: value}) if entry else Layout.UNKNOWN
    if isinstance(one.put, ast.Call) and isinstance(one.put.func, ast.Attribute) and one.put.func.value is one.place:
        if one.put.func.attr in _LISTS and one.put.args:
            value = layouts.read(one.put.args[-1], env)
            return Listed((value, value))
        if one.put.func.attr == "update" and not one.put.args:
            return Record.of({k.arg or SOME: layouts.read(k.value, env) for k in one.put.keywords})
    return Layout.UNKNOWN


def _begins(layouts: Layouts, one: Kept) -> Environment | None:
    """The environment in which a hook puts something somewhere."""
    registers = one.call.func.attr if isinstance(one.call.func, ast.Attribute) else ""
    names = parameters(layouts.resolver, one.hook)
    if registers not in (FORWARD, BEFORE) or len(names) < 2:
        return None
    given: tuple[Shape, ...] = (Layout.CONST, (Layout.ROWS,), *([Layout.ROWS] if registers == FORWARD else []))
    env: Environment = dict(zip(names, given, strict=False))
    if isinstance(one.hook, ast.Lambda):
        return env
    inside = next((s for s in one.hook.body if one.put in {*walk(s)}), None)
    return layouts.before(one.put, one.hook.body, env) if inside is not None else None
