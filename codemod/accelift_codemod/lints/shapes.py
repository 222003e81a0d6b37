"""Tensors that are gathered, and have another shape afterwards, or on another process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import How
from accelift_codemod.facts.values import Evidence, Role
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity

_GATHERS = frozenset({"gather", "gather_for_metrics"})
_REDUCTIONS = frozenset({"mean", "sum", "prod", "norm", "std", "var", "max", "min", "median"})
_RAGGED = frozenset({"torch.nonzero", "torch.unique", "torch.masked_select", "torch.unique_consecutive"})
_RAGGED_METHODS = frozenset({"nonzero", "unique", "masked_select", "unique_consecutive"})


class Scalar(Lint):
    """`gather` of a tensor without dimensions returns one value for each process: a tensor of N values, of one only on
    one process. It has no `.item()`, and cannot be made a number.
    """

    code = "METRIC-DIM0"
    severity = Severity.ERROR
    title = "one value for each process is taken for one number"
    wrong = """\
total += accelerator.gather(loss).item()
"""
    right = """\
total += accelerator.gather(loss).mean().item()
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            given = self._made_a_number(world, call)
            gathered = self._gathered(world, given) if given is not None else None
            if gathered is None or world.ranks.counted(call) or world.ranks.perhaps_alone(call):
                continue
            number = self._scalar(world, gathered.args[0])
            if number is not None:
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(gathered)}` has a value for each process, and `{world.text(call)}` takes it for one "
                    "number: an error on several processes",
                    "take its mean() or sum() first",
                    (Evidence(number.lineno, f"`{world.text(number)}` has no dimension"),),
                )

    def _made_a_number(self, world: World, call: ast.Call) -> ast.expr | None:
        """What a call makes a number of."""
        if isinstance(call.func, ast.Attribute) and call.func.attr == "item" and not call.args:
            return call.func.value
        if world.resolver.builtin(call.func) in ("float", "int") and len(call.args) == 1:
            return call.args[0]
        return None

    def _gathered(self, world: World, node: ast.expr) -> ast.Call | None:
        node = _held(world, node)
        if isinstance(node, ast.Call) and world.together.of(node) in _GATHERS and len(node.args) == 1:
            return node
        return None

    def _scalar(self, world: World, node: ast.expr) -> ast.Call | None:
        """The call that makes a value a tensor without dimensions, if it certainly is one."""
        node = _held(world, node)
        if not isinstance(node, ast.Call):
            return None
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in ("detach", "float", "clone", "to") and not world.qualified(node):
                return self._scalar(world, node.func.value)
            if node.func.attr in _REDUCTIONS and not node.args and not node.keywords:
                return node if not world.qualified(node) and world.resolver.roles(node) == {Role.DATA} else None
        if world.qualified(node).startswith("torch.nn.functional.") and world.qualified(node).endswith(_LOSSES):
            return node if world.resolver.argument(node, None, "reduction") is None else None
        values = world.resolver.values(node.func)
        if values and all(v.role is Role.LOSS and v.name.startswith("torch.nn.") for v in values):
            made = [v.origin for v in values]
            if all(isinstance(m, ast.Call) and world.resolver.argument(m, None, "reduction") is None for m in made):
                return node
        return None


_LOSSES = ("_loss", "cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "binary_cross_entropy")


class Shape(Lint):
    """`gather` joins tensors of equal shape. How many values a mask selects differs from process to process: gloo ends
    the job, and nccl waits for ever or returns what is none of the processes' values.
    """

    code = "GATHER-SHAPE"
    severity = Severity.ERROR
    title = "tensors of different lengths are gathered"
    wrong = """\
predictions = accelerator.gather_for_metrics(predictions[labels != -100])
"""
    right = """\
predictions, labels = accelerator.gather_for_metrics((predictions, labels))
predictions = predictions[labels != -100]
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            if world.together.of(call) not in _GATHERS or not call.args or world.ranks.perhaps_alone(call):
                continue
            if world.resolver.argument(call, 1, "use_gather_object") is not None:
                continue
            given = _held(world, call.args[0])
            for part in given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]:
                chosen = self._chosen(world, part)
                if chosen is None:
                    continue
                local = world.flow.local(chosen)
                if local is not None:
                    yield Finding(
                        self.code,
                        self.severity,
                        call.lineno,
                        f"`{world.text(chosen)}` has another length on every process, and `{world.text(call.func)}` "
                        "joins equal shapes only: the job ends, or hangs",
                        "gather first and select afterwards, or accelerator.pad_across_processes before",
                        (Evidence(local.node.lineno, local.text),),  # type: ignore[attr-defined]
                    )
                    break

    def _chosen(self, world: World, node: ast.expr) -> ast.expr | None:
        """The expression that makes a tensor as long as its values decide."""
        node = _held(world, node)
        if isinstance(node, ast.Subscript):
            mask = _held(world, node.slice)
            if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
                mask = _held(world, mask.operand)
            compares = isinstance(mask, ast.Compare) and not isinstance(mask.ops[0], (ast.In, ast.NotIn, ast.Is))
            return node if compares and world.resolver.roles(mask) == {Role.DATA} else None
        if isinstance(node, ast.Call):
            if world.qualified(node) in _RAGGED:
                return node
            if isinstance(node.func, ast.Attribute) and not world.qualified(node):
                if node.func.attr in _RAGGED_METHODS and world.resolver.roles(node) == {Role.DATA}:
                    return node
                if node.func.attr in ("detach", "cpu", "float", "long", "to", "clone"):
                    return self._chosen(world, node.func.value)
        return None


def _held(world: World, node: ast.expr, depth: int = 0) -> ast.expr:
    """What a variable certainly holds."""
    if isinstance(node, ast.Name) and depth < 6:
        bindings = world.resolver.bindings(node)
        owner = world.index.scope(node).owner(node.id)
        if len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path and owner is not None:
            value = bindings[0].value
            if value is not None and not any(b.how is How.AUGMENT for b in owner.bindings[node.id]):
                return _held(world, value, depth + 1)
    return node
