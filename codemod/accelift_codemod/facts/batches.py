"""What a loop does with the tensors of its batches before they are on the device."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from functools import cached_property

from accelift_codemod.facts import library
from accelift_codemod.facts.effects import assignments
from accelift_codemod.facts.index import How, position
from accelift_codemod.facts.loops import BatchLoop, Loops
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.moves import STAYS, Moves
from accelift_codemod.facts.objects import Objects
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Key, Role, Value, key


class Batches:
    """Finds whether batches may arrive on the device."""

    def __init__(self, objects: Objects, loops: Loops, moves: Moves) -> None:
        self.objects = objects
        self.loops = loops
        self.moves = moves
        self.resolver = objects.resolver
        self.index = objects.index

    def placed(self, loop: BatchLoop) -> bool:
        """Whether every tensor of a batch is moved to the device before it is used (its shape aside)."""
        if not self.moves.all:
            return True  # a script for the CPU: the device is the CPU
        if self._feeds_model_directly(loop):
            return True
        parents = self.index.parents
        for statement in loop.body:
            for load in _all_loads(statement):
                if not self._is_batch(load, loop):
                    continue
                if self._moved_before(load) or self._only_shape(load):
                    continue
                parent: ast.AST | None = parents.get(load)
                node: ast.AST = load
                while isinstance(parent, (ast.Subscript, ast.Attribute)) and parent.value is node:  # batch[0].to(...)
                    node, parent = parent, parents.get(parent)
                    if isinstance(node, ast.Attribute) and isinstance(parent, ast.Call) and parent.func is node:
                        break
                if self._under_move(load) or self._renamed(load):
                    continue
                if self._is_scattered(load):
                    continue
                if isinstance(parent, (ast.For, ast.comprehension)) and node is parent.iter:
                    continue
                if isinstance(parent, ast.Assign) and node is parent.value:
                    continue  # unpacked or renamed: judged by the new names
                if isinstance(parent, (ast.Tuple, ast.List)) and isinstance(parents.get(parent), ast.Assign):
                    continue
                return False
        return True

    def meets(self, load: ast.Name, loop: BatchLoop, shares: Collection[ast.AST] = ()) -> bool:
        """Whether a variable is used in one expression with something that is made from the loop's batch, or from what
        calls make that give as many rows."""
        beside: list[ast.AST] = [load]
        for parent in self.index.ancestors(load):
            if isinstance(parent, ast.stmt):
                return False
            if any(self.is_from(n, loop, shares) for n in walk(parent) if isinstance(n, ast.Name) and n not in beside):
                return True
            beside.append(parent)
        return False

    def is_from(self, name: ast.Name, loop: BatchLoop, shares: Collection[ast.AST], depth: int = 0) -> bool:
        """Whether a variable holds something that is computed from the loop's batch, or from what some calls give."""
        if any(v.role in (Role.BATCH, Role.DATA) and self._of(v, loop) for v in self.resolver.values(name)):
            return True
        if shares and any(n in shares and n is not name for value in self._given(name) for n in walk(value)):
            return True
        parts = self._read_for(name) if depth < 4 else ()
        return any(self.is_from(part, loop, shares, depth + 1) for part in parts)

    def _given(self, name: ast.Name) -> list[ast.expr]:
        """What a variable may be bound to."""
        return [b.value for b in self.resolver.bindings(name) if b.value is not None]

    @memoised
    def _read_for(self, name: ast.Name) -> list[ast.Name]:
        """The other variables in what one may be bound to."""
        parts = (n for value in self._given(name) for n in walk(value) if isinstance(n, ast.Name) and n is not name)
        return list(parts)

    def _of(self, value: Value, loop: BatchLoop) -> bool:
        return any(part in loop.loaders for inner in value.inner for part in inner)

    def _is_batch(self, load: ast.Name, loop: BatchLoop, depth: int = 0) -> bool:
        """Whether a variable holds a part of the loop's batch, perhaps reshaped or cast, but on its device."""
        values = self.resolver.values(load)
        if any(v.role is Role.BATCH and self._of(v, loop) for v in values):
            return True
        if depth > 4 or not any(v.role is Role.DATA and self._of(v, loop) for v in values):
            return False
        for binding in self.resolver.bindings(load):
            root = self.moves.root(binding.value) if binding.how is How.ASSIGN and not binding.path else None
            if isinstance(root, ast.Name) and root is not load and self._is_batch(root, loop, depth + 1):
                return True
        return False

    def _renamed(self, load: ast.Name) -> bool:
        """Whether a read only gives the tensor to another variable, perhaps reshaped: judged by that one's reads."""
        for parent in self.index.ancestors(load):
            if isinstance(parent, ast.Assign):
                return any(self.moves.root(value) is load for _, value in assignments(parent) if value is not None)
            if isinstance(parent, ast.stmt):
                return False
        return False

    def _under_move(self, load: ast.Name) -> bool:
        """Whether a read is the receiver of a move, at any depth of method calls and subscripts."""
        moves = self.moves.of
        parents = self.index.parents
        node: ast.AST = load
        while True:
            parent = parents.get(node)
            if (isinstance(parent, ast.Attribute) and parent.value is node) or (
                isinstance(parent, ast.Subscript) and parent.value is node
            ):
                node = parent
            elif isinstance(parent, ast.Call) and parent.func is node:
                if parent in moves:
                    return True
                node = parent
            elif isinstance(parent, ast.Call) and self._is_variable(parent) and node in parent.args:
                node = parent
            elif isinstance(parent, ast.comprehension) and parent.iter is node:
                comprehension = parents.get(parent)
                return comprehension is not None and any(
                    isinstance(n, ast.Call) and n in moves for n in walk(comprehension)
                )
            else:
                return False

    def _is_variable(self, call: ast.Call) -> bool:
        return self.resolver.qualified(call.func) == "torch.autograd.Variable"

    def _moved_before(self, load: ast.Name, depth: int = 0) -> bool:
        """Whether the variable was assigned from a move, or from a variable that was."""
        moves = self.moves.of
        for binding in self.resolver.bindings(load):
            if binding.value is None or binding.how is not How.ASSIGN or depth > 4:
                continue
            if position(binding.node) > position(load):
                continue  # by the iteration before, of another batch
            for node in walk(binding.value):
                if isinstance(node, ast.Call) and node in moves:
                    return True
                if isinstance(node, ast.Name) and node is not load and self._moved_before(node, depth + 1):
                    return True
        return False

    def _feeds_model_directly(self, loop: BatchLoop) -> bool:
        """Whether a loop moves nothing of its batches and yet hands them to a model: they are on the device already,
        unless that model is on the CPU itself."""
        if any(loader in self._moved for loader in loop.loaders):
            return False
        for statement in loop.body:
            for call in self.loops.own_calls(statement):
                models = self.objects.models(call.func)
                if models and not all(map(self._is_on_cpu, models)):
                    for argument in call.args:
                        if any(v.role is Role.BATCH and self._of(v, loop) for v in self.resolver.values(argument)):
                            return True
        return False

    def _is_on_cpu(self, model: Value) -> bool:
        """Whether a model of a script that moves others is surely on the CPU: nothing moves it, nor its parts, there,
        or it is moved away again."""
        taken = {key(v) for call in self.moves.away for v in self._receiver(call)}
        if key(model) in taken:
            return True
        known = isinstance(model.declaration, ast.ClassDef) or model.name.startswith("torch.nn.")
        return known and isinstance(model.origin, ast.Call) and not self._may_be_moved(model)

    def _may_be_moved(self, model: Value) -> bool:
        """Whether a move may be one of a model, of something it is a part of, or in a method of its class."""
        classes = self.resolver.ancestry(model.declaration)
        for move in self.moves.all:
            values = self.resolver.values(move.receiver)
            if not values or key(model) in {key(v) for v in self.objects.models(move.receiver)}:
                return True
            if self.index.enclosing_class(move.call) in classes:
                return True
            if any(v.role is not Role.MODEL and v.role not in (Role.BATCH, Role.DATA, Role.LOSS) for v in values):
                return True
        return False

    def _receiver(self, call: ast.Call) -> Iterable[Value]:
        return self.objects.models(call.func.value) if isinstance(call.func, ast.Attribute) else ()

    @cached_property
    def _moved(self) -> set[Value]:
        """The loaders that may have dealt something which is moved."""
        values = (v for move in self.moves.all for v in self.resolver.values(move.receiver))
        return {loader for v in values if v.role in (Role.BATCH, Role.DATA) for inner in v.inner for loader in inner}

    @cached_property
    def arrays(self) -> list[tuple[ast.Call, Value]]:
        """The calls that turn batches into arrays where they are, which has to be the CPU, each with their loader."""
        found: list[tuple[ast.Call, Value]] = []
        for call in self.index.methods.get("numpy", []):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            values = self.resolver.values(receiver)
            if receiver is None or any(v.role is not Role.BATCH for v in values):
                continue
            names = [n for n in walk(receiver) if isinstance(n, ast.Name)]
            moved = any(isinstance(n, ast.Attribute) and n.attr in ("cpu", "to") for n in walk(receiver))
            if not moved and not any(map(self._moved_before, names)):
                found += ((call, loader) for v in values for inner in v.inner for loader in inner)
        return found

    def _is_scattered(self, load: ast.Name) -> bool:
        """Whether a read is of what a wrapped model is called with, perhaps cast, or in a list written there."""
        node: ast.AST = load
        for parent in self.index.ancestors(load):
            if isinstance(parent, ast.Call) and node is not parent.func:
                return self._scatters(parent.func)
            if isinstance(parent, ast.Call):
                if not isinstance(parent.func, ast.Attribute) or parent.func.attr not in STAYS:
                    return False
            elif isinstance(parent, ast.Subscript):
                if node is not parent.value:
                    return False
            elif not isinstance(parent, (ast.Attribute, ast.keyword, ast.List, ast.Tuple, ast.Dict)):
                return False
            node = parent
        return False

    def _scatters(self, func: ast.expr) -> bool:
        """Whether what is called is a model in DataParallel, which moves its inputs itself."""
        return any(key(v) in self._scattering for v in self.objects.models(func))

    @cached_property
    def _scattering(self) -> frozenset[Key]:
        wraps = (c for c in self.index.calls if self.resolver.qualified(c.func) in library.DATA_PARALLEL)
        return frozenset(key(v) for call in wraps for v in self.resolver.values(call))

    def _only_shape(self, load: ast.Name) -> bool:
        parents = self.index.parents
        node: ast.AST = load
        parent = parents.get(node)
        while isinstance(parent, ast.Subscript) and parent.value is node:
            node, parent = parent, parents.get(parent)
        if isinstance(parent, ast.Call) and self.resolver.builtin(parent.func) == "len":
            return True
        return isinstance(parent, ast.Attribute) and parent.attr in ("size", "shape", "dim", "numel", "dtype", "ndim")


def _all_loads(node: ast.AST) -> Iterable[ast.Name]:
    return (n for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
