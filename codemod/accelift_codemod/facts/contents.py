"""What containers of models, optimizers or loaders hold, with the entries that are put into them later."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from accelift_codemod.facts import parts
from accelift_codemod.facts.classes import own_class
from accelift_codemod.facts.fills import Fill, Fills, find
from accelift_codemod.facts.index import Binding, How, Scope
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.supposed import passed_by
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role, Value, Values

if TYPE_CHECKING:
    from accelift_codemod.facts.resolve import Resolver

CONTAINERS = frozenset({Role.DICT, Role.TUPLE, Role.SEQUENCE, Role.ENUMERATE, Role.ZIP, Role.ITERATOR})
KEPT = frozenset({Role.MODEL, Role.LOSS, Role.OPTIMIZER, Role.SCHEDULER, Role.LOADER})
_DICTS = frozenset({"dict", "collections.OrderedDict"})
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Try)


class Contents:
    """Answers what is in containers that are filled entry by entry."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self.known: dict[tuple[Scope | ast.AST, str], tuple[list[tuple[Fill, Values]], bool]] = {}

    def of(self, binding: Binding, values: Values) -> Values:
        """What a binding gives its variable, with what is put into it there later if that are objects that train, or
        functions."""
        if binding.how is not How.ASSIGN or binding.path:
            return values
        fills = self._fills(binding)
        entries = fills.entries
        if entries and self._is_again(binding, values):
            return values
        container = self._container(binding.value, values) if entries else None
        if container is None:
            return values
        put, trains = self._put(binding, entries)
        runs = not fills.otherwise and all(any(map(_runs, given)) for _, given in put)
        if not trains and not runs and not any(v.role in KEPT for v in inside((container,))):
            return values
        known = all(self.certain(binding, fill) for fill in entries)
        if container.role is Role.DICT:
            return (self._mapping(container, put),)
        if known and all(fill.key is None for fill in entries):
            return (replace(container, inner=(*container.inner, *(given for _, given in put))),)
        either = parts.unique(v for part in (*container.inner, *(given for _, given in put)) for v in part)
        return (Value(Role.SEQUENCE, container.origin, inner=(either,)),)

    def _fills(self, binding: Binding) -> Fills:
        """What is put into the container in a variable; in an attribute, by the methods of its class."""
        if not isinstance(binding.node, ast.Attribute) or binding.name != binding.node.attr:
            return self.resolver.fills(binding.scope, binding.name)
        cls = own_class(self.index, binding.node.value)
        return self._in_attributes(binding.name).get(cls, Fills()) if cls is not None else Fills()

    @memoised
    def _in_attributes(self, name: str) -> dict[ast.ClassDef | None, Fills]:
        """What the methods of each class put into the container in an attribute of a name."""
        reads: dict[ast.ClassDef | None, list[ast.Attribute]] = {}
        for read in self.index.attributes.get(name, []):
            reads.setdefault(own_class(self.index, read.value), []).append(read)
        return {cls: find(self.index, own) for cls, own in reads.items()}

    def _is_again(self, binding: Binding, values: Values) -> bool:
        """Whether a list takes the place of the one that it is made of, and so has what is put into that already."""
        made = binding.value
        over = made.generators[0].iter if isinstance(made, ast.ListComp) else None
        same = all(v.origin is made and v.role is Role.TUPLE for v in values)
        return same and isinstance(over, ast.Name) and over.id == binding.name

    def _put(self, binding: Binding, entries: list[Fill]) -> tuple[list[tuple[Fill, Values]], bool]:
        """What entries of a variable's container may be, and whether some of it are objects that train."""
        variable = binding.node, binding.name
        known = self.known.get(variable)
        if known is None:
            put = [(fill, self.value(fill)) for fill in entries]
            known = put, any(v.role in KEPT for _, given in put for v in inside(given))
            if all(self.resolver.is_settled(fill.value) for fill in entries):
                self.known[variable] = known
        return known

    def value(self, fill: Fill) -> Values:
        """What an entry may be."""
        values = self.resolver.values(fill.value)
        for step in fill.path:
            values = parts.item(values, step)
        known = tuple(v for v in values if v.origin is not fill.value or v.role is not Role.OBJECT)
        return known or values  # `nets["G"] = nets["G"].to(device)` gives what is known of the entry otherwise

    def certain(self, binding: Binding, fill: Fill) -> bool:
        """Whether the entry is there in any case, from the statement on that puts it there: nothing decides about it.

        A loop over keys that are written out counts as one statement.
        """
        block, place = self.index.block(self.index.statement(binding.node))
        statement = self.index.statement(fill.node)
        loop = self.index.parents[statement]
        if isinstance(loop, ast.For) and statement in loop.body and None not in self._keys(fill.key):
            if any(isinstance(n, _LEAVING) for n in walk(loop)):
                return False
            statement = loop
        other, at = self.index.block(statement)
        return other is block and at > place

    def _container(self, node: ast.expr | None, values: Values) -> Value | None:
        """The list or dict that an expression is."""
        if len(values) == 1 and values[0].role in (Role.DICT, Role.TUPLE) and not isinstance(node, ast.Tuple):
            return values[0]
        if isinstance(node, ast.Call) and not node.args and not node.keywords:
            made = self.resolver.builtin(node.func) or self.resolver.qualified(node.func)
            if made in _DICTS:
                return Value(Role.DICT, node)
            return Value(Role.TUPLE, node) if made == "list" else None
        return None

    def _mapping(self, container: Value, put: list[tuple[Fill, Values]]) -> Value:
        entries = {key: [*inner] for key, inner in zip(container.keys, container.inner, strict=True)}
        for fill, values in put:
            keys = self.resolver.values(fill.key) if None not in self._keys(fill.key) else ()
            loop = next(iter(self.index.enclosing_loops(fill.node)), None)
            for key in self._keys(fill.key):
                if passed_by(self.index, fill.node, loop, fill.key, key):
                    continue
                told = parts.of_entry(values, loop, fill.key, keys, key, self.index)
                entries.setdefault(key, []).extend(told or (Value(Role.OBJECT, fill.value),))
        return replace(container, inner=tuple(map(parts.unique, entries.values())), keys=tuple(entries))

    def _keys(self, node: ast.expr | None) -> tuple[object, ...]:
        """The keys that a subscript may be; None: one that is not known."""
        values = self.resolver.values(node)
        if not values or any(v.role is not Role.CONSTANT for v in values):
            return (None,)
        return tuple(v.keys[0] for v in values)


def _runs(value: Value) -> bool:
    """Whether something is a function of the script, or an object with methods that the script has."""
    return value.role in (Role.FUNCTION, Role.METHOD) or (
        value.role is Role.OBJECT and isinstance(value.declaration, ast.ClassDef)
    )


def inside(values: Values) -> Iterator[Value]:
    """The values, and what they may have inside."""
    for value in values:
        yield value
        if value.role in CONTAINERS:
            for part in value.inner:
                yield from inside(part)
