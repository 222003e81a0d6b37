"""What the syntax tree of a folded script has to be: worked out on the tree, to check what is made of the text."""

from __future__ import annotations

import ast
from typing import cast

from accelift_codemod.single.defaults import leaves
from accelift_codemod.single.expressions import Known, parts
from accelift_codemod.single.folding import Dead

_BLOCKS = ("body", "orelse", "finalbody")


class _Folder:
    def __init__(self, known: Known, dead: Dead) -> None:
        self.known = known
        self.dead = dead

    def inside(self, node: ast.AST, tested: bool = False) -> ast.AST:
        """A node with its parts folded."""
        new = {id(part): self.part(part, only) for part, only in parts(node, tested) if not isinstance(part, ast.stmt)}
        for name, value in ast.iter_fields(node):
            if name in _BLOCKS and isinstance(value, list):
                setattr(node, name, self.block(value) or ([ast.Pass()] if value else []))
            elif isinstance(value, list):
                kept = [v for v in value if not (isinstance(v, ast.alias) and self.dead(v))]
                setattr(node, name, [new.get(id(v), v) for v in kept])
            else:
                setattr(node, name, new.get(id(value), value))
        return node

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in statements:
            if leaves(found) or self.dead(statement):
                continue
            known = self.known.truth(statement.test) if isinstance(statement, ast.If) else None
            if isinstance(statement, ast.If) and known is not None:
                found += self.block(statement.body if known else statement.orelse)
            else:
                found.append(cast(ast.stmt, self.inside(statement)))
        return found

    def part(self, node: ast.AST, tested: bool) -> ast.AST:
        left = self.known.left(node, tested) if isinstance(node, ast.expr) else None
        if isinstance(left, bool):
            return ast.Constant(left)
        if left is not None:
            return left[0] if len(left) == 1 else ast.BoolOp(cast(ast.BoolOp, node).op, left)
        return self.inside(node, tested)


def expected(text: str, known: Known, dead: Dead) -> str:
    """The tree of a script that is folded, as text; the questions are about the nodes of a new tree of it."""
    return ast.dump(_Folder(known, dead).inside(ast.parse(text)))
