"""What torch's distributions draw and which probabilities that has, element by element: of samples for each."""

from __future__ import annotations

import ast
from functools import reduce
from typing import TYPE_CHECKING

from accelift_codemod.facts.layout.algebra import FIXED, Environment, Frame, Layout, Shape
from accelift_codemod.facts.layout.arithmetic import combine

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts

_HOME = "torch.distributions."
_PROBABILITIES = frozenset({"log_prob", "cdf", "icdf"})
_DRAWN = frozenset({"sample", "rsample", "entropy"})  # of which each row has its own


def probability(layouts: Layouts, call: ast.Call, env: Environment, frame: Frame) -> Shape | None:
    """The layout of `Normal(mean, std).log_prob(x)`, or `.sample()`, perhaps of a distribution in a variable; None if
    it is no such.

    What is picked out of a batch stays picked, whatever it is compared with.
    """
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in (_PROBABILITIES if call.args else _DRAWN):
        return None
    if len(call.args) > 1 or call.keywords:
        return None
    made = _made(layouts, func.value)
    if made is None or layouts.index.function(made) is not layouts.index.function(call):
        return None
    given = [*made.args, *(k.value for k in made.keywords), *call.args]
    parts = [layouts.read(part, env, frame) for part in given]
    if Layout.PICKED in parts:
        return Layout.PICKED
    if any(isinstance(part, tuple) or part is Layout.UNKNOWN for part in parts):
        return None
    moving: list[Shape] = [part for part in parts if part not in FIXED]
    return reduce(lambda left, right: combine(ast.Mult(), left, right), moving) if moving else Layout.CONST


def _made(layouts: Layouts, node: ast.expr) -> ast.Call | None:
    """The call that makes the distribution which an expression is."""
    node = layouts.resolver.set_once(node) or node
    known = isinstance(node, ast.Call) and (layouts.resolver.qualified(node.func) or "").startswith(_HOME)
    return node if known and isinstance(node, ast.Call) else None
