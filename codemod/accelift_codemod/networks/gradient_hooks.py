"""Hooks on what networks compute, and backward passes of autograd functions, that are not linear in the gradient.

The gradient of a mean with regard to one sample is divided by how many samples there are: on several processes, by
those of the share. What is linear in it comes out right once the gradients of parameters are averaged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from accelift_codemod.facts import Facts, hooks
from accelift_codemod.facts.classes import is_static
from accelift_codemod.facts.hooks import Hook
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.keeping import PUTS
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.layout.algebra import FIXED
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.torch_ops import ABOUT, CURVED, out_of_place
from accelift_codemod.facts.tree import children, targets, walk

_FUNCTION = "torch.autograd.Function"
# What of twice the gradient is twice that of the gradient, for each element.
_SCALE = frozenset("relu leaky_relu abs".split())
# What goes by steps, or has an edge, for each element.
_EDGES = frozenset("sign sgn floor ceil round trunc frac relu6 threshold hardshrink softshrink tanhshrink".split())
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


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
    if met in (Layout.MIXED, Layout.SHIFTED):
        return True
    spelled = met not in FIXED and any(_is_bent(node, names) for node, names in _returning(hook, given))
    return spelled or (_returned(facts, hook, given, Layout.MEAN) is Layout.MIXED and not _keeps_scale(hook))


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


def _returning(hook: Hook, given: list[str]) -> Iterator[tuple[ast.AST, Set[str]]]:
    """The parts of what a function returns, and of what that is made of, with the variables that have gradients."""
    if isinstance(hook, ast.Lambda):
        yield from ((node, {*given}) for node in walk(hook.body))
        return
    sets = [n for n in walk(hook) if isinstance(n, (ast.Assign, ast.AugAssign))]
    names, wanted = {*given}, {n.id for r in walk(hook) if isinstance(r, ast.Return) for n in _names(r)}
    for _ in sets:
        for one in sets:
            stored = {name for target in targets(one) for name in _stored(target)}
            if _reads(one.value, names):
                names |= stored
            if stored & wanted:
                wanted |= {n.id for n in _names(one)}
    for statement in walk(hook):
        chooses = isinstance(statement, ast.If) and any(isinstance(n, ast.Return) or n in sets for n in walk(statement))
        if isinstance(statement, ast.Return) or (statement in sets and {n.id for n in _names(statement)} & wanted):
            yield from ((node, names) for node in walk(statement))
        elif isinstance(statement, ast.If) and chooses:
            yield from ((node, names) for node in walk(statement.test))


def _is_bent(node: ast.AST, names: Set[str]) -> bool:
    """Whether an operation is no straight line through zero in what some variables have."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, (ast.Add, ast.Sub)) and _reads(node.target, names) != _reads(node.value, names)
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        ordered = all(isinstance(op, _ORDERS) for op in node.ops)
        others = [side for side in sides if not _reads(side, names)]
        return ordered and 0 < len(others) < len(sides) and any(integer(side) != 0 for side in others)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _EDGES:
        return any(_reads(part, names) for part in (node.func.value, *node.args))
    if not isinstance(node, ast.BinOp) or _is_list(node):
        return False
    left, right = _reads(node.left, names), _reads(node.right, names)
    if isinstance(node.op, (ast.Add, ast.Sub)):
        return left != right
    return (left and right and isinstance(node.op, ast.Mult)) or (right and isinstance(node.op, (ast.Div, ast.Pow)))


def _is_list(node: ast.expr) -> bool:
    """Whether an expression is a list or a tuple: `[g] + [None] * 3` puts several together."""
    if isinstance(node, ast.BinOp):
        return _is_list(node.left) or _is_list(node.right)
    made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("list", "tuple")
    return made or isinstance(node, (ast.List, ast.Tuple, ast.ListComp))


def _stored(target: ast.expr) -> Iterator[str]:
    """The variables that a target sets, or of which it sets a part."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _stored(part)
    while isinstance(target, (ast.Subscript, ast.Starred)):
        target = target.value
    if isinstance(target, ast.Name):
        yield target.id


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (n for n in walk(node) if isinstance(n, ast.Name))


def _reads(node: ast.AST, names: Set[str]) -> bool:
    """Whether an expression has the numbers of some variables: not their shapes, nor only how they compare."""
    if isinstance(node, ast.Compare) or (isinstance(node, ast.Attribute) and node.attr in ABOUT):
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_like"):
        return False
    return (isinstance(node, ast.Name) and node.id in names) or any(_reads(part, names) for part in children(node))
