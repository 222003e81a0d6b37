"""Arms of a choice that the conversion makes the same."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Operation

_HERE = "__expression__"  # what an edit puts into its code


class _Unknown(Exception):
    """It cannot be told what an edit leaves."""


def come_out_alike(draft: Draft, first: Sequence[ast.AST], second: Sequence[ast.AST]) -> bool:
    """Whether the edits so far make the same code of two arms, one of which at least they change."""
    if not any(draft.edits_at(n) for part in (*first, *second) for n in walk(part)):
        return False
    try:
        one, other = (_listed(draft, part) for part in (first, second))
    except _Unknown:
        return False
    return bool(one) and list(map(ast.dump, one)) == list(map(ast.dump, other))


def _listed(draft: Draft, nodes: Sequence[ast.AST]) -> list[ast.AST]:
    return [_left_of(draft, n) for n in nodes if not any(e.operation is Operation.DROP for e in draft.edits_at(n))]


def _left_of(draft: Draft, node: ast.AST) -> ast.AST:
    """A node as the edits so far leave it."""
    new = copy.copy(node)
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            setattr(new, name, _left_of(draft, value))
        elif isinstance(value, list):
            setattr(new, name, _listed(draft, value) if value and isinstance(value[0], ast.AST) else value)
    edits = draft.edits_at(node)
    if len(edits) > 1:
        raise _Unknown
    return _edited(new, edits[0]) if edits else new


def _edited(node: ast.AST, edit: Edit) -> ast.AST:
    """A node after one edit of it."""
    code = edit.named("accelerator").code
    match edit.operation, node:
        case Operation.RECEIVER, ast.Call(func=ast.Attribute(value=inner)) | ast.Attribute(value=inner):
            return inner
        case Operation.METHOD, ast.Call(func=ast.Attribute(value=inner)):
            return _filled(_expression(f"{_HERE}.{code}"), inner)
        case Operation.CALL_ON, ast.Call(func=ast.Attribute(value=inner), args=args, keywords=keywords):
            return ast.Call(_expression(code), [inner, *args], keywords)
        case Operation.BECOME, _:
            return _expression(code)
        case Operation.SURROUND, ast.expr() if edit.place is None:
            return _filled(_expression(code.replace("{}", _HERE)), node)
    raise _Unknown


def _expression(code: str) -> ast.expr:
    try:
        return ast.parse(code, mode="eval").body
    except SyntaxError as error:
        raise _Unknown from error


class _Filler(ast.NodeTransformer):
    """Puts a node in the place that the code of an edit has for it."""

    def __init__(self, node: ast.AST) -> None:
        self.node = node

    def visit_Name(self, name: ast.Name) -> ast.AST:
        return self.node if name.id == _HERE else name


def _filled(code: ast.expr, node: ast.AST) -> ast.AST:
    filled: ast.AST = _Filler(node).visit(code)
    return filled
