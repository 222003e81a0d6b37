"""What code that picks its batches makes of their size: noise that is a batch itself, or what is made beside one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout.algebra import FIXED, Environment, Layout
from accelift_codemod.facts.layout.plain import is_plain_number
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.picked import Picked

# Functions that draw an array, and where its size stands among the positional arguments.
_SIZES = {"normal": 2, "uniform": 2, "randint": 2, "standard_normal": 0, "random": 0, "random_sample": 0}
_JOINS = frozenset("torch.cat torch.hstack torch.stack torch.where torch.lerp torch.matmul torch.einsum".split())


class Sized:
    """Tells which of them have `rows` rows, in plain assignments of the loop that is `within`.

    At first there are none: it notes what such assignments make, and how many rows are `picked` otherwise. The same of
    arguments that may be the number of rows of a batch: `counts` are those, with their calls, `states` those of calls
    that make states for as many rows.
    """

    def __init__(self, picked: Picked) -> None:
        self.layouts = picked
        self.resolver = picked.resolver
        self.within: ast.AST | None = None
        self.rows = ""
        self.counts: dict[ast.AST, ast.Call] = {}
        self.states: set[ast.AST] = set()
        self.picked: set[str] = set()
        self._told: set[str] = set()  # what may say how many rows are picked
        self._noise: dict[str, bool] = {}  # by the number of rows of what is made: whether that may be a batch of noise

    def forget(self) -> None:
        """Begin with a loop."""
        self.rows = ""
        self.counts = {}
        self.states = set()
        self.picked = set()
        self._told = set()
        self._noise = {}

    def pick(self, node: ast.expr, rows: str, size: str) -> None:
        """Note what picks rows, what their number depends on, and the code for the most that there are."""
        self.picked.add(rows)
        self._told |= {size} if size else {ast.unparse(n) for n in arguments(node)}

    def suppose(self) -> bool:
        """From now on, take what is made for rows if it has as many as what is picked; or else as noise has."""
        found = [rows for rows, noise in self._noise.items() if rows in self.picked or (noise and not self.picked)]
        self.rows = found[0] if len(found) == 1 else ""
        return bool(self.rows)

    def asked(self, loop: ast.For | ast.While) -> dict[ast.AST, ast.Call]:
        """The arguments in a loop that may be the number of rows, where a tensor is made, or a function is told it."""
        found: dict[ast.AST, ast.Call] = {}
        for call in (n for statement in loop.body for n in walk(statement) if isinstance(n, ast.Call)):
            module, _, name = (self.resolver.qualified(call.func) or "").rpartition(".")
            sizes: list[ast.expr] = arguments(call) if isinstance(self.resolver.callee(call), FUNCTIONS) else []
            if self.is_new(call) or (module == "torch" and name in torch_ops.SIZED):
                shape = call.args[:1]
                sizes = shape[0].elts if shape and isinstance(shape[0], (ast.Tuple, ast.List)) else call.args
                sizes = sizes[1:2]  # (layers, rows, features)
            found.update((size, call) for size in sizes if ast.unparse(size) in self._told)
        return found

    def makes_states(self, call: ast.Call, states: bool) -> bool:
        """Note whether a call makes states where it is told the number of rows; whether it has to be read anew, as it
        makes something else."""
        told = [size for size, of in self.counts.items() if of is call]
        if states:
            self.states.update(told)
            return False
        for size in told:
            del self.counts[size]
        return bool(told)

    def is_new(self, call: ast.Call) -> bool:
        """Whether a call makes a tensor of a size, on the device of another one: `x.new_zeros(2, 8)`."""
        method = isinstance(call.func, ast.Attribute) and call.func.attr in torch_ops.NEW
        return method and not self.resolver.qualified(call.func) and self.resolver.callee(call) is None

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
            and not is_plain_number(self.resolver, part)
            and not self.resolver.only(getattr(part, "value", None), Role.ARGUMENTS)
            and self.layouts.read(part, env) is Layout.CONST
            for part in parts
        )


def arguments(node: ast.AST) -> list[ast.expr]:
    """What a call is given; nothing, if a node is none."""
    return [*node.args, *(k.value for k in node.keywords)] if isinstance(node, ast.Call) else []


def shape_drawn(call: ast.Call, name: str) -> list[ast.expr]:
    """The sizes that a function which draws an array is told, if there are several."""
    if name in ("randn", "rand"):
        return list(call.args)
    size = argument(call, _SIZES[name], "size") if name in _SIZES else None
    if name == "randint" and size is None and len(call.args) == 2:
        size = call.args[1]  # torch.randint(high, size)
    return list(size.elts) if isinstance(size, (ast.Tuple, ast.List)) and len(size.elts) > 1 else []
