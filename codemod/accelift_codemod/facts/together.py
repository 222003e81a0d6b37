"""What all processes have to do together: a process that does not join in lets the others wait for ever."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from accelift_codemod.facts.accelerate import LIBRARIES, AccelerateResolver, is_accelerator, is_state
from accelift_codemod.facts.index import FUNCTIONS, LOOPS, Function
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.tree import own_nodes
from accelift_codemod.facts.values import Evidence, Role

_VERBS = frozenset(
    "gather gather_for_metrics reduce batch_mean broadcast pad_across_processes wait_for_everyone check_trigger "
    "save_state load_state split_batch".split()
)
_FUNCTIONS = frozenset(
    "gather gather_object reduce broadcast broadcast_object_list pad_across_processes wait_for_everyone".split()
)
_TORCH = frozenset(
    f"torch.distributed.{name}"
    for name in "barrier all_reduce all_gather all_gather_object all_gather_into_tensor broadcast "
    "broadcast_object_list reduce reduce_scatter gather gather_object scatter".split()
)


@dataclass(frozen=True)
class Together:
    """Something that all processes do together, and how a function comes to it."""

    node: ast.AST
    verb: str
    path: tuple[Evidence, ...] = ()


class Collectives:
    """Finds what all processes do together."""

    def __init__(self, resolver: AccelerateResolver) -> None:
        self.resolver = resolver
        self.index = resolver.index

    def verb(self, call: ast.Call) -> str:
        """The method of an accelerator or state that a call runs; empty if it is none."""
        func = call.func
        if isinstance(func, ast.Attribute):
            values = self.resolver.values(func.value)
            if values and all(is_state(v) for v in values):
                return func.attr
        return ""

    def function(self, call: ast.Call) -> str:
        """The function of accelerate.utils that a call runs; empty if it is none."""
        root, _, rest = (self.resolver.qualified(call.func) or "").partition(".")
        return rest.rpartition(".")[2] if root in LIBRARIES else ""

    @memoised
    def library(self, call: ast.Call) -> str:
        """The library whose method or function a call runs."""
        func = call.func
        if isinstance(func, ast.Attribute):
            for value in self.resolver.values(func.value):
                if is_state(value):
                    return value.name.partition(".")[0]
        root = (self.resolver.qualified(func) or "").partition(".")[0]
        return root if root in LIBRARIES else ""

    @memoised
    def of(self, call: ast.Call) -> str:
        """What a call makes all processes do together; empty if nothing."""
        verb = self.verb(call)
        if verb in _VERBS or (verb == "backward" and self._prepares_model):
            return verb
        if verb == "prepare" and any(map(self._is_model, call.args)):
            return verb
        function = self.function(call)
        if function in _FUNCTIONS:
            return function
        qualified = self.resolver.qualified(call.func)
        if qualified in _TORCH and not any(k.arg == "group" for k in call.keywords):
            return qualified or ""
        return ""

    @cached_property
    def _prepares_model(self) -> bool:
        """Whether the script prepares a model, so that backward averages gradients."""
        for call in self.index.methods.get("prepare", []) + self.index.methods.get("prepare_model", []):
            values = self.resolver.values(call.func.value)  # type: ignore[attr-defined]
            if values and all(is_accelerator(v) for v in values):
                if any(self._is_model(a) for a in call.args):
                    return True
        return False

    def _is_model(self, node: ast.expr) -> bool:
        """Whether an expression is a module, or something unknown whose parameters the script asks for."""
        values = self.resolver.values(node)
        if any(v.role is Role.MODEL for v in values):
            return True
        origins = {(v.origin, v.name) for v in map(self.resolver.original, values) if v.role is Role.OBJECT}
        return bool(origins) and any(
            (v.origin, v.name) in origins
            for asked in self.index.attributes.get("parameters", [])
            for v in map(self.resolver.original, self.resolver.values(asked.value))
        )

    def within(self, node: ast.AST) -> Iterator[Together]:
        """What running a node may do together, in functions that it certainly calls too, in source order."""
        for part in own_nodes(node):
            if isinstance(part, ast.Call):
                verb = self.of(part)
                if verb:
                    yield Together(part, verb)
                    continue
                inner = self.called(part)
                if inner is not None:
                    yield inner

    def within_statements(self, statements: list[ast.stmt]) -> Iterator[Together]:
        """What running statements may do together, in source order."""
        for statement in statements:
            if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                yield from self.within(statement)

    def called(self, call: ast.Call) -> Together | None:
        """What a call of a function of the script certainly does together."""
        target = self.resolver.callee(call)
        if not isinstance(target, FUNCTIONS) or target.decorator_list:
            return None
        found = self.certain(target)
        if found is None:
            return None
        step = Evidence(call.lineno, f"calls {target.name}()")
        return Together(found.node, found.verb, (step, *found.path))

    @memoised
    def certain(self, function: Function) -> Together | None:
        """What calling a function certainly does together, whatever its arguments are."""
        if function in self._open:
            return None
        self._open.add(function)
        try:
            found = self._in_block(function.body, lambda t: not self.harmless(t))
            return found or self._in_block(function.body, lambda _: True)
        finally:
            self._open.discard(function)

    def harmless(self, found: Together) -> bool:
        """Whether nobody waits for the processes that do not take part, though all should (under DDP)."""
        assert isinstance(found.node, ast.Call)
        return found.verb == "load_state" or (found.verb == "save_state" and self.library(found.node) == "accelerate")

    @property
    def _open(self) -> set[ast.AST]:
        """The functions that are being looked through: a recursive call adds nothing."""
        found: set[ast.AST] = self.__dict__.setdefault("_functions", set())
        return found

    def _in_block(self, statements: list[ast.stmt], wanted: Callable[[Together], bool]) -> Together | None:
        for statement in statements:
            if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                continue
            if isinstance(statement, ast.If):
                found = self._first(statement.test, wanted)
                if found is None and _leaves(statement):
                    return None  # what follows is not certain
            elif isinstance(statement, LOOPS):
                header = statement.test if isinstance(statement, ast.While) else statement.iter
                found = self._first(header, wanted) or self._in_block(statement.body, wanted)
            elif isinstance(statement, (ast.With, ast.AsyncWith)):
                headers = [self._first(item.context_expr, wanted) for item in statement.items]
                found = next((h for h in headers if h is not None), None) or self._in_block(statement.body, wanted)
            elif isinstance(statement, ast.Try):
                found = self._in_block(statement.body, wanted) or self._in_block(statement.finalbody, wanted)
            else:
                found = self._first(statement, wanted)
            if found is not None:
                return found
            if isinstance(statement, (ast.Return, ast.Raise)):
                return None
        return None

    def _first(self, node: ast.AST, wanted: Callable[[Together], bool]) -> Together | None:
        if any(isinstance(n, (ast.IfExp, ast.BoolOp)) for n in own_nodes(node)):
            return None
        return next(filter(wanted, self.within(node)), None)


def _leaves(statement: ast.If) -> bool:
    return any(isinstance(n, (ast.Return, ast.Break, ast.Continue)) for n in own_nodes(statement))
