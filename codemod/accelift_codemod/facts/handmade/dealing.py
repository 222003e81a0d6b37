"""What loops deal that are over batches which the script makes itself: by a generator, or by cutting data to pieces."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts import library
from accelift_codemod.facts.effects import appended, stores
from accelift_codemod.facts.index import FUNCTIONS, Function, How
from accelift_codemod.facts.layout import Layout, Picked, Shape
from accelift_codemod.facts.layout.algebra import FIXED
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.facts.handmade import Handmade

_SHUFFLES = frozenset({"random.shuffle", "numpy.random.shuffle"})
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
        if isinstance(node, ast.Name):
            kept = self._kept(node)
            return self.of(kept) if kept is not None else Layout.UNKNOWN
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and len(node.generators) == 1:
            return self._made(node, node.elt) if not node.generators[0].ifs else Layout.UNKNOWN
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

    def _kept(self, name: ast.Name) -> ast.expr | None:
        """What makes the batches that a variable holds, if nothing does anything to them but change their order."""
        owner = self.index.scope(name).owner(name.id)
        bindings = owner.bindings[name.id] if owner is not None else []
        if owner is None or len(bindings) != 1 or bindings[0].how is not How.ASSIGN or bindings[0].path:
            return None
        loads = self.handmade.facts.loads(owner, name.id)
        return bindings[0].value if all(map(self._only_gone_over, loads)) else None

    def _only_gone_over(self, name: ast.Name) -> bool:
        """Whether a variable is read as what a loop goes over, for its length, or to be shuffled."""
        call = self.index.parents.get(name)
        if isinstance(call, ast.Call):
            function = self.resolver.builtin(call.func) or self.resolver.qualified(call.func) or ""
            return function in ("len", "zip", "enumerate", *library.ITERATES, *_SHUFFLES) and name in call.args
        return isinstance(call, (ast.For, ast.comprehension)) and name is call.iter

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
        """What a function of the script yields, or puts into the list that it returns, in its only loop, at one place
        that every iteration comes to."""
        statement, value = self._put(function)
        given = self.resolver.bind(call, function)
        loop = next(iter(self.index.enclosing_loops(statement)), None) if statement is not None else None
        if value is None or given is None or not isinstance(loop, (ast.For, ast.While)):
            return Layout.UNKNOWN
        if statement not in loop.body or loop not in function.body:
            return Layout.UNKNOWN
        if any(self.layouts.read(one, {}) not in FIXED for one in given.values()):
            return Layout.UNKNOWN
        return self._made(loop, value, function)

    def _put(self, function: Function) -> tuple[ast.stmt | None, ast.expr | None]:
        """The only statement of a function that yields something, or appends it to the list that it returns."""
        nodes = list(walk(function))
        yields = [n for n in nodes if isinstance(n, (ast.Yield, ast.YieldFrom))]
        if yields:
            statement = self.index.statement(yields[0])
            plain = len(yields) == 1 and isinstance(yields[0], ast.Yield) and isinstance(statement, ast.Expr)
            return (statement, yields[0].value) if plain else (None, None)
        returns = [n.value for n in nodes if isinstance(n, ast.Return)]
        listed = returns[0] if len(returns) == 1 else None
        found = [(n, put[1]) for n in nodes if isinstance(n, ast.stmt) and (put := appended(n)) is not None]
        if not isinstance(listed, ast.Name) or len(found) != 1:
            return None, None
        uses = [n for n in nodes if isinstance(n, ast.Name) and n.id == listed.id]
        begun = [b.value for b in self.resolver.bindings(listed)]
        empty = len(begun) == 1 and isinstance(begun[0], ast.List) and not begun[0].elts
        return found[0] if empty and len(uses) == 3 and appended(found[0][0])[0] == listed.id else (None, None)  # type: ignore[index]

    def _made(
        self,
        loop: ast.For | ast.While | ast.ListComp | ast.GeneratorExp,
        value: ast.expr,
        function: Function | None = None,
    ) -> Shape:
        """What a loop of a function, or a comprehension, makes in each iteration."""
        header = loop.generators[0] if isinstance(loop, (ast.ListComp, ast.GeneratorExp)) else loop
        begun = self.handmade.start(loop) if isinstance(loop, (ast.For, ast.While)) else {}
        cut = None
        if isinstance(header, (ast.For, ast.comprehension)):
            begun |= dict.fromkeys(stores(header.target), Layout.UNKNOWN)
            if isinstance(header.iter, ast.Call) and self._cut(header.iter) is Layout.ROWS:
                cut = header.iter  # `for rows in order.split(16)`
                self.layouts.assign(header.target, Layout.ROWS, begun)
        body = loop.body if isinstance(loop, (ast.For, ast.While)) else []
        skips = isinstance(loop, (ast.For, ast.While)) and self._skips(loop)
        if self.layouts.decided_by_chance(function or loop, cut) or skips:
            self.picks.clear()
            return Layout.UNKNOWN  # the processes might not be dealt as many batches
        self.layouts.begin(loop)
        env = (self.layouts.before(value, body, begun) or {}) if body else begun
        found = self.layouts.read(value, env)
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
