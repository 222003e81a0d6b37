"""Variables that hold nothing but texts: what is told by them are the numbers that stand in these."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How
from accelift_codemod.measured.numbers import contents

_MADE = frozenset({"format", "join"})
_STEPS = 3  # of texts that are in others


def opened(draft: Draft, places: Mapping[str, ast.AST], local: Collection[str]) -> dict[str, tuple[ast.AST, str]]:
    """What is told, with where and by which variable: in the place of a text, the variables of `local` in it."""
    found: dict[str, tuple[ast.AST, str]] = {}
    for name, place in places.items():
        parts = [part for part in _within(draft, place) if part in local] if isinstance(place, ast.Name) else []
        for part in parts or ([] if is_text(draft, place) else [name]):
            found.setdefault(part, (place, name))
    return found or {name: (place, name) for name, place in places.items()}


def _within(draft: Draft, text: ast.Name, steps: int = _STEPS) -> list[str]:
    """The variables that stand in a text; none of what is no text."""
    if not steps or not is_text(draft, text):
        return []
    made = [b.value for b in draft.facts.resolver.bindings(text) if b.value is not None]
    reads = dict.fromkeys(read for value in made for read in contents(draft, value) if read.id != text.id)
    return list(dict.fromkeys(n for read in reads for n in _within(draft, read, steps - 1) or [read.id]))


def is_text(draft: Draft, node: ast.AST, steps: int = _STEPS) -> bool:
    """Whether an expression is surely a text, or a variable that holds nothing else."""
    if isinstance(node, ast.Name):
        bindings = draft.facts.resolver.bindings(node) if steps else []
        held = (b.how in (How.ASSIGN, How.AUGMENT) and not b.path and b.value for b in bindings)
        return bool(bindings) and all(isinstance(v, ast.expr) and is_text(draft, v, steps - 1) for v in held)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        return is_text(draft, node.left, steps) or (isinstance(node.op, ast.Add) and is_text(draft, node.right, steps))
    if isinstance(node, ast.Call):
        func = node.func
        made = isinstance(func, ast.Attribute) and func.attr in _MADE and is_text(draft, func.value, steps)
        return made or draft.facts.resolver.builtin(func) in ("str", "repr", "format")
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
