"""How many rows data have, as far as the code that makes them tells: for whether two of them have as many."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.facts import Facts

# The same count for the same number of rows. One that nothing is known of is that of the code which made the rows.
Count = tuple[object, ...]

# What makes one tensor or array, row for row, of a list or of another one.
_COPIES = frozenset(
    "torch.tensor torch.as_tensor torch.from_numpy torch.Tensor torch.FloatTensor torch.LongTensor torch.stack "
    "torch.autograd.Variable numpy.array numpy.asarray numpy.stack numpy.float32 numpy.int64 numpy.vstack".split()
)
_RANGES = frozenset({"torch.linspace", "numpy.linspace"})
_SAME = frozenset({"list", "tuple", "sorted", "reversed", "enumerate"})
_SPLITS = "sklearn.model_selection.train_test_split"
_DATASETS = "sklearn.datasets."
_PARTS = frozenset({"data", "target"})  # of a data set of scikit-learn
_MOST_STEPS = 16


class RowCounts:
    """Answers that for expressions."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.resolver = facts.resolver
        self.index = facts.index

    def of(self, node: ast.expr | None, steps: int = 0) -> Count | None:
        """How many rows an expression has; None if it may have none."""
        if node is None or steps > _MOST_STEPS:
            return None
        steps += 1
        if isinstance(node, (ast.List, ast.Tuple)):
            plain = not any(isinstance(e, ast.Starred) for e in node.elts)
            return ("number", len(node.elts)) if plain else ("made by", node)
        if isinstance(node, ast.Name):
            return self._variable(self.resolver.bindings(node), steps)
        if isinstance(node, ast.ListComp):
            first = node.generators[0]
            return self.of(first.iter, steps) if len(node.generators) == 1 and not first.ifs else ("made by", node)
        if isinstance(node, ast.BinOp):
            return self._both(node, steps)
        if isinstance(node, ast.UnaryOp):
            return self.of(node.operand, steps)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, steps)
        if isinstance(node, ast.Subscript):
            return self._part(node, steps)
        if isinstance(node, ast.Call):
            return self._call(node, steps)
        return None

    def _variable(self, bindings: Sequence[Binding], steps: int) -> Count | None:
        if len(bindings) != 1:
            return None
        binding = bindings[0]
        if binding.how is How.PARAMETER:
            return ("made by", binding.node)
        if binding.how is not How.ASSIGN or binding.value is None:
            return None
        value = binding.value
        filled = self._filled(binding, steps) if isinstance(value, ast.List) and not value.elts else None
        if filled is not None:
            return filled
        return self._element(value, binding.path, steps) if binding.path else self.of(value, steps)

    def _element(self, value: ast.expr, path: Sequence[int | None], steps: int) -> Count | None:
        """The count of what unpacking takes out of a value."""
        place, *deeper = path
        if deeper or place is None:
            return ("made by", value, *path)
        if isinstance(value, (ast.Tuple, ast.List)) and place < len(value.elts):
            return self.of(value.elts[place], steps)
        if isinstance(value, ast.Call):
            qualified = self.resolver.qualified(value.func) or ""
            if qualified.startswith(_DATASETS):
                return ("made by", value)
            if qualified == _SPLITS:
                return ("made by", value, place % 2)
            turned = self._turned(value)
            if turned is not None:
                return self.of(turned, steps)
            function = self.resolver.callee(value)
            if isinstance(function, FUNCTIONS):
                return self._returned(function, place, steps) or ("made by", value, place)
        return ("made by", value, place)

    def _turned(self, call: ast.Call) -> ast.expr | None:
        """The samples of which a call makes one thing of each of their parts, which have a row for every sample:
        `zip(*samples)`, `map(torch.tensor, zip(*samples))`."""
        builtin, inner = self.resolver.builtin(call.func), call.args[-1] if call.args else None
        if builtin == "map" and len(call.args) == 2 and self.resolver.qualified(call.args[0]) in _COPIES:
            return self._turned(inner) if isinstance(inner, ast.Call) else None
        return inner.value if builtin == "zip" and len(call.args) == 1 and isinstance(inner, ast.Starred) else None

    def _returned(self, function: Function, place: int, steps: int) -> Count | None:
        """The count of a part of what a function of the script returns."""
        returns = [n for n in walk(function) if isinstance(n, ast.Return)]
        one = returns[0].value if len(returns) == 1 else None
        whole = isinstance(one, (ast.Tuple, ast.List)) and place < len(one.elts)
        return self.of(one.elts[place], steps) if whole else None  # type: ignore[union-attr]

    def _filled(self, binding: Binding, steps: int) -> Count | None:
        """The count of a list that begins empty, and gets one row in each iteration of one loop."""
        function = self.index.function(binding.node)
        methods = [
            method
            for read in self.facts.loads(binding.scope, binding.name)
            if isinstance(method := self.index.parents.get(read), ast.Attribute)
        ]
        if len(methods) != 1 or methods[0].attr != "append" or len(binding.scope.bindings[binding.name]) != 1:
            return None
        append = self.index.statement(methods[0])
        loop = next(iter(self.index.enclosing_loops(append)), None)
        if not isinstance(loop, ast.For) or append not in loop.body or self.index.function(loop) is not function:
            return None
        leaves = any(isinstance(n, (ast.Break, ast.Continue, ast.Return)) for s in loop.body for n in walk(s))
        if leaves or self.index.enclosing_loops(loop) != self.index.enclosing_loops(binding.node):
            return None
        return self.of(loop.iter, steps)

    def _both(self, node: ast.BinOp, steps: int) -> Count | None:
        """The count of an elementwise operation: numbers take part in each row."""
        left, right = self.of(node.left, steps), self.of(node.right, steps)
        if isinstance(node.op, ast.MatMult) or left == right:
            return left
        for count, other in ((left, node.right), (right, node.left)):
            if count is not None and isinstance(other, (ast.Constant, ast.UnaryOp)):
                return count
        return None

    def _attribute(self, node: ast.Attribute, steps: int) -> Count | None:
        if node.attr in _PARTS:
            made = self.resolver.bindings(node.value) if isinstance(node.value, ast.Name) else []
            call = made[0].value if len(made) == 1 and not made[0].path else node.value
            if isinstance(call, ast.Call) and (self.resolver.qualified(call.func) or "").startswith(_DATASETS):
                return ("made by", call)
        return self.of(node.value, steps) if node.attr == "data" else None

    def _part(self, node: ast.Subscript, steps: int) -> Count | None:
        base = self.of(node.value, steps)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) and node.slice.elts else [node.slice]
        if base is None or not isinstance(parts[0], ast.Slice):
            return None
        first = parts[0]
        if first.lower is first.upper is first.step is None:
            return base
        variables = loads(first)
        origins = tuple(b.node for n in variables for b in self.resolver.bindings(n))
        return ("slice", base, ast.dump(first), origins) if len(origins) == len(variables) else None

    def _call(self, call: ast.Call, steps: int) -> Count | None:
        qualified = self.resolver.qualified(call.func) or ""
        module, _, name = qualified.rpartition(".")
        first = call.args[0] if call.args else None
        if any(k.arg == "requires_grad" and integer(k.value) != 0 for k in call.keywords):
            return None  # it is trained, not trained on
        if qualified in _COPIES and first is not None:
            return self.of(first, steps)
        if (module == "torch" and name in torch_ops.SIZED) or qualified in ("numpy.zeros", "numpy.ones"):
            return self._size(argument(call, None, "size") if name == "randint" else first, steps)
        if qualified == "numpy.random.randn":
            return self._size(first, steps)
        if module == "torch" and (name in torch_ops.LIKE or name == "normal"):
            return self.of(first, steps)
        if qualified in _RANGES:
            return self._size(argument(call, 2, "steps" if module == "torch" else "num"), steps)
        if qualified in ("torch.arange", "numpy.arange") and len(call.args) == 1:
            return self._size(first, steps)
        if qualified == "torch.cat":
            return self._joined(call, steps)
        builtin = self.resolver.builtin(call.func)
        if builtin in _SAME or builtin == "zip":
            return self.of(first, steps)
        if builtin == "range":
            return self._size(first, steps) if len(call.args) == 1 else ("made by", call)
        if module in ("torch", "numpy"):
            return self._changed(name, call, first, call.args[1:], steps)
        if not qualified and isinstance(call.func, ast.Attribute) and self.resolver.callee(call) is None:
            return self._changed(call.func.attr, call, call.func.value, call.args, steps)
        return ("made by", call)

    def _changed(
        self, name: str, call: ast.Call, of: ast.expr | None, others: Sequence[ast.expr], steps: int
    ) -> Count | None:
        """The count of what a function or method makes of a tensor."""
        if name in torch_ops.ROW_WISE:
            return self.of(of, steps)
        dimension = next(iter(others), None) or argument(call, None, "dim")
        if name in ("unsqueeze", "squeeze") and integer(dimension) not in (None, 0):
            return self.of(of, steps)
        if name in ("view", "reshape") and others and integer(others[0]) != -1:
            return self._size(others[0], steps)
        return ("made by", call)

    def _joined(self, call: ast.Call, steps: int) -> Count | None:
        parts = call.args[0].elts if call.args and isinstance(call.args[0], (ast.Tuple, ast.List)) else []
        counts = [self.of(part, steps) for part in parts]
        along = argument(call, 1, "dim")
        if not counts or None in counts or (along is not None and integer(along) != 0):
            return ("made by", call)
        return ("together", *counts)

    def _size(self, node: ast.expr | None, steps: int) -> Count | None:
        """The count of something as long as a number or a shape says."""
        if isinstance(node, (ast.Tuple, ast.List)) and node.elts:
            node = node.elts[0]
        number = integer(node)
        if number is not None:
            return ("number", number)
        if isinstance(node, ast.Name):
            bindings = self.resolver.bindings(node)
            if len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path:
                told = self._told(bindings[0].value, steps)
                return told or ("number in", bindings[0].node)
            return ("number in", bindings[0].node) if len(bindings) == 1 else None
        return self._told(node, steps)

    def _told(self, node: ast.expr | None, steps: int) -> Count | None:
        """The count that `len(x)`, `x.size(0)` or `x.shape[0]` tells, or a shape alone."""
        if isinstance(node, ast.Subscript) and integer(node.slice) == 0:
            node = node.value
        if isinstance(node, ast.Attribute) and node.attr == "shape":
            return self.of(node.value, steps)
        if isinstance(node, ast.Call) and self.resolver.builtin(node.func) == "len" and node.args:
            return self.of(node.args[0], steps)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
            return self.of(node.func.value, steps) if all(integer(a) == 0 for a in node.args) else None
        number = integer(node)
        return ("number", number) if number is not None else None
