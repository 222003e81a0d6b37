"""Data sets that give samples whatever index they are asked for."""

from __future__ import annotations

import ast

from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import Function
from accelift_codemod.facts.resolve import Resolver


def unasked(resolver: Resolver, dataset: ast.AST | None) -> Function | None:
    """The `__getitem__` of a data set, if it never looks at its index."""
    method = resolver.method(dataset, "__getitem__")
    names = [a.arg for a in method.args.args] if method is not None else []
    if method is None or len(names) != 2 or names[1] in {n.id for s in method.body for n in loads(s)}:
        return None
    return method
