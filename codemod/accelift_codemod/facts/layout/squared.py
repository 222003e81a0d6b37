"""Sums over the samples that are spelled as something else: the square of a norm, the trace of a product."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.layout.algebra import Environment, Frame, Layout, Shape, tensor
from accelift_codemod.facts.layout.products import factors, integer, untransposed

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts
    from accelift_codemod.facts.resolve import Resolver

_SQUARES = frozenset({"pow", "square"})
_DIAGONALS = frozenset({"diag", "diagonal"})
_READ = frozenset({*_SQUARES, *_DIAGONALS, "trace"})
_HOMES = ("torch", "torch.linalg", "torch.functional")
_SQUARED = 2


def read(layouts: Layouts, node: ast.BinOp | ast.Call, env: Environment, frame: Frame) -> Shape | None:
    """The layout of `x.norm() ** 2`, a sum of squares; of `(a.t() @ b).trace()`, one of products; and of the diagonal
    of `a @ b.t()`, which has one number for each row of both. None of anything else."""
    if isinstance(node, ast.BinOp):
        whole = _norm_of(layouts.resolver, node.left) if isinstance(node.op, ast.Pow) and _is_two(node.right) else None
        return _sum(layouts, [whole], env, frame)
    name, parts = _operation(layouts.resolver, node)
    if name not in _READ or not parts or len(parts) > 1 + (name == "pow") or node.keywords:
        return None
    if name in _SQUARES:
        squared = name == "square" or (len(parts) > 1 and _is_two(parts[1]))
        return _sum(layouts, [_norm_of(layouts.resolver, parts[0]) if squared else None], env, frame)
    product = _product(layouts.resolver, parts[0])
    if product is None:
        return None
    (left, turned), (right, turned_too) = map(untransposed, product)
    if turned == turned_too:
        return None
    each = name in _DIAGONALS and turned_too
    found = _sum(layouts, [left, right], env, frame)
    return Layout.ROWS if each and found is Layout.SUM else found


def _sum(layouts: Layouts, parts: list[ast.expr | None], env: Environment, frame: Frame) -> Shape | None:
    """What the sum is of all numbers of tensors that are multiplied with each other."""
    of = {tensor(layouts.read(part, env, frame)) for part in parts if part is not None}
    if of == {Layout.ROWS}:
        return Layout.SUM
    return Layout.UNKNOWN if of == {Layout.UNKNOWN} else None


def _operation(resolver: Resolver, call: ast.Call) -> tuple[str, list[ast.expr]]:
    """The function or method of torch that a call may be of, and what it is given, the tensor first."""
    home, _, name = (resolver.library_function(call.func) or "").rpartition(".")
    if home in _HOMES:
        return name, call.args
    func = call.func
    return (func.attr, [func.value, *call.args]) if isinstance(func, ast.Attribute) and not name else ("", [])


def _norm_of(resolver: Resolver, node: ast.expr) -> ast.expr | None:
    """The tensor of all numbers of which an expression is the Euclidean norm."""
    made = _made(resolver, node)
    if not isinstance(made, ast.Call):
        return None
    name, parts = _operation(resolver, made)
    told = [*parts[1:], *(k.value for k in made.keywords if k.arg == "p")]
    plain = len(told) == len(parts[1:]) + len(made.keywords) <= 1 and all(map(_is_two, told))
    if told and resolver.library_function(made.func) == "torch.linalg.norm":
        return None  # that of a matrix is another one then
    return parts[0] if parts and name in ("norm", "vector_norm") and plain else None


def _product(resolver: Resolver, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    made = _made(resolver, node)
    if isinstance(made, ast.BinOp):
        return (made.left, made.right) if isinstance(made.op, ast.MatMult) else None
    return factors(made, resolver.library_function(made.func)) if isinstance(made, ast.Call) else None


def _made(resolver: Resolver, node: ast.expr) -> ast.expr:
    """What a variable is set to, if in one place."""
    return resolver.set_once(node) or node if isinstance(node, ast.Name) else node


def _is_two(node: ast.expr) -> bool:
    return integer(node) == _SQUARED or (isinstance(node, ast.Constant) and node.value == _SQUARED)
