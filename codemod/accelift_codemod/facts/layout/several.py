"""Methods of a network that is of one of several classes: what one or the other gives."""

from __future__ import annotations

import ast
from functools import reduce
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout.algebra import Environment, Frame, Layout, Shape, join
from accelift_codemod.facts.layout.wrapped import changes_results

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts


def of_any(layouts: Layouts, call: ast.Call, env: Environment, frame: Frame) -> Shape | None:
    """The layout of `model.embed(x)`, where the model is of several classes that all have the method; None if it is
    not, or the same method of all."""
    resolver, func = layouts.resolver, call.func
    values = resolver.values(func.value) if isinstance(func, ast.Attribute) else ()
    classes = [*dict.fromkeys(v.declaration for v in values if layouts.objects.is_model(v))]
    if not isinstance(func, ast.Attribute) or len(classes) < 2 or not all(map(layouts.objects.is_model, values)):
        return None
    found: list[Shape] = []
    for cls in classes:
        method = resolver.method(cls, func.attr)
        given = resolver.bind(call, method) if isinstance(method, FUNCTIONS) else None
        if method is None or given is None or not isinstance(cls, ast.ClassDef) or changes_results(resolver, method):
            return None
        names = {name: layouts.read(node, env, frame) for name, node in given.items()}
        found.append(layouts.modules.function(method, names, cls))
        env.update(dict.fromkeys(resolver.kept(method), Layout.UNKNOWN))
    return reduce(join, found)
