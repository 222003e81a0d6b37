"""Functions that `torch.vmap` runs for each sample: they give one thing for each, unless they see the others."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout import around
from accelift_codemod.facts.layout.algebra import CURVING, FIXED, Environment, Frame, Layout, Shape, tensor, written_out
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tree import is_constant

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts

_VMAP = ("torch.vmap", "torch.func.vmap", "functorch.vmap")


def mapping(layouts: Layouts, func: ast.expr) -> ast.Call | None:
    """The call of `vmap` that made what is called."""
    made = layouts.resolver.set_once(func) or func
    called = isinstance(made, ast.Call) and layouts.resolver.qualified(made.func) in _VMAP
    return made if called and isinstance(made, ast.Call) else None


def mapped(
    layouts: Layouts, made: ast.Call, call: ast.Call, arguments: list[Shape], env: Environment, frame: Frame
) -> Shape:
    """What a function gives that `vmap` runs: for each sample, or for each of several networks on all of them."""
    function = argument(made, 0, "func")
    dimensions = _dimensions(argument(made, 1, "in_dims"), len(arguments))
    if call.keywords or function is None or any(isinstance(a, ast.Starred) for a in call.args):
        return _unsure(arguments)
    if dimensions is None or argument(made, 2, "out_dims") is not None:
        return _unsure(arguments)
    arguments = list(map(tensor, arguments))
    along = [part for part, place in zip(arguments, dimensions, strict=True) if place == 0 and not _is_fixed(part)]
    if any(part is not Layout.ROWS for part in along):
        return Layout.MIXED if Layout.MIXED in arguments else Layout.UNSURE
    given = [Layout.CONST if place == 0 else part for part, place in zip(arguments, dimensions, strict=True)]
    outer, layouts.single = layouts.single, bool(along)
    found = _result(layouts, (function, call), given, env, frame)
    layouts.single = outer
    return _for_each(found) if along else _of_several(found)


def _dimensions(told: ast.expr | None, number: int) -> list[int | None] | None:
    """Along which dimension each argument is gone through; None for those that are not."""
    if told is None:
        return [0] * number
    if not isinstance(told, (ast.Tuple, ast.List)):
        return [0] * number if integer(told) == 0 else None
    if len(told.elts) != number:
        return None
    found: list[int | None] = []
    for one in told.elts:
        none = is_constant(one, None)
        if not none and integer(one) != 0:
            return None
        found.append(None if none else 0)
    return found


def _result(
    layouts: Layouts, run: tuple[ast.expr, ast.Call], given: list[Shape], env: Environment, frame: Frame
) -> Shape:
    function, call = run
    if isinstance(function, ast.Lambda):
        names = [parameter.arg for parameter in function.args.args]
        if len(names) != len(given):
            return Layout.UNKNOWN
        return layouts.read(function.body, {**env, **dict(zip(names, given, strict=True))}, frame)
    targets = [v.declaration for v in layouts.resolver.values(function)]
    target = targets[0] if len(targets) == 1 else None
    if not isinstance(target, FUNCTIONS) or layouts.resolver.is_method(target):
        return Layout.UNKNOWN
    names = [parameter.arg for parameter in (*target.args.posonlyargs, *target.args.args)]
    seen = around.seen(layouts, call, target, env)
    return layouts.modules.function(target, dict(zip(names, given, strict=False)), None, seen)


def _for_each(found: Shape) -> Shape:
    """What there is of all samples, from what there is of one."""
    if isinstance(found, tuple) and written_out(found) not in FIXED:
        return tuple(map(_for_each, found))
    if _is_fixed(found):
        return Layout.ROWS
    return Layout.MIXED if found in (Layout.MIXED, Layout.ROWS, *CURVING) else Layout.UNSURE


def _of_several(found: Shape) -> Shape:
    if isinstance(found, tuple):
        return tuple(map(_of_several, found))
    return Layout.COLUMNS if found is Layout.ROWS else found


def _is_fixed(part: Shape) -> bool:
    return written_out(part) in FIXED


def _unsure(arguments: list[Shape]) -> Shape:
    if Layout.MIXED in arguments:
        return Layout.MIXED
    return Layout.CONST if all(map(_is_fixed, arguments)) else Layout.UNSURE
