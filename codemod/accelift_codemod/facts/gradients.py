"""Gradients: what runs without them, and what they flow through to losses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import children, is_constant
from accelift_codemod.facts.values import Role

_DEPTH = 6  # of calls
_OFF = frozenset({"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad"})
_SETS = frozenset({"torch.set_grad_enabled", "torch.autograd.set_grad_enabled"})
_NUMBERS = frozenset({"float", "int", "len", "bool", "str", "range"})
_FILLS = ("append", "extend", "insert", "add")


def off(resolver: Resolver, node: ast.AST, depth: int = 0) -> bool:
    """Whether a node only runs with gradients switched off."""
    for parent in resolver.index.ancestors(node):
        if isinstance(parent, (ast.With, ast.AsyncWith)):
            if any(_switches_off(resolver, item.context_expr) for item in parent.items):
                return True
        elif isinstance(parent, FUNCTIONS):
            if any(_switches_off(resolver, decorator) for decorator in parent.decorator_list):
                return True
            sites = resolver.sites(parent)
            return bool(sites) and depth < _DEPTH and all(off(resolver, site, depth + 1) for site in sites)
    return False


def off_within(resolver: Resolver, node: ast.AST) -> bool:
    """Whether the function that a node is in switches gradients off for it, whoever calls it."""
    return off(resolver, node, _DEPTH)


def _switches_off(resolver: Resolver, node: ast.expr) -> bool:
    qualified = resolver.qualified(node.func if isinstance(node, ast.Call) else node) or ""
    if qualified in _OFF:
        return True
    first = node.args[0] if isinstance(node, ast.Call) and node.args else None
    return qualified in _SETS and is_constant(first, False)


class Gradients:
    """What gradients flow through to losses: found backwards, from each backward pass."""

    def __init__(self, resolver: Resolver, backwards: list[ast.Call]) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self.backwards = backwards

    @cached_property
    def loops(self) -> frozenset[ast.AST]:
        """The loops that compute, with models or losses, what a backward pass outside of them goes back from:
        `for x, y in loader: total += criterion(net(x), y)`, and then `total.backward()`."""
        return frozenset(loop for call in self.backwards for loop in self.before(call)[0])

    @cached_property
    def reads(self) -> frozenset[ast.AST]:
        """Where what such loops compute is read on its way to the loss."""
        return frozenset(read for call in self.backwards for read in self.before(call)[1])

    @memoised
    def before(self, call: ast.Call) -> tuple[frozenset[ast.AST], frozenset[ast.AST]]:
        """Such loops of one backward pass, and such reads."""
        loops: set[ast.AST] = set()
        reads: set[ast.AST] = set()
        if isinstance(call.func, ast.Attribute):
            around = self._around(call)
            led = self.led(call.func.value)
            for source in [node for node in led if self._computes(node)]:
                outside = [loop for loop in self.index.enclosing_loops(source) if loop not in around]
                if outside and not off(self.resolver, source):
                    loops.update(outside)
                    reads.update(_back(source, led))
        return frozenset(loops), frozenset(reads)

    def _around(self, call: ast.Call) -> frozenset[ast.AST]:
        """What is around a backward pass, and around the calls of the functions that it is in: `step(loss)`."""
        around = {*self.index.ancestors(call)}
        functions = [self.index.function(call)]
        for function in functions:
            for site in self.resolver.sites(function) if function is not None else ():
                around.update(self.index.ancestors(site))
                if self.index.function(site) not in functions:
                    functions.append(self.index.function(site))
        return frozenset(around)

    def _computes(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and bool(self.resolver.roles(node.func) & {Role.MODEL, Role.LOSS})

    def led(self, loss: ast.expr) -> dict[ast.AST, list[ast.AST]]:
        """What a loss is computed from, as far as gradients flow back, each with what it is used in."""
        found: dict[ast.AST, list[ast.AST]] = {loss: []}
        queue: list[ast.AST] = [loss]
        entered: set[ast.AST] = set()
        for node in queue:
            for part in self._parts(node, entered):
                if part not in found:
                    queue.append(part)
                found.setdefault(part, []).append(node)
        return found

    def _parts(self, node: ast.AST, entered: set[ast.AST]) -> Iterator[ast.AST]:
        """What an expression with a gradient is computed from; notes the functions whose calls are parts of it."""
        if isinstance(node, (ast.Compare, ast.Constant)) or (
            isinstance(node, ast.Attribute) and node.attr in torch_ops.NO_GRADIENT
        ):
            return
        if isinstance(node, ast.Name):
            yield from self._kept(node, entered)
            return
        if isinstance(node, ast.Call):
            if self.resolver.builtin(node.func) in _NUMBERS:
                return
            if isinstance(target := self.resolver.callee(node), FUNCTIONS):
                entered.add(target)
                yield from (r.value for r in self.resolver.returns(target) if r.value is not None)
        yield from children(node)

    def _kept(self, name: ast.Name, entered: set[ast.AST]) -> Iterator[ast.AST]:
        """What a variable is set to, is added to it, or is given to the list that it is. A parameter is what all calls
        hand over, unless the loss comes from one of them, whose arguments are parts of it."""
        owner = self.index.scope(name).owner(name.id)
        if owner is None:
            return
        starts = frozenset(self.resolver.reaching(name, owner))
        for binding in owner.bindings[name.id]:
            added = (
                binding.how is How.AUGMENT
                and isinstance(binding.node, ast.Name)
                and self._meets(binding.node, starts)
                and self.resolver.remains(binding, name)
            )
            if added or (binding in starts and binding.how is How.ASSIGN and not any(binding.path)):
                yield from filter(None, [binding.value])  # not the second of `max(1)`, which says which one it was
            elif binding in starts and binding.how is How.PARAMETER and owner.node not in entered:
                yield from filter(None, self.resolver.handed(binding))
        for given, call in self._filled.get(name.id, ()):
            if self._meets(given, starts):
                yield from call.args

    @cached_property
    def _filled(self) -> dict[str, list[tuple[ast.Name, ast.Call]]]:
        """By the name of a variable, the calls that put something into a list in it."""
        found: dict[str, list[tuple[ast.Name, ast.Call]]] = {}
        for call in (c for method in _FILLS for c in self.index.methods.get(method, [])):
            given = call.func.value if isinstance(call.func, ast.Attribute) else None
            if isinstance(given, ast.Name):
                found.setdefault(given.id, []).append((given, call))
        return found

    def _meets(self, name: ast.Name, starts: frozenset[Binding]) -> bool:
        """Whether a variable may hold there what it has held from some bindings on."""
        return not starts.isdisjoint(self.resolver.bindings(name))


def _back(source: ast.AST, led: dict[ast.AST, list[ast.AST]]) -> set[ast.AST]:
    """All that something leads to."""
    found: set[ast.AST] = {source}
    queue = [source]
    for node in queue:
        for outer in led[node]:
            if outer not in found:
                found.add(outer)
                queue.append(outer)
    return found
