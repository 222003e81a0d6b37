"""Hooks on what networks compute, and backward passes of autograd functions, that are not linear in the gradient.

The gradient of a mean with regard to one sample is divided by how many samples there are: on several processes, by
those of the share. What is linear in it comes out right once the gradients of parameters are averaged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import Facts, hooks
from accelift_codemod.facts.classes import is_static
from accelift_codemod.facts.hooks import Hook
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.keeping import PUTS
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.torch_ops import CURVED, out_of_place
from accelift_codemod.facts.tree import walk

_FUNCTION = "torch.autograd.Function"
# What of twice the gradient is twice that of the gradient, for each element.
_SCALE = frozenset("relu leaky_relu abs".split())


def bending(facts: Facts) -> Iterator[ast.AST]:
    """Where such hooks are registered, and such backward passes return."""
    for call in facts.index.methods.get("register_hook", []):
        owner: ast.expr = call.func.value  # type: ignore[attr-defined]
        named = facts.objects.is_parameter(owner) or facts.objects.is_part(owner)
        if call.args and facts.runs(call) and not named:
            if any(_bends(facts, hook, 0) for hook in hooks.functions(facts, call.args[0])):
                yield call
    for cls in facts.index.classes:
        if any(facts.resolver.qualified(base) == _FUNCTION for base in cls.bases):
            backward = facts.resolver.method(cls, "backward")
            if backward is not None and facts.runs(cls) and _bends(facts, backward, 1):
                yield next(iter(facts.resolver.returns(backward)), backward)


def _bends(facts: Facts, hook: Hook, before: int) -> bool:
    """Whether what a function returns is no straight line in the gradients that it is given, after some arguments."""
    names = [p.arg for p in (*hook.args.posonlyargs, *hook.args.args)]
    method = isinstance(facts.index.parents.get(hook), ast.ClassDef) and isinstance(hook, FUNCTIONS)
    if method and not before and not is_static(hook):  # type: ignore[arg-type]
        before = 1
    given = names[before:]
    if not given:
        return False
    met = _returned(facts, hook, given, Layout.ROWS)
    return met in (Layout.MIXED, Layout.SHIFTED) or (
        _returned(facts, hook, given, Layout.MEAN) is Layout.MIXED and not _keeps_scale(hook)
    )


def _returned(facts: Facts, hook: Hook, given: list[str], gradient: Layout) -> object:
    layouts = facts.layouts
    if isinstance(hook, ast.Lambda):
        func = hook.body.func if isinstance(hook.body, ast.Call) else None
        if isinstance(func, ast.Attribute) and func.attr in PUTS:
            return Layout.CONST  # it keeps something, and gives None
        return layouts.read(hook.body, dict.fromkeys(given, gradient))
    found = layouts.modules.function(hook, dict.fromkeys(given, gradient), None)
    parts = found if isinstance(found, tuple) else (found,)
    return next((part for part in parts if part in (Layout.MIXED, Layout.SHIFTED)), found)


def _keeps_scale(hook: Hook) -> bool:
    """Whether all that bends a gradient leaves its scale: `g.relu()`, `g.clamp(min=0)`."""
    calls = [n for n in walk(hook) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    bending = [c for c in calls if out_of_place(c.func.attr) in CURVED]  # type: ignore[attr-defined]
    return bool(bending) and all(out_of_place(c.func.attr) in _SCALE or _is_from_zero(c) for c in bending)  # type: ignore[attr-defined]


def _is_from_zero(call: ast.Call) -> bool:
    """Whether a call only cuts off what is below zero."""
    told = [*call.args, *(k.value for k in call.keywords)]
    bounds = [n.value for n in told if isinstance(n, ast.Constant) and isinstance(n.value, (int, float))]
    return bounds == [0] and len(told) <= 2
