"""Slices that cut data into batches: each iteration of a loop takes the rows that follow those of the one before."""

from __future__ import annotations

import ast

from accelift_codemod.facts import library
from accelift_codemod.facts.index import How, position
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk


class Strides:
    """The numbers that a loop counts by, and slices whose bounds follow them."""

    def __init__(self, resolver: Resolver, loop: ast.AST | None) -> None:
        self.resolver = resolver
        self.loop = loop
        self.raised: dict[str, ast.stmt] = {}  # the statement that raises a variable
        raised = self._raised(loop)
        counted = self._counts(loop) if isinstance(loop, ast.For) else next(iter(raised), ("", ""))
        self.number, self.step = counted
        self._pairs = dict.fromkeys((counted, *raised))

    def rows(self, bounds: ast.Slice) -> str | None:
        """The code that says how many rows a slice has, if the slices of two iterations have no row in common."""
        for number, step in self._pairs:
            if number in self.raised and not self._before(bounds, self.raised[number]):
                continue
            found = Stride(self.resolver, self.loop, number, step).rows(bounds) if number else None
            if found is not None:
                return found
        return None

    def _before(self, bounds: ast.Slice, statement: ast.stmt) -> bool:
        """Whether a slice is taken in the loop, before a variable in its bounds is raised."""
        inside = self.loop is not None and self.loop in self.resolver.index.ancestors(bounds)
        return inside and position(bounds.lower or bounds) < position(statement)

    def _raised(self, loop: ast.AST | None) -> list[tuple[str, str]]:
        """The variables that each iteration raises, and by how much; nothing else in the loop changes them, but that a
        `for` loop may begin again at a number. What is raised last comes first."""
        found: list[tuple[str, str]] = []
        for statement in reversed(loop.body) if isinstance(loop, (ast.For, ast.While)) else ():
            target, step = _added(statement)
            if step is None or not isinstance(target, ast.Name) or self._set_otherwise(target.id, statement):
                continue
            self.raised[target.id] = statement
            found.append((target.id, ast.unparse(step)))
        return found

    def _set_otherwise(self, name: str, raises: ast.stmt) -> bool:
        """Whether something else in the loop binds a variable, other than to a number that is written there."""
        if self.loop is None:
            return True
        index = self.resolver.index
        stored = [n for n in walk(self.loop) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
        others = [index.statement(n) for n in stored if n.id == name and index.statement(n) is not raises]
        again = isinstance(self.loop, ast.For)
        return not all(again and isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant) for s in others)

    def _counts(self, loop: ast.For) -> tuple[str, str]:
        """The variable that a loop over a range counts with, and the step."""
        target, node = loop.target, loop.iter
        while isinstance(node, ast.Call) and node.args:
            name = self.resolver.builtin(node.func) or self.resolver.qualified(node.func) or ""
            if name == "range" or name.endswith("trange"):
                step = ast.unparse(node.args[2]) if len(node.args) == 3 else "1"
                return (target.id, step) if isinstance(target, ast.Name) else ("", "")
            if name == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
                target = target.elts[1]
            elif name not in library.ITERATES:
                break
            node = node.args[0]
        return "", ""


class Stride:
    """One number that follows a loop, and slices whose bounds follow it."""

    def __init__(self, resolver: Resolver, loop: ast.AST | None, number: str, step: str) -> None:
        self.resolver = resolver
        self.loop = loop
        self.number = number
        self.step = step

    def rows(self, bounds: ast.Slice) -> str | None:
        """The code that says how many rows a slice has, if its bounds follow the number."""
        lower, upper = self._plain(bounds.lower), self._plain(bounds.upper)
        if bounds.upper is None and bounds.step is None and lower is not None and self.number:
            return self._rest(bounds, lower)
        if bounds.step is not None or lower is None or upper is None or not self.number:
            return None
        if isinstance(upper, ast.Call) and self.resolver.builtin(upper.func) == "min":  # min(i + size, len(x))
            uppers = [self._plain(a) for a in upper.args]
        else:
            uppers = [upper]
        own = ast.unparse(bounds.lower) if bounds.lower is not None else ""
        return next((rows for one in uppers if (rows := self._between(lower, one, own))), None)

    def _between(self, lower: ast.expr, upper: ast.expr | None, own: str) -> str | None:
        """How many rows are between two bounds; `own` is what the script calls the lower one."""
        number, step = self.number, self.step
        low, high = ast.unparse(lower), ast.unparse(upper) if upper is not None else ""
        if own != low and high.startswith(f"{own} + "):  # `start = i * size`, `end = start + size`
            high = high.replace(own, low, 1)
        if low == number and high in (f"{number} + {step}", f"{step} + {number}"):
            return step
        for size in self._factors(lower) if step == "1" else ():
            if low in (f"{number} * {size}", f"{size} * {number}"):
                following = (f"({number} + 1) * {size}", f"{size} * ({number} + 1)", f"{low} + {size}")
                if high in following:
                    return size
        return None

    def _rest(self, bounds: ast.Slice, lower: ast.expr) -> str | None:
        """Of all that is left: as many rows at most as other slices have, if it is taken in some iterations only."""
        for outer in self.resolver.index.ancestors(bounds):
            if outer is self.loop:
                return None
            if isinstance(outer, (ast.If, ast.IfExp)):
                break
        low = ast.unparse(lower)
        if low == self.number:
            return self.step
        sizes = self._factors(lower) if self.step == "1" else []
        return next((size for size in sizes if low in (f"{self.number} * {size}", f"{size} * {self.number}")), None)

    def _factors(self, node: ast.expr) -> list[str]:
        both = (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else ()
        return [ast.unparse(side) for side in both]

    def _plain(self, node: ast.expr | None) -> ast.expr | None:
        """An expression; that of a variable which is bound to one and only one, as in `end = start + size`."""
        if isinstance(node, ast.Name) and node.id != self.number:
            owner = self.resolver.index.scope(node).owner(node.id)
            bindings = owner.bindings[node.id] if owner is not None else []
            if len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path:
                return bindings[0].value
        return node


def _added(statement: ast.stmt | None) -> tuple[ast.expr | None, ast.expr | None]:
    """What a statement raises, and by how much: `i += size`, `i = i + size`."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        return statement.target, statement.value
    value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod):  # `i = (i + size) % len(x)`
        value = value.left
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        target = statement.targets[0]  # type: ignore[union-attr]
        if ast.unparse(value.left) == ast.unparse(target):
            return target, value.right
    return None, None
