"""What puts the numbers of a tensor in order that may have one for each sample, and so the samples themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.layout.dimensions import Dimensions
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.resolve import Resolver

# What ranks, and where it is told the dimension after its tensor: the last one if it is not told.
_RANKS = {"topk": 1, "kthvalue": 1, "sort": 0, "argsort": 0}
_ACTIVATIONS = frozenset("Sigmoid LogSigmoid Tanh ReLU LeakyReLU Softplus Dropout Identity".split())
_FLATTENS = frozenset({"flatten", "ravel"})
_SHAPES = frozenset({"view", "reshape"})
_STAYS = frozenset("to cpu cuda detach clone".split())
_CASTS = frozenset("float double half add sub mul div add_ sub_ mul_ div_".split())
_MOST_STEPS = 16

Path = tuple[int | None, ...]


class Ranks:
    """Tells that by what networks of the script return: a sum over the features, or all of it in one dimension."""

    def __init__(self, resolver: Resolver, dimensions: Dimensions) -> None:
        self.resolver = resolver
        self.dimensions = dimensions
        self._seen: set[tuple[ast.expr, Path, bool]] = set()  # in the question that is asked

    def of(self, call: ast.Call) -> ast.expr | None:
        """The scores of a network that a call ranks along their last dimension, if that may be the samples'."""
        tensor, name, given = self._operation(call)
        if tensor is None or name not in _RANKS:
            return None
        dimension = self.resolver.argument(call, _RANKS[name] + len(call.args) - given, "dim")
        last = dimension is None or integer(dimension) == -1
        self._seen.clear()
        return tensor if last and self._flat(tensor, (), False, _MOST_STEPS) else None

    def numbered(self, node: ast.expr) -> ast.expr | None:
        """The tensor of which an expression tells, by sorting places in their order, where each number would stand
        among the others, if these may be those of other samples: `x.argsort().argsort().float()`. Where it only puts
        samples back into their order, it is none."""
        places = self._sorted(node)
        tensor = self._sorted(places) if places is not None else None
        alone = tensor is not None and (self.dimensions.of(tensor) or 1) < 2
        return tensor if alone and self._counts(node) else None

    def _counts(self, node: ast.expr) -> bool:
        """Whether places are computed with, and not only taken from."""
        parent = self.resolver.index.parents.get(node)
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            scope = self.resolver.index.scope(parent.targets[0]).owner(parent.targets[0].id)
            reads = scope.loads.get(parent.targets[0].id, ()) if scope is not None else ()
            return any(self._counts(read) for read in reads)
        if isinstance(parent, ast.Attribute) and parent.attr in _STAYS:
            return self._counts(self.resolver.index.parents[parent])  # type: ignore[arg-type]
        return isinstance(parent, ast.BinOp) or (isinstance(parent, ast.Attribute) and parent.attr in _CASTS)

    def _sorted(self, node: ast.expr) -> ast.expr | None:
        """The tensor whose places an expression, or the variable that it is, has in the order of its numbers."""
        if isinstance(node, ast.Name):
            bindings = self.resolver.bindings(node)
            value = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
            return self._sorted(value) if isinstance(value, ast.Call) else None
        tensor, name, given = self._operation(node) if isinstance(node, ast.Call) else (None, "", 0)
        if not isinstance(node, ast.Call) or name != "argsort":
            return None
        dimension = self.resolver.argument(node, len(node.args) - given, "dim")
        return tensor if dimension is None or integer(dimension) in (0, -1) else None

    def is_order(self, node: ast.expr, path: Path = (), steps: int = 4) -> bool:
        """Whether an expression has places in the order of some numbers: `x.argsort()`, `torch.sort(x)[1]`."""
        if isinstance(node, ast.Name) and steps:
            found = list(self._bound(node, path))
            return bool(found) and all(self.is_order(value, where, steps - 1) for value, where in found)
        if isinstance(node, ast.Subscript) and integer(node.slice) is not None:
            return self.is_order(node.value, (integer(node.slice), *path), steps)
        if isinstance(node, ast.Attribute) and node.attr == "indices":
            return self.is_order(node.value, (1, *path), steps)
        tensor, name, _ = self._operation(node) if isinstance(node, ast.Call) else (None, "", 0)
        if tensor is not None and name in _STAYS:
            return self.is_order(tensor, path, steps)
        return (name == "argsort" and not path) or (name == "sort" and path == (1,))

    def reorders(self, call: ast.Call) -> ast.expr | None:
        """The tensor of one number for each sample that a call sorts, to put whole samples into their order:
        `lengths, order = lengths.sort(0)` where `x.index_select(0, order)` follows, which takes no other places."""
        tensor, name, given = self._operation(call)
        dimension = self.resolver.argument(call, len(call.args) - given, "dim")
        statement = self.resolver.index.parents.get(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        order = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else None
        if name != "sort" or not isinstance(order, ast.Name) or dimension is None or integer(dimension) != 0:
            return None
        takes = (self.taken(c)[1] for c in self.resolver.index.calls if "index_select" in ast.unparse(c.func))
        found = (b.node for t in takes if isinstance(t, ast.Name) for b in self.resolver.bindings(t))
        return tensor if any(node is order for node in found) else None

    def taken(self, call: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
        """The tensor of which a call takes the entries at some places of dimension 0, and the places."""
        tensor, name, given = self._operation(call)
        if tensor is None or name != "index_select":
            return None, None
        first = len(call.args) - given
        dimension = self.resolver.argument(call, first, "dim")
        places = self.resolver.argument(call, first + 1, "index")
        return (tensor, places) if dimension is not None and integer(dimension) == 0 else (None, None)

    def _operation(self, call: ast.Call) -> tuple[ast.expr | None, str, int]:
        """The tensor that an operation of torch works on, its name, and how many arguments come after the tensor."""
        qualified = self.resolver.qualified(call.func) or ""
        if qualified:
            module, _, name = qualified.rpartition(".")
            of_torch = module in ("torch", "torch.nn.functional", "torch.special") and bool(call.args)
            return (call.args[0], name, len(call.args) - 1) if of_torch else (None, "", 0)
        if isinstance(call.func, ast.Attribute) and self.resolver.callee(call) is None:
            return call.func.value, call.func.attr, len(call.args)
        return None, "", 0

    def _flat(self, node: ast.expr, path: Path, inside: bool, steps: int) -> bool:
        """Whether an expression, or a part of it, may have one dimension; `inside` a network, where that is told."""
        steps -= 1
        if steps < 0 or (node, path, inside) in self._seen:
            return False
        self._seen.add((node, path, inside))
        if isinstance(node, (ast.Tuple, ast.List)):
            part = path[0] if path else None
            return part is not None and part < len(node.elts) and self._flat(node.elts[part], path[1:], inside, steps)
        if isinstance(node, ast.Name):
            return any(self._flat(value, where, inside, steps) for value, where in self._bound(node, path))
        if isinstance(node, ast.BinOp):
            return self._flat(node.left, (), inside, steps) or self._flat(node.right, (), inside, steps)
        if isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
            picked = any(integer(part) is not None for part in parts[1:])
            return (inside and picked) or (not parts and self._flat(node.value, (), inside, steps))
        return isinstance(node, ast.Call) and self._call(node, path, inside, steps)

    def _bound(self, name: ast.Name, path: Path) -> Iterator[tuple[ast.expr, Path]]:
        for binding in self.resolver.bindings(name):
            if binding.how is How.ASSIGN and binding.value is not None:
                yield binding.value, (*binding.path, *path)
            elif binding.how is How.PARAMETER:
                yield from ((value, path) for value in self.resolver.handed(binding) if value is not None)

    def _call(self, call: ast.Call, path: Path, inside: bool, steps: int) -> bool:
        values = self.dimensions.layers(call.func)
        for value in values:
            forward = (
                self.resolver.method(value.declaration, "forward")
                if isinstance(value.declaration, ast.ClassDef)
                else None
            )
            returned = self.resolver.returns(forward) if forward is not None else []
            if any(r.value is not None and self._flat(r.value, path, True, steps) for r in returned):
                return True
        if values:
            passes = all(v.name.removeprefix("torch.nn.") in _ACTIVATIONS for v in values)
            return passes and bool(call.args) and self._flat(call.args[0], (), inside, steps)
        target = self.resolver.callee(call)
        if isinstance(target, FUNCTIONS):
            returned = self.resolver.returns(target)
            return any(r.value is not None and self._flat(r.value, path, inside, steps) for r in returned)
        tensor, name, given = self._operation(call)
        if tensor is None:
            return False
        if inside and self._reduces(call, name, given):
            return True
        return name in torch_ops.ROW_WISE and self._flat(tensor, (), inside, steps)

    def _reduces(self, call: ast.Call, name: str, given: int) -> bool:
        """Whether an operation leaves out a dimension, or all but one."""
        after = call.args[len(call.args) - given :]
        kept = any(k.arg == "keepdim" for k in call.keywords) or len(after) > 1
        if name in _SHAPES:
            return len(after) == 1 and integer(after[0]) == -1
        if name in _FLATTENS:
            return not after and not call.keywords
        told = bool(after) or any(k.arg in ("dim", "axis") for k in call.keywords)
        return name == "squeeze" or (name in ("sum", "mean") and told and not kept)
