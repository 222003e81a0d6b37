"""What loops deal that are over batches which the script makes itself: by a generator, or by cutting data to pieces."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts import library
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.layout import Layout, Picked, Shape
from accelift_codemod.facts.layout.algebra import FIXED
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.facts.handmade import Handmade

_CUTS = frozenset({"split", "chunk", "array_split", "tensor_split"})


class Dealing:
    """Answers that for one loop; `picks` are the expressions that pick rows, as `Picked` has them."""

    def __init__(self, handmade: Handmade, layouts: Picked) -> None:
        self.handmade = handmade
        self.layouts = layouts
        self.resolver = handmade.resolver
        self.index = handmade.index
        self.picks: dict[ast.expr, str] = {}

    def of(self, node: ast.expr) -> Shape:
        """The layout of what iterating over an expression deals; UNKNOWN if that is not known."""
        if not isinstance(node, ast.Call) or (not node.args and self.resolver.callee(node) is None):
            return self._cut(node) if isinstance(node, ast.Call) else Layout.UNKNOWN
        builtin = self.resolver.builtin(node.func)
        if builtin == "enumerate":
            return (Layout.UNKNOWN, self.of(node.args[0]))
        if builtin == "zip":
            return tuple(map(self.of, node.args))
        if (builtin or self.resolver.qualified(node.func) or "") in library.ITERATES:
            return self.of(node.args[0])
        function = self.resolver.callee(node)
        return self._generated(node, function) if isinstance(function, FUNCTIONS) else self._cut(node)

    def _cut(self, call: ast.Call) -> Shape:
        """Pieces of data: `order.split(16)`, `torch.chunk(x, 4)`."""
        module, _, name = (self.resolver.qualified(call.func) or "").rpartition(".")
        if module in ("torch", "numpy") and name in _CUTS:
            data, sizes = next(iter(call.args), None), call.args[1:]
        elif not module and isinstance(call.func, ast.Attribute) and call.func.attr in _CUTS:
            name, data, sizes = call.func.attr, call.func.value, call.args
        else:
            return Layout.UNKNOWN
        along = argument(call, 2 if module else 1, "dim") or argument(call, None, "axis")
        plain = len(sizes) == 1 and not isinstance(sizes[0], (ast.List, ast.Tuple, ast.JoinedStr))
        if plain and isinstance(sizes[0], ast.Constant) and not isinstance(sizes[0].value, int):
            return Layout.UNKNOWN  # a text, cut to words
        if data is None or not plain or (along is not None and integer(along) != 0):
            return Layout.UNKNOWN
        known = self.layouts.permutes(data) or self.layouts.read(data, {}) in FIXED
        if not known or self.layouts.read(sizes[0], {}) not in FIXED:
            return Layout.UNKNOWN
        self.picks[call] = f"{name} {ast.unparse(sizes[0])}"
        return Layout.ROWS

    def _generated(self, call: ast.Call, function: Function) -> Shape:
        """What a generator of the script yields, in its only loop, at one place that every iteration comes to."""
        yields = [n for n in walk(function) if isinstance(n, (ast.Yield, ast.YieldFrom))]
        given = self.resolver.bind(call, function)
        if given is None or len(yields) != 1 or not isinstance(yields[0], ast.Yield):
            return Layout.UNKNOWN
        loop = next(iter(self.index.enclosing_loops(yields[0])), None)
        if not isinstance(loop, (ast.For, ast.While)):
            return Layout.UNKNOWN
        statement = self.index.statement(yields[0])
        if statement not in loop.body or not isinstance(statement, ast.Expr) or loop not in function.body:
            return Layout.UNKNOWN
        if any(self.layouts.read(value, {}) not in FIXED for value in given.values()):
            return Layout.UNKNOWN
        start, cut = self.handmade.start(loop), None
        if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and self._cut(loop.iter) is Layout.ROWS:
            cut = loop.iter  # `for rows in order.split(16)`
            self.layouts.assign(loop.target, Layout.ROWS, start)
        if self.layouts.decided_by_chance(function, cut) or self._skips(loop):
            self.picks.clear()
            return Layout.UNKNOWN  # the processes might not be dealt as many batches
        self.layouts.begin(loop)
        env = self.layouts.before(statement, loop.body, start) or {}
        found = self.layouts.read(yields[0].value, env)
        self.picks.update(self.layouts.picks)
        return found

    def _skips(self, loop: ast.For | ast.While) -> bool:
        """Whether what is in a batch, other than how many rows it has, may decide that it is not yielded."""
        for test in (n.test for n in walk(loop) if isinstance(n, (ast.If, ast.While))):
            self.layouts.begin(loop)
            env = self.layouts.before(test, loop.body, self.handmade.start(loop)) or {}
            for name in (n for n in walk(test) if isinstance(n, ast.Name) and env.get(n.id) is Layout.ROWS):
                call = self.index.parents.get(name)
                if not isinstance(call, ast.Call) or self.resolver.builtin(call.func) != "len":
                    return True
        return False
