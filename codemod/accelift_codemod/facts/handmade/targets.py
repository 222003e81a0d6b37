"""What losses compare with what a network returns, element by element: it has a row for each sample, or `split_batch`
sees that it has not."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.handmade.rowcounts import Count
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.facts.handmade.whole import Whole

# Losses that compare two tensors of one shape.
_ELEMENTWISE = frozenset("mse_loss l1_loss smooth_l1_loss huber_loss".split())
_LAYERS = frozenset({"MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"})
# What makes something that has no rows, or those of something else, of what has a row for each sample.
_FOLDS = torch_ops.REDUCES.keys() - {"softmax", "log_softmax", "softmin"} | {"item", "unique"}
_TRAINED = frozenset({"requires_grad_", "Parameter"})
# What leaves the rows what they are.
_KEEPS = torch_ops.ROW_WISE | {"unsqueeze", "squeeze", "view", "reshape", "array", "asarray", "Tensor", "FloatTensor"}
_MOST_STEPS = 6


class Targets:
    """Answers that for the loop of `whole`."""

    def __init__(self, whole: Whole) -> None:
        self.whole = whole
        self.resolver = whole.resolver
        self.forwards = set(whole.forwards)

    def names(self, count: Count) -> set[str]:
        """The variables whose number of rows is not known to be another one than `count`."""
        return {name.id for side in self._sides() for name in self._plain(side) if self._may_have(name, count)}

    def _sides(self) -> list[ast.expr]:
        """What is compared with something that a network returned."""
        pairs = [self._compared(node) for expression in self.whole.expressions for node in walk(expression)]
        return [
            one
            for pair in pairs
            if pair is not None
            for one, other in (pair, pair[::-1])
            if self._computed(other, 0) and not self._computed(one, 0)
        ]

    def _compared(self, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            return node.left, node.right
        if not isinstance(node, ast.Call) or len(node.args) != 2:
            return None
        module, _, name = (self.resolver.qualified(node.func) or "").rpartition(".")
        layers = {v.name.rpartition(".")[2] for v in self.resolver.values(node.func)}
        known = (module == "torch.nn.functional" and name in _ELEMENTWISE) or (layers and layers <= _LAYERS)
        return (node.args[0], node.args[1]) if known else None

    def _computed(self, node: ast.AST, steps: int) -> bool:
        """Whether a network takes part in an expression."""
        if self.forwards & set(walk(node)):
            return True
        made = (self.whole.made(n) for n in loads(node) if n.id in self.whole.changing)
        return steps < _MOST_STEPS and any(self._computed(value, steps + 1) for values in made for value in values)

    def _plain(self, node: ast.expr) -> list[ast.Name]:
        """The variable that an expression is, after moves and changes of its type and shape, if it is one."""
        for _ in range(_MOST_STEPS):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                qualified = self.resolver.qualified(node.func)
                if name not in _KEEPS or (qualified and not node.args):
                    return []
                node = node.args[0] if qualified else node.func.value  # type: ignore[attr-defined]
            elif isinstance(node, ast.Name) and node.id in self.whole.changing:
                made = self.whole.made(node)
                if len(made) != 1:
                    return []
                node = made[0]
            else:
                break
        return self.whole.variables(node) if isinstance(node, ast.Name) else []

    def _may_have(self, name: ast.Name, count: Count) -> bool:
        """Whether nothing says that a variable has another number of rows, or none, or is trained itself."""
        own = self.whole.counts.of(name)
        if own is not None and own != count and own[0] == count[0] == "number":
            return False
        return not self._folded(name, 0)

    def _folded(self, node: ast.expr, steps: int) -> bool:
        """Whether the last that made something of its rows, other than changes of its type, put them together."""
        if steps > _MOST_STEPS:
            return False
        if isinstance(node, ast.Name):
            bindings = [b for b in self.resolver.bindings(node) if not b.path]
            return any(self._folded(b.value, steps + 1) for b in bindings if b.value is not None)
        if isinstance(node, ast.BinOp):
            return all(self._folded(side, steps + 1) for side in (node.left, node.right))
        if not isinstance(node, ast.Call):
            return isinstance(node, ast.Constant)
        qualified = self.resolver.qualified(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = (qualified or method).rpartition(".")[2]
        wanted = any(k.arg == "requires_grad" and integer(k.value) != 0 for k in node.keywords)
        if name in _FOLDS | _TRAINED or wanted:
            return True
        inner = node.args[:1] if qualified else [node.func.value] if method else []  # type: ignore[attr-defined]
        return any(self._folded(part, steps + 1) for part in inner) if name in _KEEPS else False
