"""What a test says if an expression has a certain value: `args.device == "auto"`, were `args.device` the CPU."""

from __future__ import annotations

import ast
from itertools import pairwise

from accelift_codemod.facts.index import How, Index

_UNKNOWN = object()
_ASKS = frozenset("startswith endswith lower upper strip casefold".split())


def holds(test: ast.expr, node: ast.expr, value: str) -> bool | None:
    """Whether a test holds if an expression, wherever it is written so, has a value; None if that cannot be told."""
    found = _value(test, ast.unparse(node), value)
    return None if found is _UNKNOWN else bool(found)


def passed_by(index: Index, node: ast.AST, loop: ast.AST | None, asked: ast.expr | None, value: object) -> bool:
    """Whether a loop, or a comprehension, passes by a node where its variable has a value, by the tests in between:
    `for split in splits: if split == "train": ...`."""
    chain = [node, *index.ancestors(node)]
    owner = index.scope(asked).owner(asked.id) if isinstance(asked, ast.Name) else None
    if loop not in chain or owner is None or not isinstance(asked, ast.Name) or not isinstance(value, str):
        return False
    bound = [b for b in owner.bindings[asked.id] if loop in index.ancestors(b.node)]
    if [b.how for b in bound] != [How.LOOP]:
        return False
    for inner, outer in pairwise(chain[: chain.index(loop)]):
        if isinstance(outer, (ast.If, ast.IfExp)) and inner is not outer.test:
            first = inner is outer.body if isinstance(outer, ast.IfExp) else inner in outer.body
            if holds(outer.test, asked, value) is (not first):
                return True
    return False


def _value(node: ast.expr, known: str, value: str) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) == known:
        return value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _value(node.operand, known, value)
        return inner if inner is _UNKNOWN else not inner
    if isinstance(node, ast.BoolOp):
        settles = isinstance(node.op, ast.Or)
        parts = [_value(part, known, value) for part in node.values]
        if any(part is not _UNKNOWN and bool(part) is settles for part in parts):
            return settles
        return _UNKNOWN if _UNKNOWN in parts else not settles
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node.ops[0], _value(node.left, known, value), _value(node.comparators[0], known, value))
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        parts = [_value(part, known, value) for part in node.elts]
        return _UNKNOWN if _UNKNOWN in parts else parts
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
        text = _value(node.func.value, known, value)
        given = [_value(part, known, value) for part in node.args]
        if node.func.attr in _ASKS and isinstance(text, str) and all(isinstance(part, str) for part in given):
            return getattr(text, node.func.attr)(*given) if len(given) < 2 else _UNKNOWN
    return _UNKNOWN


def _compared(operator: ast.cmpop, left: object, right: object) -> object:
    if _UNKNOWN in (left, right):
        return _UNKNOWN
    if isinstance(operator, (ast.Eq, ast.Is)):
        return left == right if isinstance(operator, ast.Eq) or right is None else _UNKNOWN
    if isinstance(operator, (ast.NotEq, ast.IsNot)):
        return left != right if isinstance(operator, ast.NotEq) or right is None else _UNKNOWN
    if isinstance(operator, (ast.In, ast.NotIn)) and isinstance(right, (list, str)):
        inside = left in right if isinstance(right, list) or isinstance(left, str) else _UNKNOWN
        return inside if inside is _UNKNOWN else inside is isinstance(operator, ast.In)
    return _UNKNOWN
