"""What statements change of the dicts, lists and tensors that variables hold."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import How, Scope, position
from accelift_codemod.facts.layout import entries
from accelift_codemod.facts.layout.algebra import (
    CURVING,
    FIXED,
    HANDED,
    SOME,
    Environment,
    Frame,
    Layout,
    Listed,
    Record,
    Shape,
)
from accelift_codemod.facts.layout.arithmetic import ALTERED
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.tree import is_constant, root, walk

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts

_BUILTINS = frozenset(dir(builtins))
_PLACES = (ast.Name, ast.Attribute, ast.Subscript)  # where a dict is kept
_MET = (Layout.MIXED, Layout.SHIFTED)
# What gives the same numbers in another shape: what changes them there changes the tensor.
_VIEWS = frozenset("view view_as squeeze unsqueeze detach t transpose permute flatten".split())


class Changes:
    """Follows them: reading an expression tells what its calls change, and a statement that runs changes it."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts
        # Dicts and lists, and what they are once the statement has run that is interpreted.
        self._becoming: list[tuple[Record | Listed, Shape]] = []
        # Tensors that it changes where they are, by their places; and the environment in which it is read.
        self._altering: list[tuple[ast.expr, Shape]] = []
        self._env: Environment | None = None
        # Variables that are watched, and what becomes in place of the tensors that they hold, or others of the batch.
        self._watched: tuple[frozenset[str], list[Shape]] | None = None

    @contextmanager
    def watched(self, names: frozenset[str]) -> Iterator[list[Shape]]:
        """What becomes, where they are, of tensors that depend on the batch, and of what some variables hold."""
        outer, seen = self._watched, list[Shape]()
        self._watched = names, seen
        try:
            yield seen
        finally:
            self._watched = outer

    def _watch(self, place: ast.expr, value: Shape, env: Environment) -> None:
        if self._watched is None:
            return
        names, seen = self._watched
        owner = root(place)
        held = self._held(place, env) if isinstance(place, _PLACES) else None
        own = owner is not None and owner.id in names
        if own or (held is not None and held not in FIXED):
            seen.append(value)

    def evaluated(self, node: ast.expr, env: Environment, frame: Frame) -> Shape:
        """The layout of an expression of a statement that runs, once it has changed the dicts that it changes."""
        outer = self._becoming, self._altering, self._env
        self._becoming, self._altering, self._env = [], [], env
        value = self.layouts.read(node, env, frame)
        for record, new in self._becoming:
            entries.replace(env, record, new)
        for place, changed in self._altering:
            for one in (place, *self._others(place)):
                self._alter(one, changed, env)
        self._becoming, self._altering, self._env = outer
        return value

    def becomes(self, record: Record | Listed, new: Shape) -> None:
        """What a dict will be once the statement has run that is evaluated."""
        if new is not record:
            self._becoming.append((record, new))

    def now(self, record: Record) -> Shape:
        """What a dict or an object is by now that the statement has made."""
        return next((new for old, new in reversed(self._becoming) if old is record), record)

    def in_place(self, call: ast.Call, value: Shape, env: Environment) -> None:
        """Note what a call makes of a tensor where it is: `h.sub_(h.mean(0))`, `torch.clamp(loss, 1, out=loss)`."""
        changed = self._changed(call)
        if changed is not None:
            self._watch(self._root(changed), value, env)
            self.altered(self._root(changed), value, env)

    def altered(self, place: ast.expr, value: Shape, env: Environment) -> None:
        """Note what the tensor in a place will be once the statement has run that is evaluated."""
        if env is self._env and isinstance(place, _PLACES):
            self._altering.append((place, value))

    def _changed(self, call: ast.Call) -> ast.expr | None:
        """The tensor that a call changes where it is, if it is one that does."""
        qualified = self.layouts.resolver.library_function(call.func)
        if qualified is not None:
            if not qualified.startswith("torch."):
                return None
            told = {k.arg: k.value for k in call.keywords}
            here = told.get("inplace")
            inside = is_constant(here, True)
            inside = inside or (qualified.endswith("_") and not qualified.endswith("__"))
            return told.get("out") or (call.args[0] if inside and call.args else None)
        func = call.func
        changes = isinstance(func, ast.Attribute) and func.attr.endswith("_") and not func.attr.endswith("__")
        return func.value if changes else None  # type: ignore[attr-defined]

    def _root(self, node: ast.expr) -> ast.expr:
        """The tensor whose numbers an expression has, perhaps in another shape."""
        while True:
            inner: ast.expr | None = None
            if isinstance(node, ast.Call):
                inner = self._changed(node)
                if inner is None and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
                    inner = node.func.value
            elif isinstance(node, ast.Attribute) and node.attr == "data":
                inner = node.value
            if inner is None:
                return node
            node = inner

    def _others(self, place: ast.expr) -> list[ast.Name]:
        """Other variables of the function that hold the tensor, which a variable holds: after `l = loss`, `loss`."""
        if not isinstance(place, ast.Name):
            return []
        bound = self._named_after(self.layouts.index.scope(place))
        found: list[ast.Name] = []
        queue = [place.id]
        for name in queue:
            for target, same in bound:
                if name in (target.id, same.id) and position(target) < position(place):
                    other = same if name == target.id else target
                    if other.id not in queue and not self._is_bound_between(target, place):
                        queue.append(other.id)
                        found.append(other)
        return found

    @memoised
    def _named_after(self, scope: Scope) -> list[tuple[ast.Name, ast.Name]]:
        """The variables that are bound to the tensor of another one, with that one."""
        found: list[tuple[ast.Name, ast.Name]] = []
        for binding in (b for bindings in scope.bindings.values() for b in bindings):
            value = binding.value if binding.how is How.ASSIGN and not binding.path else None
            root = self._root(value) if value is not None else None
            if isinstance(root, ast.Name) and isinstance(binding.node, ast.Name) and root.id != binding.name:
                found.append((binding.node, root))
        return found

    def _is_bound_between(self, target: ast.Name, place: ast.Name) -> bool:
        """Whether one of two variables is something else by the time that a tensor is changed."""
        scope = self.layouts.index.scope(place)
        value = next((root for one, root in self._named_after(scope) if one is target), target)
        bound = [b for name in (target.id, value.id) for b in scope.bindings.get(name, ()) if b.node is not target]
        return any(position(target) < position(b.node) < position(place) for b in bound if b.how is not How.AUGMENT)

    def _alter(self, place: ast.expr, value: Shape, env: Environment) -> None:
        """A tensor has been changed where it is: samples may have met, a mean may be none any more."""
        before = self._held(place, env)
        if before is None or before in FIXED:
            takes = value in (*_MET, *CURVING) or (before is not None and value is Layout.ROWS)
        elif before in CURVING:
            takes = value is not before and value not in FIXED
        else:
            takes = before in (Layout.BATCH, Layout.ROWS, Layout.SHIFTED, *ALTERED) and value in _MET
        if not takes:
            return
        if isinstance(place, ast.Name) and HANDED + place.id in env:
            env[HANDED + place.id] = value
        self.layouts.assign(place, value, env)

    def augmented(self, target: ast.expr, value: Shape, env: Environment) -> None:
        """What `loss *= weight` makes of a tensor that a function was given; numbers stay what they are."""
        self._watch(target, value, env)
        if isinstance(target, ast.Name) and env.get(HANDED + target.id) in (*CURVING, Layout.ROWS, *ALTERED):
            self._alter(target, value, env)

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
        if base is None and isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
            base = self._from_before(target.value, env)
        if isinstance(base, Record):
            entries.replace(env, base, entries.given(base, target.slice, value))
        elif isinstance(base, Listed):
            entries.replace(env, base, entries.put(base, target.slice, value))
        self._watch(target.value, value, env)
        if not isinstance(target.value, ast.Name):
            return
        parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        if base in (Layout.BATCH, Layout.ROWS, *ALTERED) and any(self._met(part, env) for part in parts):
            env[target.value.id] = Layout.MIXED  # `losses[losses > losses.mean()] = 0`
        if value not in (*_MET, *CURVING):
            return
        if base in (Layout.BATCH, Layout.ROWS, *ALTERED):
            env[target.value.id] = Layout.MIXED
        elif base in FIXED:  # a vector of statistics, or what each sample finds in one
            place = target.slice
            fixed = isinstance(place, ast.Slice) or self.layouts.read(place, env) in FIXED
            env[target.value.id] = value if fixed else Layout.MIXED

    def _from_before(self, node: ast.expr, env: Environment) -> Record | None:
        """A dict that was made before what is interpreted: its other entries are what they were."""
        name = node.id if isinstance(node, ast.Name) else ""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            name = f"self.{node.attr}"
        if not name:
            return None
        env[name] = record = Record.of({SOME: self.layouts.read(node, env)})
        return record

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
        if isinstance(inner, Record) and name is not None:
            return inner.entry(name)
        number = integer(node.slice) if isinstance(node, ast.Subscript) and isinstance(inner, Listed) else None
        return inner[number] if inner and number is not None and -len(inner) <= number < len(inner) else None  # type: ignore[arg-type,index]

    def _met(self, place: ast.expr, env: Environment) -> bool:
        """Whether places are chosen by setting samples in relation to others."""
        return not isinstance(place, ast.Slice) and self.layouts.read(place, env) is Layout.MIXED
