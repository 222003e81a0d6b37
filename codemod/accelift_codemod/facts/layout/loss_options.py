"""What losses are told by `**options`, and by setting their attributes once they are made."""

from __future__ import annotations

import ast
from dataclasses import replace

from accelift_codemod.facts.index import How
from accelift_codemod.facts.layout import entries
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.values import Value

_OPTIONS = ("reduction", "weight", "pos_weight", "ignore_index")


def spelled_out(resolver: Resolver, call: ast.Call) -> ast.Call:
    """A call with the options of `**options` written out, where these are a dict that nothing else is told of."""
    if all(k.arg for k in call.keywords):
        return call
    keywords: list[ast.keyword] = []
    for keyword in call.keywords:
        written = _written(resolver, keyword.value) if keyword.arg is None else [keyword]
        keywords += [keyword] if written is None else written
    return ast.copy_location(ast.Call(call.func, call.args, keywords), call)


def made(resolver: Resolver, value: Value) -> Value:
    """A loss with the options written out that it is made with."""
    call = spelled_out(resolver, value.origin) if isinstance(value.origin, ast.Call) else value.origin
    return value if call is value.origin else replace(value, origin=call)


def set_later(resolver: Resolver, value: Value) -> dict[str, ast.expr]:
    """The options of a loss that are set once it is made: `criterion.reduction = "sum"`."""
    found: dict[str, ast.expr] = {}
    for name in _OPTIONS:
        for binding in resolver.index.attribute_bindings.get(name, ()):
            owner = binding.node.value if isinstance(binding.node, ast.Attribute) else None
            if owner is not None and _is_given(resolver, owner, value):
                known = name not in found and binding.how is How.ASSIGN and not binding.path
                found[name] = binding.value if known and binding.value is not None else binding.node  # type: ignore[assignment]
    for call in _by_name(resolver, "setattr"):
        if len(call.args) == 3 and _is_given(resolver, call.args[0], value):
            named = call.args[1].value if isinstance(call.args[1], ast.Constant) else "reduction"
            if named in _OPTIONS:
                known = named not in found and isinstance(call.args[1], ast.Constant)
                found[named] = call.args[2] if known else call
    for read in resolver.index.attributes.get("__dict__", ()):
        if _is_given(resolver, read.value, value):
            found["reduction"] = read  # whatever is put there
    return found


@kept
def _by_name(resolver: Resolver, builtin: str) -> list[ast.Call]:
    """The calls of a builtin function."""
    return [call for call in resolver.index.calls if resolver.builtin(call.func) == builtin]


def _is_given(resolver: Resolver, node: ast.expr, value: Value) -> bool:
    return any(v.origin is value.origin for v in resolver.values(node))


def _written(resolver: Resolver, node: ast.expr) -> list[ast.keyword] | None:
    """The entries of a dict, as keywords; None if they cannot be told."""
    if isinstance(node, ast.Name):
        bindings = resolver.bindings(node)
        binding = bindings[0] if len(bindings) == 1 and bindings[0].how is How.ASSIGN else None
        if binding is None or binding.path or binding.value is None or not isinstance(binding.node, ast.Name):
            return None
        handed = (resolver.index.parents.get(read) for read in resolver.readers(binding.node))
        only = all(isinstance(use, ast.keyword) and use.arg is None for use in handed)
        return _written(resolver, binding.value) if only else None
    if isinstance(node, ast.Dict):
        names = [entries.written(key) if key is not None else None for key in node.keys]
        told = [ast.keyword(name, value) for name, value in zip(names, node.values, strict=True) if name]
        return told if len(told) == len(names) else None
    if isinstance(node, ast.Call) and resolver.builtin(node.func) == "dict" and not node.args:
        return node.keywords if all(k.arg for k in node.keywords) else None
    return None
