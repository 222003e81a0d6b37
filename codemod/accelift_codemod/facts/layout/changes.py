"""What statements change of the dicts, lists and tensors that variables hold."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from accelift_codemod.facts.layout import entries
from accelift_codemod.facts.layout.algebra import (
    ALTERED,
    CURVING,
    FIXED,
    Environment,
    Frame,
    Layout,
    Listed,
    Record,
    Shape,
)
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts

_BUILTINS = frozenset(dir(builtins))
_PLACES = (ast.Name, ast.Attribute, ast.Subscript)  # where a dict is kept


class Changes:
    """Follows them: reading an expression tells what its calls change, and a statement that runs changes it."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts
        # Dicts and lists, and what they are once the statement has run that is interpreted.
        self._becoming: list[tuple[Record | Listed, Shape]] = []

    def evaluated(self, node: ast.expr, env: Environment, frame: Frame) -> Shape:
        """The layout of an expression of a statement that runs, once it has changed the dicts that it changes."""
        outer, self._becoming = self._becoming, []
        value = self.layouts.read(node, env, frame)
        for record, new in self._becoming:
            entries.replace(env, record, new)
        self._becoming = outer
        return value

    def becomes(self, record: Record | Listed, new: Shape) -> None:
        """What a dict will be once the statement has run that is evaluated."""
        if new is not record:
            self._becoming.append((record, new))

    def now(self, record: Record) -> Shape:
        """What a dict or an object is by now that the statement has made."""
        return next((new for old, new in reversed(self._becoming) if old is record), record)

    def in_place(self, call: ast.expr, value: Shape, env: Environment) -> None:
        """Samples have met once a method sets them in relation to others where they are: `h.sub_(h.mean(0))`."""
        while isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            name = call.func.attr
            call = call.func.value
            changes = name.endswith("_") and not name.endswith("__") and value in (Layout.MIXED, Layout.SHIFTED)
            if changes and isinstance(call, ast.Name) and call.id in env:
                env[call.id] = value

    def forget(self, node: ast.expr, env: Environment, frame: Frame) -> None:
        """A dict that a function of which nothing is known is given may have other entries then."""
        for call in (n for n in walk(node) if isinstance(n, ast.Call)):
            for argument in (*call.args, *(k.value for k in call.keywords)):
                record = self.layouts.read(argument, env, frame) if isinstance(argument, _PLACES) else None
                if isinstance(record, Record) and not self._is_followed(call, env, frame):
                    entries.replace(env, record, entries.lost(record))

    def _is_followed(self, call: ast.Call, env: Environment, frame: Frame) -> bool:
        """Whether it is known what a call does to the dicts that it is given."""
        func = call.func
        if self.layouts.resolver.builtin(func) in _BUILTINS or self.layouts.resolver.callee(call) is not None:
            return True
        if isinstance(func, ast.Attribute) and isinstance(self.layouts.read(func.value, env, frame), Record):
            return True
        own = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"
        if own and frame.owner is not None and self.layouts.resolver.method(frame.owner, func.attr) is not None:  # type: ignore[attr-defined]
            return True
        return any(
            isinstance(v.declaration, ast.ClassDef)
            for v in self.layouts.objects.models(self.layouts.calls.network(call))
        )

    def put(self, target: ast.Subscript, value: Shape, env: Environment) -> None:
        """Put a value into a dict, or into some entries of a tensor: `weights[y == 1] = share`, of which the batch is
        to have one."""
        base = self._held(target.value, env)
        if isinstance(base, Record):
            entries.replace(env, base, entries.given(base, target.slice, value))
        elif isinstance(base, Listed):
            entries.replace(env, base, entries.put(base, target.slice, value))
        if not isinstance(target.value, ast.Name) or value not in (Layout.MIXED, Layout.SHIFTED, *CURVING):
            return
        if base in (Layout.BATCH, Layout.ROWS, *ALTERED):
            env[target.value.id] = Layout.MIXED
        elif base in FIXED:  # a vector of statistics, or what each sample finds in one
            place = target.slice
            fixed = isinstance(place, ast.Slice) or self.layouts.read(place, env) in FIXED
            env[target.value.id] = value if fixed else Layout.MIXED

    def _held(self, node: ast.expr, env: Environment) -> Shape | None:
        """What a variable holds, or an entry of the dict in it."""
        if isinstance(node, ast.Name):
            return env.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            holder = env.get(node.value.id)
            known = isinstance(holder, Record) and node.attr in holder.names
            return holder.entry(node.attr) if known else env.get(f"{node.value.id}.{node.attr}")  # type: ignore[union-attr]
        inner = self._held(node.value, env) if isinstance(node, ast.Subscript) else None
        name = entries.written(node.slice) if isinstance(node, ast.Subscript) else None
        return inner.entry(name) if isinstance(inner, Record) and name is not None else None
