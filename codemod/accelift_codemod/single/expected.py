"""What the syntax tree of a folded script has to be: worked out on the tree, to check what is made of the text."""

from __future__ import annotations

import ast
from typing import cast

from accelift_codemod.single.defaults import leaves
from accelift_codemod.single.folding import Dead, Truth

_BLOCKS = ("body", "orelse", "finalbody")


class _Folder(ast.NodeTransformer):
    def __init__(self, truth: Truth, dead: Dead) -> None:
        self.truth = truth
        self.dead = dead

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name, value in ast.iter_fields(node):
            if name in _BLOCKS and isinstance(value, list):
                block = self.block(value)
                setattr(node, name, block or ([ast.Pass()] if value and (name == "body" or block is None) else []))
            elif isinstance(value, list):
                setattr(
                    node, name, [self.visit(v) if isinstance(v, ast.AST) else v for v in value if not self._is_gone(v)]
                )
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        return node

    def _is_gone(self, part: object) -> bool:
        return isinstance(part, ast.alias) and self.dead(part)

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in statements:
            if leaves(found) or self.dead(statement):
                continue
            known = self.truth(statement.test) if isinstance(statement, ast.If) else None
            if isinstance(statement, ast.If) and known is not None:
                found += self.block(statement.body if known else statement.orelse)
            else:
                found.append(cast(ast.stmt, self.visit(statement)))
        return found

    def visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, ast.expr):
            return self.generic_visit(node)
        if isinstance(node, ast.IfExp):
            known = self.truth(node.test)
            return self.generic_visit(node) if known is None else (node.body if known else node.orelse)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and self.truth(node.right) is False:
            return node.left
        known = self.truth(node) if not isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) else None
        if known is not None:
            return ast.Constant(known)
        if isinstance(node, ast.BoolOp):
            kept = [v for v in node.values if self.truth(v) is None]
            if len(kept) < len(node.values):
                return kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept)
        return self.generic_visit(node)


def expected(text: str, truth: Truth, dead: Dead) -> str:
    """The tree of a script that is folded, as text; the questions are about the nodes of a new tree of it."""
    return ast.dump(_Folder(truth, dead).generic_visit(ast.parse(text)))
