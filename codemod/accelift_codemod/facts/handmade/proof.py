"""What makes it right to share out the batches of a loop without a loader."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.handmade.steps import NotProved, Step, UsedLater
from accelift_codemod.facts.handmade.unknown import Unknown
from accelift_codemod.facts.handmade.writes import writes_data, written_by_rows
from accelift_codemod.facts.index import FUNCTIONS, position
from accelift_codemod.facts.layout import Layout, Shape
from accelift_codemod.facts.layout.strides import Strides
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts.handmade import Handmade

HARMLESS = (Layout.CONST, Layout.ZERO)
_LOSSES = (Layout.MEAN, Layout.SUM)


class Proof:
    """Sees what is done with the rows of batches.

    Raises:
        NotProved: by its methods, where it is not certain that each row is computed with by itself.
    """

    def __init__(self, handmade: Handmade) -> None:
        self.handmade = handmade
        self.facts = handmade.facts
        self.index = handmade.index
        self.resolver = handmade.resolver
        self.layouts = handmade.layouts

    def computes(self, statement: ast.stmt) -> bool:
        """Whether a statement runs a network, a loss or a backward pass itself."""
        return any(
            isinstance(n, ast.Call)
            and (
                self.facts.loops.is_backward(n)
                or bool(self.facts.objects.models(self.layouts.calls.network(n)))
                or Role.LOSS in self.resolver.roles(self.layouts.calls.network(n))
                or (self.resolver.qualified(n.func) or "").startswith("torch.nn.functional.")
            )
            for n in walk(statement)
        )

    def check(self, step: Step, node: ast.For | ast.While, ends: list[ast.stmt]) -> None:
        """See that the batches of a loop can be shared out after one of some statements, the best one first."""
        if not ends:
            raise NotProved(step.picks[0], "inside an expression that computes with them")
        if not self.lasts(node):
            raise NotProved(node, "in a while loop, which may end sooner on one process than on another")
        self.state()
        for end in ends:
            try:
                step.made, step.names = end, self._names(step, node, end)
                self.flow(step, node.body.index(end))
                break
            except NotProved:
                if end is ends[-1]:
                    raise
        for statement, names in step.again.items():
            step.again[statement] = tuple(name for name in names if self.read_later(node, statement, name))
        step.again = {statement: names for statement, names in step.again.items() if names}
        for call in self.facts.loops.backwards_in(node, innermost=True):
            self.loss(step, call)

    def lasts(self, node: ast.For | ast.While) -> bool:
        """Whether a loop has as many iterations on every process: nothing but its number decides that it ends, or what
        it leaves by, which is looked at wherever a process decides."""
        if isinstance(node, ast.For) or (isinstance(node.test, ast.Constant) and node.test.value):
            return True
        strides = Strides(self.resolver, node)
        counted = strides.number
        early = (n for n in walk(node) if isinstance(n, ast.Continue) and counted in strides.raised)
        if any(position(n) < position(strides.raised[counted]) for n in early):
            return False  # it goes on without being raised
        bound = {name for statement in node.body for name in stores(statement)}
        names = {n.id for n in loads(node.test)}
        calls = (n for n in walk(node.test) if isinstance(n, ast.Call))
        known = all(self.resolver.builtin(c.func) in ("len", "min") or _is_size(c) for c in calls)
        return known and counted in names and not names & bound - {counted}

    def _names(self, step: Step, node: ast.For | ast.While, end: ast.stmt) -> tuple[str, ...]:
        """The variables that hold the batch after a statement, as far as they are read later."""
        place = node.body.index(end)
        env = step.before[place + 1] if place + 1 < len(step.before) else {}
        numbers, states = self._numbers(step, node, place), self._states(step, node, place)
        names = []
        for name in dict.fromkeys(n for s in node.body[: place + 1] for n in stored(s)):
            layout = env.get(name, Layout.CONST)
            if layout in HARMLESS or name in numbers | states or not self.read_later(node, end, name):
                continue
            if layout in (Layout.UNKNOWN, Layout.UNSURE):
                raise NotProved(end, f"and it cannot be followed what `{name}` is")
            if layout is not Layout.ROWS:
                raise NotProved(end, f"and `{name}` is computed from the whole batch before all of it is there")
            names.append(name)
        if not names:
            raise NotProved(end, "and nothing is computed from them")
        return tuple(names)

    def _numbers(self, step: Step, node: ast.For | ast.While, place: int) -> set[str]:
        """The variables that statements of a loop set to what follows from the numbers that it counts by alone."""
        strides = Strides(self.resolver, node)
        found = {strides.number, *strides.raised}
        stored = [n for statement in node.body for n in walk(statement) if isinstance(n, ast.Name)]
        for statement, env in zip(node.body[: place + 1], step.before, strict=False):
            value = statement.value if isinstance(statement, ast.Assign) else None
            calls = (n for n in walk(statement) if isinstance(n, (ast.Call, ast.Subscript)))
            if value is None or any(found & {n.id for n in loads(c)} and not self._is_least(c) for c in calls):
                continue
            known = env | dict.fromkeys(found, Layout.CONST)
            if self.layouts.read(value, known) in HARMLESS:
                once = [n.id for n in stored if isinstance(n.ctx, ast.Store)]
                found |= {name for name in stores(statement) if once.count(name) == 1}
        return found

    def _states(self, step: Step, node: ast.For | ast.While, place: int) -> set[str]:
        """The variables that are set, before the batch is shared out, to states for as many rows as a share has."""
        found: set[str] = set()
        for statement, env in zip(node.body[: place + 1], step.before, strict=False):
            told = any(n in self.layouts.sized.states for n in walk(statement)) and isinstance(statement, ast.Assign)
            if told and all(env.get(n.id, Layout.CONST) in HARMLESS for n in loads(statement)):
                found |= stores(statement)
            else:
                found -= stores(statement)
        return found

    def _is_least(self, node: ast.Call | ast.Subscript) -> bool:
        return isinstance(node, ast.Call) and self.resolver.builtin(node.func) in ("min", "max")

    def read_later(self, node: ast.For | ast.While, made: ast.stmt, name: str) -> bool:
        """Whether something reads a variable after the batch is complete; it must be the rest of the loop's body."""
        owner = self.index.scope(made).owner(name)
        if owner is None:
            return False
        later = False
        for load in self.facts.loads(owner, name):
            chain = {load, *self.index.ancestors(load)}
            top = next((i for i, s in enumerate(node.body) if s in chain), None)
            if self.index.function(load) is not self.index.function(node):
                raise NotProved(load, f"and `{name}` is read in another function")
            if top is None:
                if node in chain:
                    continue
                if any(node in self.index.ancestors(b.node) for b in self.resolver.reaching(load, owner)):
                    raise UsedLater(load, f"and `{name}` is used after the loop")
            elif top > node.body.index(made):
                later = True
        return later

    def state(self) -> None:
        """Networks that keep something of a batch for the next one."""
        for model in self.facts.objects.trained.values():
            for cls in self.resolver.ancestry(model.declaration):
                for method in cls.body:
                    if isinstance(method, FUNCTIONS) and method.name != "__init__":
                        for n in walk(method):
                            if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store):
                                raise NotProved(n, f"and {cls.name}.{method.name}() keeps something between batches")

    def flow(self, step: Step, place: int) -> None:
        """What is done with the rows must be done with each by itself, and leave nothing behind."""
        shares = {*step.names, *(name for names in step.again.values() for name in names)}
        for statement, env in zip(step.body[place + 1 :], step.before[place + 1 :], strict=True):
            for n in walk(statement):
                if isinstance(n, (ast.If, ast.While, ast.IfExp)):
                    self._decision(step, n)
                elif isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name):
                    if n.target.id in shares and writes_data(self.handmade, n.target, env):
                        raise NotProved(n, f"and `{self.facts.segment(n)}` may write to the data itself")
                elif isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store):
                    known = self.handmade.environment(step, n) or env
                    if written_by_rows(self.handmade, step, n, known):
                        raise NotProved(n, f"and `{self.facts.segment(n)}` is written by the rows of the batch")
                elif isinstance(n, ast.Name) and n.id in shares and isinstance(n.ctx, ast.Load):
                    around = self.index.statement(n)
                    if isinstance(around, ast.Expr) and not self.computes(around):
                        raise NotProved(n, f"and `{n.id}` is also used in `{self.facts.segment(around)}`")

    def _decision(self, step: Step, node: ast.If | ast.While | ast.IfExp) -> None:
        env = self.handmade.environment(step, node) or {}
        for name in (n for n in walk(node.test) if isinstance(n, ast.Name)):
            layout = env.get(name.id, Layout.CONST)
            if has_rows(layout) or layout in (Layout.COUNT, Layout.SHAPE, Layout.MIXED):
                raise NotProved(node, f"and `{self.facts.segment(node.test)}` decides by the rows of the batch")

    def loss(self, step: Step, call: ast.Call) -> None:
        """A backward pass must be one of every iteration, on a mean or a sum over the rows."""
        if self.resolver.qualified(call.func) == "torch.autograd.backward":
            raise NotProved(call, "and torch.autograd.backward is called with a part of the loss only")
        assert isinstance(call.func, ast.Attribute)
        site = step.sites[:1]
        for outer in (*self.index.ancestors(call), *(outer for s in site for outer in self.index.ancestors(s))):
            if outer is step.loop.node:
                break
            if outer is step.function:
                continue
            if isinstance(outer, (ast.If, ast.Try, *FUNCTIONS)):
                raise NotProved(outer, "and not every iteration trains on its batch")
        env = self.handmade.environment(step, call)
        layout = self.layouts.read(call.func.value, env) if env is not None else Layout.UNKNOWN
        name = self.facts.segment(call.func.value)
        if layout is Layout.MIXED:
            raise NotProved(
                call, f"and `{name}` compares the samples of a batch, or is otherwise not a mean or a sum over them"
            )
        if layout not in _LOSSES:
            region = (step.loop.node, step.body, step.before[0])
            part = Unknown(self.handmade, region).part(call.func.value)
            lost = f", as `{self.facts.short(part)}` cannot be followed" if part is not call.func.value else ""
            raise NotProved(call, f"and it cannot be proved that `{name}` is a mean or a sum over them{lost}", part)


def stored(statement: ast.AST) -> list[str]:
    """Names that a statement or target binds, in source order."""
    names = [n for n in walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return [n.id for n in sorted(names, key=lambda n: (n.lineno, n.col_offset))]


def _is_size(call: ast.Call) -> bool:
    """Whether a call is one of `x.size()`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "size"


def has_rows(value: Shape) -> bool:
    return any(map(has_rows, value)) if isinstance(value, tuple) else value is Layout.ROWS
