"""Loops over batches, and which of them train."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from accelift_codemod.facts.contents import inside
from accelift_codemod.facts.gradients import Gradients
from accelift_codemod.facts.idle import Idle
from accelift_codemod.facts.index import FUNCTIONS, LOOPS, Function, How
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.narrowing import is_collection
from accelift_codemod.facts.parts import BATCH_LIKE, PASSES
from accelift_codemod.facts.passes import Passes
from accelift_codemod.facts.passing import drawn_from
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.thrown_away import ThrownAway
from accelift_codemod.facts.tree import children, walk
from accelift_codemod.facts.values import Role, Value, Values

_VARIABLES = (ast.Name, ast.Attribute)
_NO_LOADER = frozenset({Role.OBJECT, Role.SEQUENCE, Role.TUPLE, Role.DICT})  # what a loop may be over instead of one
_EXTENSIONS = frozenset({"torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline"})
_NOT_LOSSES = frozenset({Role.OPTIMIZER, Role.MODEL, Role.CLASS, Role.METHOD})


@dataclass(frozen=True)
class BatchLoop:
    """A loop over the batches of one or several loaders."""

    node: ast.For | ast.AsyncFor | ast.While | ast.comprehension
    loaders: Values
    trains: bool
    function: Function | None
    direct: bool  # the loop itself iterates over the loader; otherwise its body calls next() on an iterator
    evaluates: bool = False  # it trains, but may also pass over a loader without: `if train: loss.backward()`
    attacks: bool = False  # it runs backward passes, but trains nothing by them

    @property
    def body(self) -> list[ast.stmt]:
        return [] if isinstance(self.node, ast.comprehension) else self.node.body


class Loops:
    """Batch loops of a script and the calls that run backward passes."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self._reaches: dict[Function, bool] = {}
        self._stepless = set[Function]()
        self._drawless = set[Function]()
        self._passes = Passes(resolver, self.reaches_backward)
        self._thrown_away = ThrownAway(resolver, self.backwards_in)
        self._idle = Idle(resolver)

    @cached_property
    def backwards(self) -> list[ast.Call]:
        """Calls of `Tensor.backward` and `torch.autograd.backward`; not in methods of networks that nothing calls."""
        found = []
        for call in self.index.methods.get("backward", []):
            if self._is_idle(call):
                continue
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            if isinstance(receiver, ast.Call) and self.resolver.builtin(receiver.func) == "super":
                continue
            if self.resolver.qualified(call.func) == "torch.autograd.backward":
                found.append(call)
                continue
            values = self.resolver.values(receiver)
            if any(v.role in _NOT_LOSSES or v.declaration is not None for v in values):
                continue
            if isinstance(receiver, ast.Name) and (receiver.id == "self" or self._is_extension(receiver)):
                continue
            found.append(call)
        return found

    def _is_idle(self, call: ast.Call) -> bool:
        """Whether a call is in a method of a network that nothing in the script asks for, as it is there for others."""
        method = self.index.function(call)
        cls = self.index.parents.get(method) if method is not None else None
        of_network = isinstance(method, FUNCTIONS) and self.resolver.class_role(cls) is Role.MODEL
        return of_network and self._idle.is_idle(method)  # type: ignore[arg-type]

    def _is_extension(self, name: ast.Name) -> bool:
        """Whether a variable is a module: `cuda_kernels.backward(...)` is no tensor's."""
        bindings = self.resolver.bindings(name)
        return bool(bindings) and all(
            isinstance(self.index.parents.get(b.node), ast.Import)
            or (isinstance(b.value, ast.Call) and self.resolver.qualified(b.value.func) in _EXTENSIONS)
            for b in bindings
        )

    def is_backward(self, node: ast.AST) -> bool:
        """Whether a node is one of `backwards`."""
        return node in self._backward_calls

    def backwards_in(self, loop: ast.AST, innermost: bool = False) -> list[ast.Call]:
        """The backward passes inside a loop; if `innermost`, those that are in no loop or function inside it."""
        calls = self._backwards_by_loop.get(loop, [])
        return [call for call in calls if self._innermost(call) is loop] if innermost else calls

    @cached_property
    def _backwards_by_loop(self) -> dict[ast.AST, list[ast.Call]]:
        found: dict[ast.AST, list[ast.Call]] = {}
        for call in self.backwards:
            for loop in (parent for parent in self.index.ancestors(call) if isinstance(parent, LOOPS)):
                found.setdefault(loop, []).append(call)
        return found

    @cached_property
    def gradients(self) -> Gradients:
        """What gradients flow through to the losses of `backwards`."""
        return Gradients(self.resolver, self.backwards)

    @cached_property
    def _backward_calls(self) -> frozenset[ast.AST]:
        return frozenset(self.backwards)

    @memoised
    def endings(self, loop: ast.For | ast.While) -> list[ast.expr]:
        """The tests by which a loop may end: its own, and those under which it is left."""
        inside = {node: None for statement in loop.body for node in walk(statement)}
        exits = (node for node in inside if isinstance(node, (ast.Break, ast.Return)))
        above = dict.fromkeys(p for node in exits for p in self.index.ancestors(node) if p in inside)
        tests = [node.test for node in above if isinstance(node, ast.If)]
        return [*tests, loop.test] if isinstance(loop, ast.While) else tests

    @memoised
    def own_calls(self, node: ast.AST) -> list[ast.Call]:
        """Calls inside a node, nested functions left out."""
        found: list[ast.Call] = []
        calling = self.index.calling
        stack: list[ast.AST] = [node]
        while stack:
            item = stack.pop()
            if isinstance(item, ast.Call):
                found.append(item)
            for child in children(item):
                if child in calling and not isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                    stack.append(child)
        return found

    def reaches_backward(self, nodes: Sequence[ast.AST]) -> bool:
        """Whether running the statements may run a backward pass, in functions they call too."""
        backwards = self._backward_calls
        for statement in nodes:
            if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                continue
            for call in self.own_calls(statement):
                if call in backwards:
                    return True
                target = self.resolver.callee(call)
                if isinstance(target, FUNCTIONS) and self._function_reaches(target):
                    return True
                if self._closure_reaches(call):
                    return True
        return False

    def _closure_reaches(self, call: ast.Call) -> bool:
        """`optimizer.step(closure)` with a closure that runs backward."""
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "step"):
            return False
        for value in self.resolver.values(self.resolver.argument(call, 0, "closure")):
            if isinstance(value.declaration, FUNCTIONS) and self._function_reaches(value.declaration):
                return True
        return False

    def _function_reaches(self, function: Function) -> bool:
        known = self._reaches.get(function)
        if known is None:
            self._reaches[function] = False  # a recursive call adds nothing
            known = self._reaches[function] = self.reaches_backward(function.body)
        return known

    @cached_property
    def batch_loops(self) -> list[BatchLoop]:
        """Every loop over batches, in source order."""
        found = []
        for node in self.index.loops:
            function = self.index.function(node)
            if function is not None and self.resolver.passing.hands_on_in(node, function):
                continue  # its batches are used where they are drawn from it
            if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
                loaders = self.loaders(self.resolver.values(node.iter))
                if loaders and not is_collection(self.resolver, node.iter):
                    body = [] if isinstance(node, ast.comprehension) else node.body
                    reaches = bool(body) and self.reaches_backward(body)
                    attacks = reaches and self._thrown_away.by(body)
                    evaluates = reaches and not attacks and self._passes.evaluates(node, body)
                    trains = (reaches and not attacks) or node in self.gradients.loops
                    found.append(BatchLoop(node, loaders, trains, function, True, evaluates, attacks))
                    continue
            if isinstance(node, LOOPS):
                loaders = self._drawn(node)
                if loaders:
                    trains = self.reaches_backward(node.body) or node in self.gradients.loops
                    found.append(BatchLoop(node, loaders, trains, function, False))
        return found

    def loaders(self, values: Values) -> Values:
        """The loaders that iterating over the values draws batches from."""
        found: list[Value] = []
        for value in values:
            if value.role is Role.LOADER:
                found.append(value)
            elif value.role in (Role.ENUMERATE, Role.ITERATOR):
                found += self.loaders(value.inner[0])
            elif value.role is Role.ZIP:
                for inner in value.inner:
                    found += self.loaders(inner)
        return tuple(dict.fromkeys(found))

    def is_pass(self, values: Values) -> bool:
        """Whether values are nothing but passes over loaders: iterators that deal their batches."""
        passes = all(value.role in PASSES and not self._others((value,)) for value in values)
        return passes and bool(values) and all(self.loaders((value,)) for value in values)

    def _passes_other(self, values: Values) -> bool:
        """Whether values that pass over loaders may also be passes over something else: `iter(batches)` of a list."""
        none = [v for v in values if v.role in PASSES and not self.loaders((v,))]
        return bool(none) and bool(self.loaders(values))

    def others(self, loop: BatchLoop) -> list[Value]:
        """What a loop may iterate over instead of a loader, and is not known to be one: on another setting, say."""
        return self._others(self.resolver.values(loop.node.iter)) if loop.direct else []  # type: ignore[union-attr]

    def _others(self, values: Values) -> list[Value]:
        found: list[Value] = []
        for value in values:
            if value.role in (Role.ENUMERATE, Role.ITERATOR, Role.ZIP):
                for inner in value.inner:
                    found += self._others(inner)
            elif value.role in _NO_LOADER and self.loaders(values) and not _is_empty(value.origin):
                found.append(value)
        return list(dict.fromkeys(found))

    def _drawn(self, loop: ast.For | ast.AsyncFor | ast.While) -> Values:
        """Loaders that the loop draws from by `next(iterator)`, the iterator made outside or inside."""
        return tuple(dict.fromkeys(v for s in self.streams(loop) for v in self.loaders(self.resolver.values(s))))

    def streams(self, loop: ast.AST) -> list[ast.expr]:
        """The variables that a loop gives to `next`.

        Also the iterators that it makes for that, if it has the backward pass itself, and does not only look at a batch
        in every epoch: `next(iter(loader))`.
        """
        return [stream for stream, _ in self.draws(loop)]

    @memoised
    def draws(self, loop: ast.AST) -> list[tuple[ast.expr, ast.Call]]:
        """The same, each with the call in the loop that draws from it, perhaps by functions: `self.next_batch()`."""
        found: list[tuple[ast.expr, ast.Call]] = []
        kinds: tuple[type[ast.expr], ...] = (*_VARIABLES, ast.Subscript)
        if self.backwards_in(loop, innermost=True):
            kinds = (*kinds, ast.Call)
        parts = [loop.test] if isinstance(loop, ast.While) else []
        calls = [c for p in (*parts, *getattr(loop, "body", ())) if not isinstance(p, LOOPS) for c in self.own_calls(p)]
        calls = [call for call in calls if self._innermost(call) is loop]
        steps = any(map(self._steps, calls))
        for call in calls:
            stream = self._stream(call)
            if isinstance(stream, kinds):
                if not self._passes_other(self.resolver.values(stream)):
                    found.append((stream, call))
            elif steps and stream is None:
                found += ((inner, call) for inner in self._drawn_inside(call, frozenset()))
        return found

    def _stream(self, call: ast.Call) -> ast.expr | None:
        """The iterator that a call draws a batch from by itself: not by a method of the script that is named `next` and
        does more than to hand on the next batch."""
        stream = drawn_from(call, self.resolver)
        by_method = stream is not None and isinstance(self.resolver.callee(call), FUNCTIONS)
        return None if by_method and not self.is_pass(self.resolver.values(stream)) else stream

    def around(self, loop: BatchLoop) -> BatchLoop:
        """The outermost loop around one over batches that trains by itself, too, and so goes on with it: it steps a
        generator once for some steps of its critic, say; if there is none, the loop itself."""
        outer = [
            node
            for node in self.index.enclosing_loops(loop.node)
            if isinstance(node, LOOPS) and any(map(self._steps, self._calls_of(node)))
        ]
        return replace(loop, node=outer[-1], direct=False) if outer else loop

    def _calls_of(self, loop: ast.For | ast.AsyncFor | ast.While) -> list[ast.Call]:
        """The calls of a loop that are in no loop inside it."""
        calls = [c for s in loop.body if not isinstance(s, LOOPS) for c in self.own_calls(s)]
        return [call for call in calls if self._innermost(call) is loop]

    def _steps(self, call: ast.Call) -> bool:
        """Whether a call runs a backward pass, in no loop of the functions that it runs."""
        return self._leads_to(call, self._backward_calls.__contains__, self._stepless)

    def _leads_to(self, call: ast.Call, wanted: Callable[[ast.Call], bool], none: set[Function]) -> bool:
        """Whether a call is of some kind, or one in no loop of the functions that it runs; `none` are functions that
        are known to run no such call."""
        queue, seen = [call], set[Function]()
        for one in queue:
            if wanted(one):
                return True
            target = self.resolver.callee(one)
            if isinstance(target, FUNCTIONS) and target not in seen and target not in none:
                seen.add(target)
                queue += self._at_once(target)
        none |= seen  # whatever they run has been looked at
        return False

    @memoised
    def _at_once(self, function: Function) -> list[ast.Call]:
        """The calls of a function that are in no loop."""
        calls = (call for statement in function.body for call in self.own_calls(statement))
        return [call for call in calls if self._innermost(call) is None]

    def _drawn_inside(self, call: ast.Call, seen: frozenset[Function]) -> list[ast.expr]:
        """What a call has a function draw single batches from, to train on them or to give them back."""
        target = self.resolver.callee(call)
        if not isinstance(target, FUNCTIONS) or target in seen or self.resolver.yields(target):
            return []
        if not self._may_draw(call):
            return []
        found: list[ast.expr] = []
        for inner in self._at_once(target):
            stream = self._stream(inner)
            if isinstance(stream, _VARIABLES):
                found += self._seen_by(call, target, stream)
            elif stream is None:
                found += self._drawn_inside(inner, seen | {target})
        return found if found and (self._function_reaches(target) or self._gives_batches(target)) else []

    def _may_draw(self, call: ast.Call) -> bool:
        """Whether a call draws a single batch, or a function that it runs does."""
        return self._leads_to(call, lambda one: self._stream(one) is not None, self._drawless)

    def _seen_by(self, call: ast.Call, function: Function, stream: ast.expr) -> list[ast.expr]:
        """A variable of a function as a call sees it: what is kept in between, or what it is handed."""
        owner = self.index.scope(stream).owner(stream.id) if isinstance(stream, ast.Name) else None
        if owner is None or owner.node is not function or not isinstance(stream, ast.Name):
            return [stream]
        bound = owner.bindings[stream.id]
        given = (self.resolver.bind(call, function) or {}).get(stream.id)
        again = [b.value for b in bound if b.how is How.ASSIGN and self.is_pass(self.resolver.bound(b))]
        if not isinstance(given, _VARIABLES) or len(bound) > len(again) + 1:
            return []
        return [given, *(node for node in again if node is not None)]  # it is begun again when it is at its end

    @memoised
    def _gives_batches(self, function: Function) -> bool:
        """Whether a function gives back a batch, or parts of one."""
        given = (v for r in self.resolver.returns(function) for v in inside(self.resolver.values(r.value)))
        return any(value.role in BATCH_LIKE for value in given)

    def _innermost(self, node: ast.AST) -> ast.AST | None:
        return next(iter(self.index.enclosing_loops(node)), None)


def _is_empty(node: ast.AST | None) -> bool:
    """Whether an expression is a list or the like without anything in it, that stands where nothing is yet."""
    return isinstance(node, (ast.List, ast.Tuple)) and not node.elts
