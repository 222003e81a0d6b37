"""What code that picks its batches makes of their size: noise that is a batch itself, or what is made beside one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.layout.algebra import FIXED, Environment, Layout
from accelift_codemod.facts.layout.plain import is_number
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.picked import Picked

# Functions that draw an array, and where its size stands among the positional arguments.
_SIZES = {"normal": 2, "uniform": 2, "randint": 2, "standard_normal": 0, "random": 0, "random_sample": 0}
_JOINS = frozenset("torch.cat torch.hstack torch.stack torch.where torch.lerp torch.matmul torch.einsum".split())


class Sized:
    """Tells which of them have `rows` rows, in plain assignments of the loop that is `within`.

    At first there are none: it notes what such assignments make, and how many rows are `picked` otherwise.
    """

    def __init__(self, picked: Picked) -> None:
        self.layouts = picked
        self.resolver = picked.resolver
        self.within: ast.AST | None = None
        self.rows = ""
        self.picked: set[str] = set()
        self._noise: dict[str, bool] = {}  # by the number of rows of what is made: whether that may be a batch of noise

    def forget(self) -> None:
        """Begin with a loop."""
        self.rows = ""
        self.picked = set()
        self._noise = {}

    def suppose(self) -> bool:
        """From now on, take what is made for rows if it has as many as what is picked; or else as noise has."""
        found = [rows for rows, noise in self._noise.items() if rows in self.picked or (noise and not self.picked)]
        self.rows = found[0] if len(found) == 1 else ""
        return bool(self.rows)

    def of(self, call: ast.Call, sizes: list[ast.expr], env: Environment) -> str | None:
        """How many rows a call makes that is told sizes, the same each time; None if it makes no rows."""
        if sizes and isinstance(sizes[0], (ast.Tuple, ast.List)):
            sizes = sizes[0].elts
        inside = any(outer is self.within for outer in self.layouts.index.ancestors(call))
        if not sizes or not inside or any(k.arg == "requires_grad" for k in call.keywords):
            return None
        if integer(sizes[0]) == 1 or any(self.layouts.read(size, env) not in FIXED for size in sizes):
            return None
        if {n.id for n in loads(sizes[0])} & env.keys():
            return None  # the loop changes it
        rows = f"size {ast.unparse(sizes[0])}"
        noise = len(sizes) > 1 and self.layouts.chance(call)  # of one dimension it may be one sample
        self._noise[rows] = noise or self._noise.get(rows, False)
        return rows if rows == self.rows else None

    def meets_data(self, node: ast.expr | None, env: Environment) -> bool:
        """Whether an operation is also on something from before the loop, which may be data with as many rows as noise
        has that is drawn for all of them: `model(x + 0.1 * noise)`."""
        parts = [node.left, node.right] if isinstance(node, ast.BinOp) else []
        if isinstance(node, ast.Call) and (self.layouts.trains(node) or self.resolver.qualified(node.func) in _JOINS):
            given = [*node.args, *(k.value for k in node.keywords)]
            parts = [e for part in given for e in (part.elts if isinstance(part, (ast.Tuple, ast.List)) else [part])]
        return any(
            isinstance(part, (ast.Name, ast.Attribute, ast.Subscript))
            and not is_number(self.resolver, part)
            and not self.resolver.only(getattr(part, "value", None), Role.ARGUMENTS)
            and self.layouts.read(part, env) is Layout.CONST
            for part in parts
        )


def shape_drawn(call: ast.Call, name: str) -> list[ast.expr]:
    """The sizes that a function which draws an array is told, if there are several."""
    if name in ("randn", "rand"):
        return list(call.args)
    size = argument(call, _SIZES[name], "size") if name in _SIZES else None
    if name == "randint" and size is None and len(call.args) == 2:
        size = call.args[1]  # torch.randint(high, size)
    return list(size.elts) if isinstance(size, (ast.Tuple, ast.List)) and len(size.elts) > 1 else []
