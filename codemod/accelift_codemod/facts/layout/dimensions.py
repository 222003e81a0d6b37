"""How many dimensions tensors surely have: whether a matrix product is one for each sample."""

from __future__ import annotations

import ast
import math
from functools import cached_property
from typing import TYPE_CHECKING

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.layout.products import integer, untransposed
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Role, Value

if TYPE_CHECKING:
    from accelift_codemod.facts.extents import Extents

# Layers that return as many dimensions as they are given, whatever they are given.
_KEEPS = torch_ops.ROW_WISE_LAYERS - {"Embedding", "Bilinear"} | {"Softmax", "LogSoftmax", "Softmin"}
# Functions and methods of tensors that do.
_BROADCASTS = frozenset(
    "eq ne gt lt ge le logical_and logical_or logical_xor isclose where pow float_power lerp addcmul addcdiv".split()
)
_RESHAPES = frozenset(
    "one_hot embedding unfold expand_as reshape_as view_as affine_grid tensor as_tensor tolist".split()
)
_MOVES = frozenset("transpose swapaxes permute softmax log_softmax tril triu roll flip".split())
_KEEP = torch_ops.ROW_WISE - _BROADCASTS - _RESHAPES | _MOVES
_SHAPES = frozenset({"view", "reshape"})
# Methods that return as many dimensions as they are given numbers.
_SPREADS = frozenset({"repeat", "expand"})
_CUTS = frozenset({"split", "chunk"})
# Methods that are told numbers of dimensions.
_PLACED = frozenset({"size", "transpose", "swapaxes", "permute", "mean", "sum", "max", "softmax", "log_softmax"})
# Layers whose first two arguments are numbers.
_SIZED = frozenset({"torch.nn.Linear", "torch.nn.Embedding", "torch.nn.Conv1d", "torch.nn.Conv2d"})
# Methods that change nothing about a tensor but where its numbers are, or whether gradients flow through it.
_SAME = frozenset({"detach", "clone", "contiguous", "cpu", "cuda"})
_MOST_STEPS = 40
_MOST_NAMES = 4


