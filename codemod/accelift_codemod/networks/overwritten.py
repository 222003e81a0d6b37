"""What autograd functions of the script's own write into the tensors that they are given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.index import FUNCTIONS, Function, How
from accelift_codemod.facts.tree import targets, walk, whole

_BASES = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
_STEPS = 2  # of functions that only hand on what they are given


def overwritten(draft: Draft, call: ast.Call, steps: int = _STEPS) -> list[ast.expr]:
    """The arguments of a call that an autograd function writes into, in its forward or its backward pass."""
    resolver = draft.facts.resolver
    if isinstance(call.func, ast.Attribute) and call.func.attr == "apply":
        passes = _passes(draft, call.func.value)
        given = [p.arg for p in passes["forward"].args.args[1:]] if "forward" in passes else []
        written = _written(passes)
        return [argument for name, argument in zip(given, call.args, strict=False) if name in written]
    function = resolver.callee(call) if steps else None
    if not isinstance(function, FUNCTIONS) or resolver.is_method(function):
        return []
    bound = resolver.bind(call, function) or {}
    inner = (n for n in walk(function) if isinstance(n, ast.Call))
    names = (a.id for c in inner for a in overwritten(draft, c, steps - 1) if isinstance(a, ast.Name))
    return [bound[name] for name in names if name in bound]


def _passes(draft: Draft, node: ast.expr) -> dict[str, Function]:
    """The passes of the autograd function that an expression is, by name."""
    bindings = draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) else []
    classes = [b.node for b in bindings if b.how is How.CLASS and isinstance(b.node, ast.ClassDef)]
    return {
        statement.name: statement
        for cls in classes
        if any(draft.facts.resolver.qualified(base) in _BASES for base in cls.bases)
        for statement in cls.body
        if isinstance(statement, FUNCTIONS)
    }


def _written(passes: dict[str, Function]) -> set[str]:
    """The parameters of a forward pass that it, or the backward pass, writes into."""
    if not {"forward", "backward"} <= passes.keys():
        return set()
    forward, backward = passes["forward"], passes["backward"]
    context = forward.args.args[0].arg if forward.args.args else ""
    aliases = {p.arg: p.arg for p in forward.args.args[1:]}
    found = {aliases[place] for place in _changed(forward) if place in aliases}
    saved: list[str] = []
    for node in walk(forward):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"{context}.save_for_backward":
            saved = [ast.unparse(a) for a in node.args]
    later = {
        target.attr: aliases[node.value.id]
        for node in walk(forward)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in aliases
        for target in node.targets
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == context
    }
    context = backward.args.args[0].arg if backward.args.args else ""
    known = {f"{context}.{name}": parameter for name, parameter in later.items()}
    for node in walk(backward):
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == f"{context}.saved_tensors":
            names = [n for t in node.targets for n in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
            known |= {ast.unparse(n): aliases[s] for n, s in zip(names, saved, strict=False) if s in aliases}
    return found | {known[place] for place in _changed(backward) if place in known}


def _changed(function: Function) -> Iterator[str]:
    """What a function writes entries of, or changes in place, as it is spelled."""
    for node in walk(function):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            grows = isinstance(node, ast.AugAssign)
            yield from (ast.unparse(whole(t)) for t in targets(node) if grows or isinstance(t, ast.Subscript))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            yield ast.unparse(whole(node.func.value))
