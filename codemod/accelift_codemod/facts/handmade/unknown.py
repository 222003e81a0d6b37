"""What keeps a loss from being followed: on the way back to the data, the first part of it that nothing is known of."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import FUNCTIONS, position
from accelift_codemod.facts.layout import METHODS, Environment, Layout, Shape
from accelift_codemod.facts.layout.pieces import put_into
from accelift_codemod.facts.layout.strides import Strides
from accelift_codemod.facts.tree import children, walk

if TYPE_CHECKING:
    from accelift_codemod.facts import Facts
    from accelift_codemod.facts.handmade import Handmade, Region

_MOST_STEPS = 40


class Unknown:
    """Goes back from the loss of one backward pass."""

    def __init__(self, handmade: Handmade, region: Region) -> None:
        self.handmade = handmade
        self.index = handmade.index
        self.resolver = handmade.resolver
        self.layouts = handmade.layouts
        self.loop, self.body, self.start = region

    def part(self, node: ast.expr) -> ast.expr:
        """The part of an expression; a variable only if it is one that the loop is over."""
        whole = node
        for _ in range(_MOST_STEPS):
            if isinstance(node, ast.Name):
                made = self._made(node)
                if made is None:
                    return node if self._dealt(node) else whole
                whole = node = made
                continue
            inside = self._inside(node)
            if inside is None:
                return self.layouts.first_lost(self.loop, node, self._before(node)) or node
            whole, node = node, inside
        return node

    def _made(self, name: ast.Name) -> ast.expr | None:
        """What a statement of the loop binds a variable to, or puts into the list that it is; of several, the last one
        that is not known. What is added later (a penalty of the parameters) comes after what it is added to."""
        owner = self.index.scope(name).owner(name.id)
        found = [
            b.value
            for b in (owner.bindings[name.id] if owner is not None else ())
            if b.value is not None
            and position(b.value) < position(name)
            and self.index.statement(b.node) is not self.index.statement(name)
            and isinstance(self.index.statement(b.node), (ast.Assign, ast.AugAssign))
            and any(s in self.index.ancestors(b.node) for s in self.body)
        ]
        put = (value for list_, value in put_into(self.body) if list_ == name.id)
        found += (value for value in put if position(value) < position(name))
        found.sort(key=position, reverse=True)
        found.sort(key=lambda value: isinstance(self.index.parents.get(value), ast.AugAssign))
        return next((value for value in found if self._unknown(self._read(value))), next(iter(found), None))

    def _dealt(self, name: ast.Name) -> bool:
        """Whether a variable is what a loop deals, and no number that it counts by."""
        if not isinstance(self.loop, ast.For) or name.id not in stores(self.loop.target):
            return False
        return Strides(self.resolver, self.loop).number != name.id

    def _inside(self, node: ast.expr) -> ast.expr | None:
        """The first part of an expression that is not known; what a network is called on comes before the network."""
        env = self._before(node)
        parts = [c for c in children(node) if isinstance(c, ast.expr) and not isinstance(c, ast.Slice)]
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            parts = [generator.iter for generator in node.generators]
        if isinstance(node, ast.Subscript):
            parts = [node.value]  # by what place something is taken, matters less than that it is taken
        if isinstance(node, ast.Call):
            method = isinstance(node.func, ast.Attribute) and not self.resolver.values(node.func)
            parts = [node.func.value] if method else []  # type: ignore[attr-defined]
            parts += [*node.args, *(k.value for k in node.keywords)]
        return next((part for part in parts if self._unknown(self.layouts.read(part, env))), None)

    def _before(self, node: ast.AST) -> Environment:
        self.layouts.begin(self.loop)
        return self.layouts.before(node, self.body, dict(self.start)) or {}

    def _read(self, node: ast.expr) -> Shape:
        return self.layouts.read(node, self._before(node))

    def _unknown(self, value: Shape) -> bool:
        unknown = (Layout.UNKNOWN, Layout.UNSURE)
        return any(map(self._unknown, value)) if isinstance(value, tuple) else value in unknown


class Lacking:
    """Why the data of a script cannot be shared out, seen from a backward pass."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.index = facts.index
        self.resolver = facts.resolver
        self.handmade = facts.handmade

    def carried(self, call: ast.Call) -> tuple[str, ast.Call] | None:
        """The variable that takes something from one batch to the next, and the call of a network that gives it back:
        `output, hidden = model(data, hidden)`."""
        region = self.handmade.region(call)
        for node in (n for statement in (region[1] if region is not None else ()) for n in walk(statement)):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                given = {n.id for argument in self._given(node) for n in loads(argument)}
                kept = sorted(given & {name for target in node.targets for name in stores(target)})
                if kept and self.facts.objects.models(node.value.func) and self._returned_to(kept[0], region[0]):  # type: ignore[index]
                    return kept[0], node.value
        return None

    def _returned_to(self, name: str, loop: ast.AST) -> bool:
        """Whether a variable has something before a loop begins."""
        owner = self.index.scope(loop).owner(name)
        bindings = owner.bindings[name] if owner is not None else []
        return any(loop not in self.index.ancestors(b.node) for b in bindings)

    def source(self, call: ast.Call) -> ast.expr | None:
        """What the loop around a backward pass gets the input of a network by, if that cannot be followed."""
        region = self.handmade.region(call)
        made: dict[str, ast.Call] = {}
        for statement in region[1] if region is not None else ():
            for given in self._given(statement):
                for name in (n for n in walk(given) if isinstance(n, ast.Name) and n.id in made):
                    return made[name.id]
            if isinstance(statement, ast.Assign):
                inside = [made[n.id] for n in loads(statement.value) if n.id in made]
                origin = self._unfollowed(statement.value) or (inside[0] if inside else None)
                made.update(dict.fromkeys(stores(statement), origin) if origin is not None else {})
        return None

    def _given(self, statement: ast.stmt) -> list[ast.expr]:
        """What a statement hands to networks."""
        calls = [n for n in walk(statement) if isinstance(n, ast.Call) and self.facts.objects.models(n.func)]
        return [argument for call in calls for argument in (*call.args, *(k.value for k in call.keywords))]

    def _unfollowed(self, node: ast.expr) -> ast.Call | None:
        """The call behind an expression, if it is one of something that is not known."""
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            node = node.func.value
        if not isinstance(node, ast.Call) or self.resolver.callee(node) is not None:
            return None
        if self.resolver.builtin(node.func) == "next":
            return node
        func = node.func
        method = isinstance(func, ast.Attribute) and not self.facts.objects.models(func.value)
        return node if method and self.resolver.qualified(func) is None else None

    def unknown(self, call: ast.Call) -> ast.expr | None:
        """What the loss of a backward pass is computed from, if that cannot be followed."""
        region = self.handmade.region(call)
        if region is None or not isinstance(call.func, ast.Attribute):
            return None
        return Unknown(self.handmade, region).part(call.func.value)


def in_no_loop(handmade: Handmade, node: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether no loop surely runs a node again, by way of calls either."""
    function = handmade.index.function(node)
    if handmade.index.enclosing_loops(node) or function in seen:
        return False
    if not isinstance(function, FUNCTIONS):
        return function is None
    places = handmade.resolver.sites(function)
    known = not handmade.facts.references(function) and bool(places)
    return known and all(in_no_loop(handmade, place, seen | {function}) for place in places)
