"""Copies that moves make of a batch: `[t.to(device) for t in batch]`."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts.moves import Move


def goes(draft: Draft, move: Move) -> bool:
    """Whether a move can go: with the copy that it makes of the batch, or without it."""
    return not _matters(draft, move) or without(draft, move) is not None


def of_batch(draft: Draft, move: Move) -> ast.ListComp | ast.GeneratorExp | None:
    """The `[t.to(device) for t in batch]` that a move stands in: without it, the batch once more."""
    node = draft.facts.index.parents.get(move.call)
    if not isinstance(node, (ast.ListComp, ast.GeneratorExp)) or node.elt is not move.call:
        return None
    generator = node.generators[0]
    named = isinstance(generator.iter, ast.Name) and text_of(generator.target) == text_of(move.receiver)
    return node if named and len(node.generators) == 1 and not generator.ifs else None


def without(draft: Draft, move: Move) -> tuple[ast.expr, str] | None:
    """A copy that something may want, and what makes it without the move: `list(batch)` of
    `[t.to(device) for t in batch]`, `dict(t)` of `{k: v.to(device) for k, v in t.items()}`."""
    parents = draft.facts.index.parents
    copy, node = of_batch(draft, move), parents.get(move.call)
    if copy is not None and _matters(draft, move):
        text, around = draft.facts.segment(copy.generators[0].iter), parents[copy]
        if isinstance(copy, ast.ListComp):
            return (copy, f"list({text})") if "list" not in draft.facts.bound else None
        if isinstance(around, ast.Call) and _made(draft, copy) is around:
            return around, f"{draft.facts.segment(around.func)}({text})"
        return (copy, text) if isinstance(around, ast.Starred) else None
    inner = isinstance(node, ast.DictComp) and isinstance(parents.get(node), (ast.ListComp, ast.GeneratorExp))
    entries = copied(node, move.receiver) if isinstance(node, ast.DictComp) and inner else None
    if not isinstance(node, ast.DictComp) or entries is None or "dict" in draft.facts.bound:
        return None
    return node, f"dict({draft.facts.segment(entries)})"


def copied(node: ast.DictComp, value: ast.expr) -> ast.expr | None:
    """What `{k: v for k, v in batch.items()}` is a copy of, where `v` is the value without its move."""
    (generator, *more), pair = node.generators, node.generators[0].target
    match generator.iter:
        case ast.Call(func=ast.Attribute(value=entries, attr="items")) if not more and not generator.ifs:
            names = [text_of(e) for e in pair.elts] if isinstance(pair, ast.Tuple) else []
            return entries if names == [text_of(node.key), text_of(value)] else None
    return None


def bound(draft: Draft, copy: ast.expr) -> ast.expr | None:
    """What a copy is assigned to, as it is or made a list or a tuple."""
    made = _made(draft, copy)
    parent = draft.facts.index.parents.get(made)
    single = isinstance(parent, ast.Assign) and parent.value is made and len(parent.targets) == 1
    return parent.targets[0] if single and isinstance(parent, ast.Assign) else None


def _made(draft: Draft, copy: ast.expr) -> ast.expr:
    """A copy, as it is or made a list or a tuple."""
    parent = draft.facts.index.parents.get(copy)
    whole = isinstance(parent, ast.Call) and draft.facts.resolver.builtin(parent.func) in ("list", "tuple")
    return parent if whole and isinstance(parent, ast.Call) else copy


def _matters(draft: Draft, move: Move) -> bool:
    """Whether a move makes a copy of the batch that something may want to be a list or a tuple."""
    copy = of_batch(draft, move)
    if copy is None:
        return False
    target = bound(draft, copy)
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(isinstance(e, ast.Starred) for e in target.elts)
    batch = copy.generators[0].iter
    return not (
        isinstance(target, ast.Name)
        and text_of(target) == text_of(batch)
        and all(_as_sequence(draft, n) for n in draft.facts.loads(draft.facts.index.scope(batch), target.id))
    )


def _as_sequence(draft: Draft, name: ast.Name) -> bool:
    """Whether a variable is used as any sequence can be: picked from, unpacked, iterated over."""
    parent = draft.facts.index.parents.get(name)
    if isinstance(parent, ast.Assign):
        return parent.value is name and all(isinstance(t, (ast.Tuple, ast.List)) for t in parent.targets)
    if isinstance(parent, ast.Call):
        return draft.facts.resolver.builtin(parent.func) in ("len", "zip", "enumerate")
    return isinstance(parent, (ast.For, ast.comprehension, ast.Starred)) or (
        isinstance(parent, ast.Subscript) and parent.value is name
    )


def text_of(node: ast.AST) -> str:
    """An expression's structure without whether it is read or written."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{text_of(node.value)}.{node.attr}"
    if isinstance(node, ast.Subscript):
        return f"{text_of(node.value)}[{ast.dump(node.slice)}]"
    return ast.dump(node)
