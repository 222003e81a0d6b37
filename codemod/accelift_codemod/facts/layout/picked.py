"""The layouts of code that picks the rows of its batches itself, where nothing is taken for granted."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.effects import appended, loads, stores
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout.algebra import FIXED, SCALARS, Environment, Frame, Layout, Shape
from accelift_codemod.facts.layout.choosing import PERMUTES
from accelift_codemod.facts.layout.interpreter import Layouts
from accelift_codemod.facts.layout.modules import Modules
from accelift_codemod.facts.layout.products import flattened
from accelift_codemod.facts.layout.sized import Sized, shape_drawn
from accelift_codemod.facts.layout.sources import Sources
from accelift_codemod.facts.layout.strides import Strides
from accelift_codemod.facts.layout.subscripts import is_whole
from accelift_codemod.facts.objects import Objects
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tree import children, walk
from accelift_codemod.facts.values import Role, Value

if TYPE_CHECKING:
    from accelift_codemod.facts.extents import Extents
    from accelift_codemod.facts.hooks import Hook

# Functions that draw indices: where the number of these stands among the positional arguments, and its keyword.
_DRAWS: dict[str, tuple[int, str]] = {
    "numpy.random.choice": (1, "size"),
    "numpy.random.randint": (2, "size"),
    "random.sample": (1, "k"),
    "random.choices": (1, "k"),
    "torch.multinomial": (1, "num_samples"),
}
_CHANCE = ("numpy.random.", "random.")
_TORCH_CHANCE = frozenset("rand randn randint normal multinomial bernoulli poisson randperm".split())
# What makes tensors of a size that it is told.
_MAKES = (
    torch_ops.SIZED | torch_ops.LIKE | frozenset("arange linspace eye tile vstack repeat FloatTensor Tensor".split())
)
# What makes one tensor or array, row for row, of a list or of another one.
_COPIES = frozenset(
    "torch.stack torch.tensor torch.as_tensor torch.from_numpy torch.Tensor torch.FloatTensor torch.LongTensor "
    "numpy.stack numpy.array numpy.asarray numpy.float32 numpy.int64".split()
)
_PURE = ("torch.", "numpy.", "math.")  # libraries whose functions compute from their arguments alone
METHODS = (
    torch_ops.ROW_WISE
    | torch_ops.REDUCES.keys()
    | frozenset("size item t transpose view reshape format squeeze unsqueeze flatten permute swapaxes expand".split())
)
_OF_NETWORKS = frozenset({"parameters", "named_parameters"})  # methods that return what does not depend on a batch
_TENSORS = (*FIXED, Layout.ROWS)  # what is asked for a new tensor of some size
_CHANGES = frozenset("pop popleft popitem append extend insert remove add update setdefault clear sort reverse".split())
_FOREIGN = frozenset({"next", "input", "open", "iter"})
_PLAIN = (ast.Name, ast.Constant, ast.Slice)


class _Modules(Modules):
    """Networks: on what does not change with the loop they compute on the same each time."""

    def forward(
        self, value: Value, arguments: list[Shape], keywords: dict[str, Shape], call: ast.Call | None = None
    ) -> Shape:
        everything = [*arguments, *keywords.values()]
        if all(e in FIXED for e in everything):
            return Layout.CONST
        if value.name.rpartition(".")[2] in torch_ops.RECURRENT and all(map(_columns, arguments[1:])):
            arguments = arguments[:1]  # hidden states have the rows in their second dimension
        return super().forward(value, arguments, keywords, call)


class Picked(Layouts):
    """Interprets the body of a loop that has no loader.

    Rows come from where the code picks them: a slice whose bounds change with the loop, or indices that are drawn.
    `picks` collects these expressions, each with what its number of rows depends on. A value that changes with the
    loop in any other way is UNKNOWN, and so is whatever is computed from something UNKNOWN, losses included.
    """

    def __init__(
        self, objects: Objects, extents: Extents, registered: Callable[[], Sequence[tuple[ast.Call, Hook]]] = list
    ) -> None:
        super().__init__(objects, extents, registered=registered)
        self.modules = _Modules(self)
        self.picks: dict[ast.expr, str] = {}
        self.drew = False  # whether random numbers were drawn for the rows that were picked
        self.sized = Sized(self)
        self._lost: list[ast.expr] = []
        self._loop: ast.AST | None = None
        self._strides = Strides(self.resolver, None)
        self.methods = METHODS
        self._sources = Sources(self)

    def begin(self, loop: ast.AST) -> None:
        """Interpret code of this loop from now on, and forget what was picked, also by functions that it called."""
        if loop is not self._loop:
            self._loop, self._strides = loop, Strides(self.resolver, loop)
        self.picks = {}
        self.drew = False
        self._lost = []
        self.modules.forget()
        self.prefixes.forget()

    def first_lost(self, loop: ast.AST, node: ast.expr, env: Environment) -> ast.expr | None:
        """The first operation of which nothing is known, in reading an expression and the functions that it runs."""
        self.begin(loop)
        self._lost = []
        self.read(node, env)
        return next(
            (n for n in self._lost if not isinstance(n, _PLAIN) and not _counts(n) and not self._sets_up(n)), None
        )

    def _sets_up(self, node: ast.expr) -> bool:
        """Whether an expression is a statement that sets a network up: `self.lstm.flatten_parameters()`."""
        called = node.func if isinstance(node, ast.Call) else None
        ready = isinstance(called, ast.Attribute) and called.attr in torch_ops.MODULE_METHODS
        return ready and isinstance(self.index.parents.get(node), ast.Expr)

    def _pick(self, node: ast.expr, rows: str) -> Shape:
        self.picks[node] = rows
        self.sized.pick(node, rows, rows.removeprefix("slice of ").removeprefix("size ") if rows[:1] == "s" else "")
        return Layout.ROWS

    def step(self, statement: ast.stmt, env: Environment, frame: Frame | None = None) -> None:
        source = self._sources.of(statement, self._loop, env) if frame is None else None
        if frame is None:
            self.sized.within = self._loop if isinstance(statement, ast.Assign) else None
        frame = frame or Frame(None)
        filled = self._filled(statement, env, frame) if isinstance(statement, ast.For) else set()
        super().step(statement, env, frame)
        env.update(dict.fromkeys(filled, Layout.ROWS))
        names = stores(statement)
        if source is not None and not self.picks and all(_unknown(env.get(n, Layout.CONST)) for n in names):
            env.update(dict.fromkeys(names, self._pick(source, f"dealt by {ast.unparse(source)}")))
        decides = getattr(statement, "test", getattr(statement, "iter", None))
        if isinstance(decides, ast.expr) and self._by_chance(decides):
            # Another process may draw otherwise, and compute its rows otherwise.
            env.update(dict.fromkeys(stores(statement), Layout.UNKNOWN))
            if any(isinstance(n, ast.Return) for n in walk(statement)):
                frame.returned = Layout.UNKNOWN

    def _filled(self, loop: ast.For, env: Environment, frame: Frame) -> set[str]:
        """The lists that begin empty and get one thing for each row that a loop is over, made from that row alone."""
        if self.read(loop.iter, env, frame) is not Layout.ROWS or loop.orelse:
            return set()
        own = stores(loop.target)
        later = {n for statement in loop.body for n in stores(statement)}  # what another row may have left
        found: list[str] = []
        for statement in loop.body:
            put = appended(statement)
            plain = isinstance(statement, ast.Assign) and all(isinstance(t, ast.Name) for t in statement.targets)
            made = put[1] if put is not None else statement.value if plain else None  # type: ignore[attr-defined]
            if made is None or not self._of_row(made, own, env) or {n.id for n in loads(made)} & later - own:
                return set()
            own |= stores(statement)
            found += [put[0]] if put is not None else []
        return {name for name in found if env.get(name) == () and found.count(name) == 1}

    def _of_row(self, node: ast.expr, own: set[str], env: Environment) -> bool:
        """Whether an expression is made from one row and from what all rows have in common."""
        inside = list(walk(node))
        inner = {n for part in inside if isinstance(part, ast.comprehension) for n in stores(part.target)}
        shared = {n.id for n in inside if isinstance(n, ast.Name)} - own - inner
        calls = any(isinstance(n, ast.Call) and isinstance(self.resolver.callee(n), FUNCTIONS) for n in inside)
        others = any(isinstance(n, ast.Call) and (self.chance(n) or self._takes(n)) for n in inside)
        return not calls and not others and all(env.get(n, Layout.CONST) in FIXED for n in shared)

    def _takes(self, call: ast.Call) -> bool:
        """Whether a call leaves something else for the next one."""
        changes = isinstance(call.func, ast.Attribute) and call.func.attr in _CHANGES
        return changes or self.resolver.builtin(call.func) in _FOREIGN

    def decided_by_chance(self, function: ast.AST, cut: ast.Call | None = None) -> bool:
        """Whether a random number decides what a function does, or how often; of data that are `cut` to pieces, how
        large these are."""
        tests = [getattr(n, "test", getattr(n, "iter", None)) for n in walk(function)]
        sizes = cut.args[-1:] if cut is not None else []
        given = [*sizes, *(test for test in tests if test is not cut)]
        return any(self._by_chance(part) for part in given if isinstance(part, ast.expr))

    def _by_chance(self, node: ast.AST) -> bool:
        """Whether an expression depends on random numbers; how many of them there are is no such number."""
        func = node.func if isinstance(node, ast.Call) else node
        if isinstance(func, ast.Attribute) and func.attr in ("shape", "size"):
            return isinstance(node, ast.Call) and any(map(self._by_chance, node.args))
        if isinstance(node, ast.Call) and self.resolver.builtin(node.func) == "len" and len(node.args) == 1:
            return isinstance(node.args[0], ast.Call) and self._by_chance(node.args[0])
        return self.chance(node) or any(map(self._by_chance, children(node)))

    # ---- expressions

    def chance(self, node: ast.AST) -> bool:
        """Whether an expression draws a random number, or is a variable that holds one."""
        if isinstance(node, ast.Name):
            return any(isinstance(b.value, ast.Call) and self.chance(b.value) for b in self.resolver.bindings(node))
        qualified = self.resolver.qualified(node.func) or "" if isinstance(node, ast.Call) else ""
        module, _, name = qualified.rpartition(".")
        return qualified.startswith(_CHANCE) or (module == "torch" and name in _TORCH_CHANCE)

    def _name(self, node: ast.Name, env: Environment) -> Shape:
        owner = self.index.scope(node).owner(node.id)
        if node.id in env or owner is None:
            return super()._name(node, env)
        for binding in owner.bindings[node.id]:
            global_ = owner.is_module and self.index.function(binding.node) is not None
            if global_ or any(outer is self._loop for outer in self.index.ancestors(binding.node)):
                return Layout.UNKNOWN  # a variable outside a function that the loop binds anew
        return super()._name(node, env)

    def read(
        self, node: ast.expr | None, env: Environment, frame: Frame | None = None, trusted: ast.expr | None = None
    ) -> Shape:
        if node in self.sized.counts:
            return Layout.COUNT
        found = super().read(node, env, frame, trusted)
        if found in (Layout.UNKNOWN, Layout.UNSURE) and node is not None:
            self._lost.append(node)
        if found in (Layout.PICKED, Layout.PIECES, Layout.PIECE, Layout.PIECED):
            return Layout.UNKNOWN  # rows of another kind than those that the code picks
        if self.sized.rows and found not in FIXED and (frame is None or frame.owner is None):
            if self.sized.meets_data(node, env):
                return Layout.UNKNOWN
        if found is Layout.ROWS and isinstance(node, ast.BinOp):
            for side, other in ((node.left, node.right), (node.right, node.left)):
                for_rows = self._made_for_rows(other, env) or self._draws(side)
                if for_rows and self.read(other, env, frame) is Layout.CONST:
                    return Layout.UNKNOWN
        return found

    def _draws(self, node: ast.expr) -> bool:
        """Whether an expression is a vector of indices that was drawn."""
        values = [b.value for b in self.resolver.bindings(node)] if isinstance(node, ast.Name) else [node]
        names = {
            qualified for v in values if isinstance(v, ast.Call) and (qualified := self.resolver.qualified(v.func))
        }
        return bool(names & {*_DRAWS, *PERMUTES, "torch.randint"})

    def _subscript(self, node: ast.Subscript, env: Environment, frame: Frame) -> Shape:
        base = self.read(node.value, env, frame)
        first, *others = node.slice.elts if isinstance(node.slice, ast.Tuple) and node.slice.elts else [node.slice]
        if isinstance(first, ast.Slice) and self.permutes(node.value) and first.upper is not None:
            fixed = first.lower is None and self.read(first.upper, env, frame) in FIXED
            return self._pick(node, f"size {ast.unparse(first.upper)}") if fixed else Layout.UNKNOWN
        changing = [other for other in others if self._changes(other, env, frame)] if base in FIXED else []
        if changing:
            steps = is_whole(first) and all(isinstance(other, ast.Slice) for other in changing) and frame.owner is None
            return self._pick(node, f"rows of {ast.unparse(node.value)}") if steps else Layout.UNKNOWN
        if base in FIXED and isinstance(first, ast.Slice) and self._changes(first, env, frame):
            rows = self._strides.rows(first) if frame.owner is None else None
            return self._pick(node, f"slice of {rows}") if rows is not None else Layout.UNKNOWN
        if base in FIXED and others and self.read(first, env, frame) is Layout.ROWS:
            return Layout.ROWS
        return super()._subscript(node, env, frame)

    def _changes(self, node: ast.expr, env: Environment, frame: Frame) -> bool:
        """Whether an index is another one in another iteration."""
        parts = (node.lower, node.upper, node.step) if isinstance(node, ast.Slice) else (node,)
        return any(part is not None and self.read(part, env, frame) not in FIXED for part in parts)

    def comprehension(
        self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp, env: Environment, frame: Frame
    ) -> Shape:
        first = node.generators[0]
        plain = len(node.generators) == 1 and not first.ifs and isinstance(first.target, ast.Name)
        if isinstance(node, ast.DictComp) or not plain or self.read(first.iter, env, frame) is not Layout.ROWS:
            return super().comprehension(node, env, frame)
        # One thing for each row, made from that row and from what every row has in common.
        return Layout.ROWS if self._of_row(node.elt, stores(first.target), env) else Layout.UNKNOWN

    def _call(self, call: ast.Call, env: Environment, frame: Frame) -> Shape:
        found = self._called(call, env, frame)
        again = self.sized.counts and self.sized.makes_states(call, _columns(found))
        return self._called(call, env, frame) if again else found

    def _begins_anew(self, call: ast.Call) -> bool:
        """Whether a call takes the first of something each time: `next(iter([x]))`."""
        of = call.args[0] if call.args else None
        return isinstance(of, ast.Call) and self.resolver.builtin(of.func) == "iter"

    def _called(self, call: ast.Call, env: Environment, frame: Frame) -> Shape:
        qualified = self.resolver.qualified(call.func) or ""
        if self._parameters(call, frame):
            return Layout.CONST
        if self.resolver.builtin(call.func) in _FOREIGN and not self._begins_anew(call):
            return Layout.UNKNOWN
        if flattened(call) and self.read(call.func.value, env, frame) is Layout.ROWS:  # type: ignore[attr-defined]
            return Layout.ROWS
        drawn = self._drawn(call, qualified, env, frame)
        if drawn is not None:
            return drawn
        if qualified in _COPIES and call.args and self.read(call.args[0], env, frame) is Layout.ROWS:
            elsewhere = argument(call, None, "dim") or argument(call, None, "axis")
            return Layout.UNKNOWN if elsewhere else Layout.ROWS
        found = super()._call(call, env, frame)
        self.drew |= found is Layout.ROWS and qualified in ("torch.rand_like", "torch.randn_like", "torch.randint_like")
        if found is Layout.CONST and not self.computes(call, qualified):
            return Layout.UNKNOWN
        function = self.resolver.callee(call)
        if isinstance(function, FUNCTIONS) and _without_rows(found) and self._sources.renews(function):
            return Layout.UNKNOWN
        parts = [*call.args, *(k.value for k in call.keywords)]
        if isinstance(found, tuple) and self.recurrent(call) and not self.dimensions.batched(call):
            states = [self.read(part, env, frame) for part in parts[1:]]
            if not states or not all(map(_columns, states)):
                return Layout.UNKNOWN  # of two dimensions, the rows may be the steps of one sequence
        if found not in FIXED and self.trains(call) and any(self._made_for_rows(part, env) for part in parts):
            return Layout.UNKNOWN
        each = found is Layout.ROWS and self._compares(call, qualified)  # a loss for each sample
        if (found in SCALARS or each) and not isinstance(self._runs(call), FUNCTIONS):
            compared = {self.read(a, env, frame) for a in call.args[:2]} if self._compares(call, qualified) else set()
            if Layout.CONST in compared or {Layout.ROWS, Layout.COLUMNS} <= compared:
                return Layout.UNKNOWN  # the loss of a share against something for the whole batch, or of other shape
            if isinstance(call.func, ast.Attribute) and not qualified and not self.resolver.values(call.func):
                parts.append(call.func.value)
                if self.read(call.func.value, env, frame) is Layout.COLUMNS:
                    return Layout.UNKNOWN  # states, perhaps, that are added up
            if any(_unknown(self.read(part, env, frame)) for part in parts):
                return Layout.UNKNOWN
        return found

    def _drawn(self, call: ast.Call, qualified: str, env: Environment, frame: Frame) -> Shape | None:
        """What a call that draws, or makes as many rows as it is told, returns; None if it does neither."""
        module, _, name = qualified.rpartition(".")
        sizes = list(call.args)
        if isinstance(call.func, ast.Attribute) and self.sized.is_new(call):
            return self._made(sizes, env, frame) if self.read(call.func.value, env, frame) in _TENSORS else None
        if module == "torch" and name in torch_ops.SIZED - {"randint"}:
            made = self._made(sizes, env, frame)
            self.drew |= made is Layout.ROWS and name in _TORCH_CHANCE
            return self._as_sized(call, sizes, env) if made is Layout.UNKNOWN else made
        shape = shape_drawn(call, name) if module in ("torch", "numpy.random") else []
        if shape:
            return self._as_sized(call, shape, env)
        if qualified == "torch.randint":
            size = next((a for a in sizes if isinstance(a, (ast.Tuple, ast.List))), argument(call, None, "size"))
        elif qualified in _DRAWS:
            size = argument(call, *_DRAWS[qualified])
            if any(self.read(a, env, frame) not in FIXED for a in call.args):
                return Layout.UNKNOWN
        else:
            return Layout.UNKNOWN if self.chance(call) else None
        if isinstance(size, (ast.Tuple, ast.List)):
            size = size.elts[0] if len(size.elts) == 1 else None
        if size is None or frame.owner is not None or self.read(size, env, frame) not in FIXED:
            return Layout.UNKNOWN
        return self._pick(call, f"size {ast.unparse(size)}")

    def _as_sized(self, call: ast.Call, sizes: list[ast.expr], env: Environment) -> Shape:
        rows = self.sized.of(call, sizes, env)
        return self._pick(call, rows) if rows is not None else Layout.UNKNOWN

    def _made(self, sizes: list[ast.expr], env: Environment, frame: Frame) -> Shape:
        """A tensor of a size that is told: for each row of the batch, or for no batch at all."""
        if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
            sizes = list(sizes[0].elts)
        places = [self.read(size, env, frame) for size in sizes]
        if places and places[0] in (Layout.COUNT, Layout.SHAPE):
            return Layout.ROWS
        if len(places) > 1 and places[1] is Layout.COUNT:
            return Layout.COLUMNS
        ones = all(isinstance(size, ast.Constant) and size.value == 1 for size in sizes[:-1])
        return Layout.CONST if ones and all(place in FIXED for place in places) else Layout.UNKNOWN

    def _parameters(self, call: ast.Call, frame: Frame) -> bool:
        """Whether a call returns the parameters of a network, or the first of them."""
        if self.resolver.builtin(call.func) == "next" and len(call.args) == 1 and isinstance(call.args[0], ast.Call):
            return self._parameters(call.args[0], frame)
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr not in _OF_NETWORKS:
            return False
        own = isinstance(func.value, ast.Name) and func.value.id == "self" and frame.owner is not None
        named = own and self.resolver.method(frame.owner, func.attr) is not None
        return bool(self.objects.models(func.value)) or (own and not named)

    def recurrent(self, call: ast.Call) -> bool:
        """Whether a call is one of a recurrent layer."""
        names = {v.name.rpartition(".")[2] for v in self.dimensions.layers(call.func)}
        return bool(names & torch_ops.RECURRENT)

    def trains(self, call: ast.Call) -> bool:
        """Whether a call is one of a network or a loss."""
        return bool(self.objects.models(self.calls.network(call))) or self._is_loss(call)

    def _compares(self, call: ast.Call, qualified: str) -> bool:
        """Whether a call is one of a loss, of outputs against targets."""
        functional = qualified.startswith("torch.nn.functional.")
        return (functional and qualified.rpartition(".")[2] in torch_ops.FUNCTIONAL_LOSSES) or self._is_loss(call)

    def _is_loss(self, call: ast.Call) -> bool:
        return Role.LOSS in self.resolver.roles(self.calls.network(call))

    def _made_for_rows(self, node: ast.expr, env: Environment) -> bool:
        """Whether something may have been made before the loop, for as many rows as a batch has."""
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            node = node.func.value
        if isinstance(node, (ast.Tuple, ast.List)):
            return any(self._made_for_rows(element, env) for element in node.elts)
        if not isinstance(node, ast.Name) or node.id in env:
            return False
        return any(
            isinstance(part, ast.Call) and (self.resolver.qualified(part.func) or "").rpartition(".")[2] in _MAKES
            for binding in self.resolver.bindings(node)
            if binding.value is not None
            for part in walk(binding.value)
        )

    def permutes(self, node: ast.expr) -> bool:
        """Whether an expression draws an order of all rows, or is a variable that the loop keeps one in."""
        if isinstance(node, ast.Name):
            made = self.resolver.bindings(node)
            one = made[0] if len(made) == 1 and not made[0].path and isinstance(made[0].value, ast.Call) else None
            inside = one is not None and any(outer is self._loop for outer in self.index.ancestors(one.node))
            return inside and self.permutes(made[0].value)  # type: ignore[arg-type]
        return isinstance(node, ast.Call) and self.resolver.qualified(node.func) in PERMUTES

    def computes(self, call: ast.Call, qualified: str) -> bool:
        """Whether a call returns what its arguments make it return, and nothing else."""
        if qualified:
            return qualified.startswith(_PURE)
        builtin = self.resolver.builtin(call.func)
        if builtin is not None:
            return builtin not in _FOREIGN
        if isinstance(self._runs(call), FUNCTIONS) or self.trains(call):
            return True  # it was interpreted, or is of a library
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in _OF_NETWORKS and self.objects.models(func.value):
            return True
        return isinstance(func, ast.Attribute) and func.attr in METHODS

    def _runs(self, call: ast.Call) -> ast.AST | None:
        """The function of the script that a call runs: the function itself, a method, a module's forward."""
        target = self.resolver.callee(call)
        if target is not None:
            return target
        for value in self.resolver.values(call.func):
            if value.role is Role.MODEL and isinstance(value.declaration, ast.ClassDef):
                return self.resolver.method(value.declaration, "forward")
        return None


def _counts(node: ast.expr) -> bool:
    """Whether an expression is a size, or perhaps the number of a place: `x.shape[0]`, `i - 1`."""
    of = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(of, ast.Attribute):
        return of.attr == "shape"
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
    plain = all(isinstance(side, (ast.Name, ast.Constant)) for side in sides)
    return plain and any(isinstance(side, ast.Constant) for side in sides)


def _columns(value: Shape) -> bool:
    return bool(value) and all(map(_columns, value)) if isinstance(value, tuple) else value is Layout.COLUMNS


def _without_rows(value: Shape) -> bool:
    return all(map(_without_rows, value)) if isinstance(value, tuple) else value in (Layout.UNKNOWN, *FIXED)


def _unknown(value: Shape) -> bool:
    return any(map(_unknown, value)) if isinstance(value, tuple) else value in (Layout.UNKNOWN, Layout.PLACES)
