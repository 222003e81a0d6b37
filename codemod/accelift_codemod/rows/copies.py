"""Whether two expressions read one variable, as it is or through what it was set from: a batch size, say."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Binding
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.tree import walk


def same(draft: Draft, node: ast.expr, size: ast.expr) -> bool:
    """Whether two expressions read one variable, or what it was set from: `self.size = args.size`."""
    return any(_one(draft, a, b) for a in _sources(draft, node) for b in _sources(draft, size, handed=True))


def _sources(draft: Draft, node: ast.expr, handed: bool = False) -> Iterator[ast.expr]:
    """An expression, and the variables that it certainly has its value from, if asked also as a parameter."""
    for _ in range(4):
        yield node
        if isinstance(node, ast.Subscript):
            entry = _entry(draft, node)
            if entry is None:
                return
            node = entry
            continue
        bindings = draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) else []
        if isinstance(node, ast.Attribute):
            bindings = draft.facts.index.attribute_bindings.get(node.attr, [])
        if handed and len(bindings) == 1 and bindings[0].how is How.PARAMETER:
            given = _given(draft, bindings[0])
            if given is None:
                return
            node = given
            continue
        if len(bindings) != 1 or bindings[0].how is not How.ASSIGN or bindings[0].path:
            return
        target, value = bindings[0].node, bindings[0].value
        if isinstance(node, ast.Attribute) and not (
            isinstance(target, ast.Attribute) and _of_one(draft, node.value, target.value)
        ):
            return
        if value is None or not is_place(value) or is_set_again(draft, value, bindings[0]):
            return
        node = value


def _given(draft: Draft, binding: Binding) -> ast.expr | None:
    """The variable that the one call of a function gives a parameter."""
    function = draft.facts.index.parents[draft.facts.index.parents[binding.node]]
    calls = draft.facts.resolver.sites(function)
    if not isinstance(function, FUNCTIONS) or len(calls) != 1:
        return None
    argument = (draft.facts.resolver.bind(calls[0], function) or {}).get(binding.name)
    return argument if argument is not None and is_place(argument) else None


def _entry(draft: Draft, node: ast.Subscript) -> ast.expr | None:
    """The variable that stands in the dict that an entry is read from: `{"size": args.size}["size"]`."""
    dicts = {v.origin for v in draft.facts.resolver.values(node.value)}
    made = dicts.pop() if len(dicts) == 1 else None
    if not isinstance(made, ast.Dict) or _is_stored(draft, node):
        return None
    values = [v for k, v in zip(made.keys, made.values, strict=True) if k is not None and _key(k) == name_of(node)]
    return values[0] if len(values) == 1 and is_place(values[0]) else None


def _is_stored(draft: Draft, node: ast.Subscript) -> bool:
    """Whether an entry of this name is set anywhere."""
    return any(
        isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and _key(n.slice) == name_of(node)
        for n in walk(draft.facts.tree)
    )


def is_set_again(draft: Draft, value: ast.expr, known: Binding) -> bool:
    """Whether something has other values at other times, so that a copy of it may be an old one."""
    if isinstance(value, ast.Subscript):
        return _is_stored(draft, value)
    if isinstance(value, ast.Name):
        return len(draft.facts.resolver.bindings(value)) > 1
    return any(b is not known for b in draft.facts.index.attribute_bindings.get(name_of(value), []))


def _of_one(draft: Draft, left: ast.expr, right: ast.expr) -> bool:
    """Whether two expressions may denote one object."""
    return bool(
        {v.origin for v in draft.facts.resolver.values(left)} & {v.origin for v in draft.facts.resolver.values(right)}
    )


def _one(draft: Draft, node: ast.expr, size: ast.expr) -> bool:
    if isinstance(node, ast.Name) and isinstance(size, ast.Name):
        owners = [draft.facts.index.scope(n).owner(n.id) for n in (node, size)]
        return node.id == size.id and owners[0] is not None and owners[0] is owners[1]
    if isinstance(node, ast.Attribute) and isinstance(size, ast.Attribute) and node.attr == size.attr:
        return _of_one(draft, node.value, size.value)
    if isinstance(node, ast.Subscript) and isinstance(size, ast.Subscript) and name_of(node) == name_of(size):
        return _of_one(draft, node.value, size.value)
    return False


def is_place(node: ast.expr) -> bool:
    """Whether an expression reads a variable, an attribute, or an entry of a dict under a literal name."""
    return isinstance(node, (ast.Name, ast.Attribute)) or (isinstance(node, ast.Subscript) and _key(node.slice) != "")


def _key(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def name_of(node: ast.expr) -> str:
    """What a variable, an attribute or an entry of a dict is called."""
    if isinstance(node, ast.Subscript):
        return _key(node.slice)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