class Dimensions:
    """Answers that for expressions."""

    def __init__(self, resolver: Resolver, extents: Extents | None = None) -> None:
        self.resolver = resolver
        self.extents = extents
        self.index = resolver.index
        self._known: dict[ast.expr, int | None] = {}

    def apart(self, left: ast.expr, right: ast.expr) -> bool:
        """Whether a product of two tensors that have the samples in dimension 0 is one for each of these by itself."""
        first, second = self.of(left), self.of(right)
        return first is not None and first == second and first > 2

    def differ(self, left: ast.expr, right: ast.expr) -> bool:
        """Whether one of two tensors surely has more dimensions than the other, so that what is the first of this lies
        along one that has just one place; a column beside a row, which is most likely meant otherwise, is left to who
        tells of it."""
        (first, more), (second, more_too) = self._widened(left), self._widened(right)
        if more != more_too and self._is_same(first, second):
            return True
        extents = [self.extents.of(side) for side in (left, right)] if self.extents is not None else []
        sizes = sorted((e.sizes for e in extents if e is not None and not e.deeper and not e.table), key=len)
        if len(sizes) < 2 or not sizes[0] or len(sizes[0]) == len(sizes[1]) or sizes[1][-len(sizes[0])] != 1:
            return False
        return self.extents is not None and not self.extents.crossed(left, right)

    def _widened(self, node: ast.expr, steps: int = 0) -> tuple[ast.expr, int]:
        """The tensor that an expression has with more dimensions, and how many more: of `z[:, None]`, z and one."""
        if isinstance(node, ast.Name) and steps < _MOST_NAMES:
            value = self.resolver.set_once(node)
            found = self._widened(value, steps + 1) if value is not None else (node, 0)
            return found if found[1] else (node, 0)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "unsqueeze" and len(node.args) == 1:
                place = 1 if self.resolver.qualified(node.func) is None else 2
                inner, more = self._widened(node.func.value, steps) if place == 1 else (node, -1)
                return inner, more + 1
            if node.func.attr in _SAME and not node.args:
                return self._widened(node.func.value, steps)
        if isinstance(node, ast.Subscript):
            places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            new = sum(map(_is_new, places))
            rest = [place for place in places if not _is_new(place)]
            if new and all(isinstance(p, ast.Slice) and p.lower is p.upper is p.step is None for p in rest):
                inner, more = self._widened(node.value, steps)
                return inner, more + new
        return node, 0

    def _is_same(self, left: ast.expr, right: ast.expr) -> bool:
        """Whether two expressions are the same tensor."""
        if ast.dump(left) != ast.dump(right):
            return False
        return not isinstance(left, ast.Name) or self.resolver.bindings(left) == self.resolver.bindings(right)  # type: ignore[arg-type]

    def later(self, node: ast.expr, place: ast.expr) -> bool:
        """Whether a dimension that is counted from the last one is surely not the first."""
        counted, number = integer(place), self.of(node)
        number = self._least(node) if number is None else number
        return counted is not None and -number < counted < 0

    def _least(self, node: ast.expr) -> int:
        """How many dimensions a variable has at least, for some of its entries are named by so many places."""
        owner = self.index.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        if owner is None or not isinstance(node, ast.Name):
            return 0
        bound = set(self.resolver.reaching(node, owner))
        reads = (n for n in owner.loads.get(node.id, []) if self.index.scope(n) is self.index.scope(node))
        outer = (self.index.parents.get(n) for n in reads if bound == set(self.resolver.reaching(n, owner)))
        places = [o.slice.elts for o in outer if isinstance(o, ast.Subscript) and isinstance(o.slice, ast.Tuple)]
        return max((sum(isinstance(e, ast.Slice) for e in some) for some in places), default=0)

    def repeats_later(self, call: ast.Call) -> bool:
        """Whether `x.repeat(1, 2, 3)` surely puts nothing before the first dimension, and leaves that as it is."""
        whole = isinstance(call.func, ast.Attribute) and self.of(call.func.value) == len(call.args)
        return whole and integer(call.args[0]) == 1

    def regroups(self, call: ast.Call) -> bool:
        """Whether `x.view(-1, 2, 3)` surely puts several samples into one row, as each of them has fewer numbers."""
        extent = self.extents.of(call.func.value) if self.extents and isinstance(call.func, ast.Attribute) else None
        given = call.args[0].elts if call.args and isinstance(call.args[0], (ast.Tuple, ast.List)) else call.args
        told = [integer(size) for size in given[1:]]
        if extent is None or extent.deeper or extent.table or not extent.sizes or not told:
            return False
        inside, asked = math.prod(s or 0 for s in extent.sizes[1:]), math.prod(s or 0 for s in told)
        return all(size is not None and size > 0 for size in told) and 0 < inside < asked

    def batched(self, call: ast.Call) -> bool:
        """Whether what a recurrent layer is called on surely has three dimensions: two would be one sequence."""
        if self.of(call.args[0] if call.args else None) == 3:
            return True
        function = self.index.function(call)
        reads = [
            n for n in walk(function or self.index.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        ]
        return any(self._deep(n) and [b.value for b in self.resolver.bindings(n)] == [call] for n in reads)

    def _deep(self, read: ast.Name) -> bool:
        """Whether a use of what a recurrent layer returned fails unless that has three dimensions."""
        outer = self.index.parents.get(read)
        if isinstance(outer, ast.Subscript) and outer.value is read and isinstance(outer.slice, ast.Tuple):
            return sum(not isinstance(e, ast.Constant) or isinstance(e.value, int) for e in outer.slice.elts) > 2
        if not isinstance(outer, ast.Attribute):
            return False
        call = self.index.parents.get(outer)
        if outer.attr == "shape" and isinstance(call, ast.Subscript):
            return integer(call.slice) == 2
        if isinstance(call, ast.Call) and call.func is outer and outer.attr in _PLACED:
            return any(integer(a) == 2 for a in (*call.args, *(k.value for k in call.keywords)))
        return False

    def is_of_rows(self, node: ast.expr, beside: ast.BinOp) -> bool:
        """Whether an expression is one number for each row of the matrix that it is set against, turned: `q.sum(1)` in
        `q.t() / q.sum(1)`."""
        matrix, turned = untransposed(beside.left if beside.right is node else beside.right)
        made = self.resolver.set_once(node) or node
        if not turned or not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute):
            return False
        place = int(self.resolver.qualified(made.func) is not None)
        of = self.resolver.argument(made, 0, "input") if place else made.func.value
        along = integer(self.resolver.argument(made, place, "dim"))
        reduced = torch_ops.REDUCES.get(made.func.attr) in ("mean", "sum") and along in (1, -1)
        return (
            reduced
            and len(made.args) + len(made.keywords) == place + 1
            and of is not None
            and self._is_same(of, matrix)
        )

    def rank(self, node: ast.expr) -> int | None:
        """The same, also by how large the dimensions of the data and the layers are."""
        number = self.of(node)
        extent = self.extents.of(node) if number is None and self.extents is not None else None
        return number if extent is None or extent.deeper or extent.table else len(extent.sizes)

    def of(self, node: ast.expr | None, steps: int = 0) -> int | None:
        """The number of dimensions of an expression, if it is known."""
        if node is None or steps > _MOST_STEPS:
            return None
        if node not in self._known:
            self._known[node] = None  # what depends on itself is not known
            self._known[node] = self._of(node, steps + 1)
        return self._known[node]

    def _of(self, node: ast.expr, steps: int) -> int | None:
        if isinstance(node, ast.Name):
            found = {self._bound(binding, steps) for binding in self.resolver.bindings(node)}
            return 1 if self._counts_steps(node) else found.pop() if len(found) == 1 else None
        if isinstance(node, ast.BinOp):
            left, right = self.of(node.left, steps), self.of(node.right, steps)
            if isinstance(node.op, ast.MatMult):
                return left if left == right and left is not None and left > 1 else None
            return self._broadcast(node, left, right)
        if isinstance(node, ast.Call):
            return self._call(node, steps)
        return None

    def _counts_steps(self, name: ast.Name) -> bool:
        """Whether a variable says, in its function, how long the sequences are that are packed: a number for each."""
        for call in self._packing:
            if self.index.function(call) is self.index.function(name):
                lengths = self.resolver.argument(call, 1, "lengths")
                while isinstance(lengths, ast.Call) and isinstance(lengths.func, ast.Attribute):
                    lengths = lengths.func.value if lengths.func.attr in _KEEP | {"cpu"} else None
                if isinstance(lengths, ast.Name) and lengths.id == name.id:
                    if self.resolver.bindings(lengths) == self.resolver.bindings(name):
                        return True
        return False

    @cached_property
    def _packing(self) -> list[ast.Call]:
        """The calls that pack sequences."""
        packs = "torch.nn.utils.rnn.pack_padded_sequence"
        return [call for call in self.index.calls if self.resolver.qualified(call.func) == packs]

    def _broadcast(self, node: ast.BinOp, left: int | None, right: int | None) -> int | None:
        """Of an elementwise operation: numbers have no dimensions."""
        numbers = (self._number(node.left), self._number(node.right))
        if left is not None and (right == left or numbers[1]):
            return left
        return right if numbers[0] else None

    def _number(self, node: ast.expr, steps: int = 0) -> bool:
        if isinstance(node, (ast.UnaryOp, ast.BinOp)):
            return all(self._number(side, steps) for side in ast.iter_child_nodes(node) if isinstance(side, ast.expr))
        own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
        if (own or isinstance(node, ast.Name)) and steps < _MOST_NAMES:
            bindings = self._own(node) if own else self.resolver.bindings(node)  # type: ignore[arg-type]
            return bool(bindings) and all(self._named(binding, steps + 1) for binding in bindings)
        if isinstance(node, ast.Subscript):  # an entry of a shape
            return (
                isinstance(node.value, ast.Attribute)
                and node.value.attr == "shape"
                and not isinstance(node.slice, ast.Slice)
            )
        if isinstance(node, ast.Call):
            qualified = self.resolver.qualified(node.func) or ""
            size = isinstance(node.func, ast.Attribute) and node.func.attr == "size" and bool(node.args)
            return qualified.startswith("math.") or size
        return isinstance(node, ast.Constant)

    def _own(self, node: ast.Attribute) -> list[Binding]:
        """What an attribute of a module is bound to."""
        cls = self.index.enclosing_class(node)
        owners = self.resolver.ancestry(cls) if cls is not None else []
        bindings = self.index.attribute_bindings.get(node.attr, [])
        return [b for b in bindings if self.index.enclosing_class(b.node) in owners]

    def _named(self, binding: Binding, steps: int) -> bool:
        """Whether a variable is bound to a number: also where a layer takes it for one of its sizes."""
        if binding.how is How.ASSIGN and binding.value is not None:
            if binding.path:  # `b, t, c = x.shape`
                return len(binding.path) == 1 and is_shape(binding.value)
            return self._number(binding.value, steps)
        function = binding.scope.node
        if binding.how is not How.PARAMETER or not isinstance(function, FUNCTIONS):
            return False
        calls = (n for n in walk(function) if isinstance(n, ast.Call))
        sizes = (a for call in calls if self.resolver.qualified(call.func) in _SIZED for a in call.args[:2])
        return any(isinstance(size, ast.Name) and size.id == binding.name for size in sizes)

    def _bound(self, binding: Binding, steps: int) -> int | None:
        told = self._unpacked(binding)
        if told is not None:
            return told
        value = binding.value
        if binding.how is not How.ASSIGN or value is None:
            return None
        if not binding.path:
            return self.of(value, steps)
        func = value.func if isinstance(value, ast.Call) else None
        cut = isinstance(func, ast.Attribute) and func.attr in _CUTS and len(binding.path) == 1
        return self.of(func.value, steps) if cut else None  # type: ignore[union-attr]

    def _unpacked(self, binding: Binding) -> int | None:
        """The number that a statement next to it gives away, as in `b, t, c = x.shape`: any other is an error."""
        function = binding.scope.node
        if not isinstance(function, FUNCTIONS):
            return None
        statement = None if binding.how is How.PARAMETER else self.index.statement(binding.node)
        if statement is not None and statement not in function.body:
            return None
        begin = 0 if statement is None else function.body.index(statement) + 1
        for following in function.body[begin:]:
            shape = following.value if isinstance(following, ast.Assign) else None
            target = following.targets[0] if isinstance(following, ast.Assign) else None
            if any(isinstance(n, ast.Return) for n in walk(following)):
                return None
            if self._shape_of(shape, binding.name) and isinstance(target, (ast.Tuple, ast.List)):
                starred = any(isinstance(e, ast.Starred) for e in target.elts)
                return None if starred else len(target.elts)
            if any(
                isinstance(n, ast.Name) and n.id == binding.name and isinstance(n.ctx, ast.Store)
                for n in walk(following)
            ):
                return None
        return None

    def _shape_of(self, node: ast.expr | None, name: str) -> bool:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
            of: ast.expr | None = node.func.value if not node.args and not node.keywords else None
        else:
            of = node.value if isinstance(node, ast.Attribute) and node.attr == "shape" else None
        return isinstance(of, ast.Name) and of.id == name

    def _call(self, call: ast.Call, steps: int) -> int | None:
        qualified = self.resolver.qualified(call.func) or ""
        module, _, name = qualified.rpartition(".")
        if module == "torch" and name in torch_ops.SIZED - {"full", "randint"} and call.args:
            sizes = call.args[0].elts if isinstance(call.args[0], (ast.Tuple, ast.List)) else call.args
            told = len(call.args) > 1 or sizes is not call.args or integer(call.args[0]) is not None
            return len(sizes) if told and not any(isinstance(s, ast.Starred) for s in sizes) else None
        if module in ("torch", "torch.nn.functional") and call.args:
            if name in ("matmul", "bmm") and len(call.args) == 2:
                left, right = (self.of(a, steps) for a in call.args)
                return left if left == right and left is not None and left > 1 else None
            return self.of(call.args[0], steps) if name in _KEEP else None
        layers = self.layers(call.func)
        if layers:
            kept = all(v.name.startswith("torch.nn.") and v.name.rpartition(".")[2] in _KEEPS for v in layers)
            return self.of(call.args[0], steps) if kept and call.args else None
        func = call.func
        if qualified or not isinstance(func, ast.Attribute):
            return None
        if func.attr in _SHAPES | _SPREADS:
            plain = len(call.args) > 1 and not any(isinstance(a, ast.Starred) for a in call.args)
            return len(call.args) if plain else None
        if func.attr == "t" and not call.args:
            return 2
        if func.attr == "unsqueeze":
            inner = self.of(func.value, steps)
            return inner + 1 if inner is not None and integer(call.args[0] if call.args else None) is not None else None
        return self.of(func.value, steps) if func.attr in _KEEP else None

    def layers(self, func: ast.expr) -> list[Value]:
        """The modules that are called, also those that a method calls by `self.layer(x)`."""
        values = [v for v in self.resolver.values(func) if v.role in (Role.MODEL, Role.LOSS)]
        if values or not (
            isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"
        ):
            return values
        cls = self.index.enclosing_class(func)
        for owner in self.resolver.ancestry(cls) if cls is not None else ():
            for binding in self.index.set_in(owner, func.attr):
                values += self.resolver.values(binding.value) or [Value(Role.OBJECT, binding.node)]
        return values


def _is_new(place: ast.expr) -> bool:
    """Whether a part of a subscript makes a new dimension."""
    return is_constant(place, None)


def is_shape(node: ast.expr | None) -> bool:
    """Whether an expression is the whole shape of a tensor: `x.shape`, `x.size()`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "size" and not node.args and not node.keywords
    return isinstance(node, ast.Attribute) and node.attr == "shape"
