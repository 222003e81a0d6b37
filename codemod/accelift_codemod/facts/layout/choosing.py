"""What picks some of the samples of a batch, or of their parts, by what they are: masks, places of what is not zero."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.index import How
from accelift_codemod.facts.layout.algebra import FIXED, Layout, Shape
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Role

_TRUTHS = frozenset(
    "bool byte eq ne gt lt ge le logical_and logical_or logical_not logical_xor isnan isfinite isinf isin isclose "
    "greater less greater_equal less_equal not_equal".split()
)
_KEEPS = frozenset(
    "to view reshape flatten squeeze unsqueeze expand expand_as contiguous cpu cuda detach clone t transpose permute "
    "any all repeat view_as reshape_as type".split()
)
_ALIKE = frozenset("detach clone cpu cuda to float double contiguous abs neg pow square numpy tolist".split())
_SHAPES = frozenset({"view", "reshape", "flatten"})
_RANKS = torch_ops.PLACES_OF_PAIRS | {"topk", "kthvalue", "combinations"}
_RANKING = frozenset("topk kthvalue sort argsort argpartition partition".split())
_KNOWN = ("torch.", "torchvision.", "numpy.", "math.")
_RNN = "torch.nn.utils.rnn."
PERMUTES = frozenset({"torch.randperm", "numpy.random.permutation"})
_MOST_STEPS = 8


class Choosing:
    """Tells what picks by what is in a batch: subscripts, functions that pack sequences or tell the greatest."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def subscript(self, base: Shape, first: ast.expr, index: Shape) -> Shape | None:
        """The layout of `base[first]`; None if it does not pick. `index` is the layout of `first`."""
        if isinstance(index, tuple):
            return Layout.PICKED if Layout.PICKED in index else None
        if isinstance(base, tuple) or index in FIXED:
            return None
        if index is Layout.PICKED:
            return Layout.PICKED
        if index is Layout.MIXED and self._is_ranked(first):
            return Layout.MIXED
        if self._is_truth(first):
            return Layout.MIXED if index is Layout.MIXED else Layout.PICKED
        # A data set cannot know places in a batch: its own tensors, used as they are, are masks.
        rows = base in (Layout.ROWS, Layout.PICKED) and index is Layout.ROWS
        return Layout.PICKED if rows and self._is_dealt(first) else None

    def orders(self, places: ast.expr) -> bool:
        """Whether places are an order of all rows that was drawn: `order = torch.randperm(len(x)).to(device)`."""
        values = [b.value for b in self.resolver.bindings(places)] if isinstance(places, ast.Name) else [places]
        return bool(values) and all(value is not None and self._is_order(value) for value in values)

    def _is_order(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ALIKE:
            node = node.func.value
        return isinstance(node, ast.Call) and self.resolver.qualified(node.func) in PERMUTES

    def packs(self, call: ast.Call, qualified: str, arguments: list[Shape]) -> Shape | None:
        """The layout of what a function that packs sequences, or unpacks them, returns; None if it is another one."""
        home, _, name = qualified.rpartition(".")
        if f"{home}." != _RNN or not arguments:
            return None
        if name == "pad_packed_sequence" and arguments[0] is Layout.PACKED:
            first = self.resolver.argument(call, 1, "batch_first")
            rows = is_constant(first, True)
            return (Layout.ROWS if rows else Layout.COLUMNS, Layout.ROWS)
        if name == "pack_sequence" and arguments[0] not in FIXED:
            return Layout.PACKED
        if name == "pack_padded_sequence" and arguments[0] not in FIXED:
            lengths = self.resolver.argument(call, 1, "lengths")
            return Layout.UNKNOWN if lengths is None or self._is_one_length(lengths) else Layout.PACKED
        return None

    # ---- by their rank

    def ranked(self, call: ast.Call, qualified: str) -> ast.expr | None:
        """The tensor of one number for each sample, or each of their parts, of which a call tells the greatest."""
        func = call.func
        module, _, name = qualified.rpartition(".")
        if (name in _RANKING and module in ("torch", "numpy")) or self.resolver.builtin(func) == "sorted":
            tensor, offset = call.args[0] if call.args else None, 1
        elif not qualified and isinstance(func, ast.Attribute) and func.attr in _RANKING:
            tensor, name, offset = func.value, func.attr, 0
        else:
            return None
        sorts = name not in ("topk", "kthvalue")
        dimension = self.resolver.argument(call, offset + (not sorts), "axis" if module == "numpy" else "dim")
        last = dimension is None or ast.unparse(dimension) in ("0", "-1")
        if tensor is None or not last:
            return None
        # Sorted lengths are a way to put all samples into another order; sorted losses are not.
        vector = self._is_losses(tensor) or self._is_reduced(tensor) or (not sorts and self._is_flat(tensor))
        return tensor if vector else None

    def at_rank(self, node: ast.Subscript) -> ast.expr | None:
        """The tensor of one number for each sample of which an expression is the one at some rank: `p.sort()[0][k]`."""
        rank = node.slice
        call = None if isinstance(rank, (ast.Slice, ast.Tuple)) else self._sorted_values(node.value)
        if call is None:
            return None
        qualified = self.resolver.qualified(call.func)
        tensor = call.args[0] if qualified and call.args else getattr(call.func, "value", None)
        taken = self.resolver.index.parents.get(node)
        number = isinstance(taken, ast.Attribute) and taken.attr == "item"
        return tensor if tensor is not None and (number or self._is_vector(tensor)) else None

    def _sorted_values(self, node: ast.expr) -> ast.Call | None:
        """The call that sorts the numbers which an expression has in their order."""
        path: tuple[int | None, ...] = ()
        if isinstance(node, ast.Name):
            bindings = self.resolver.bindings(node)
            if len(bindings) != 1 or bindings[0].how is not How.ASSIGN or bindings[0].value is None:
                return None
            node, path = bindings[0].value, bindings[0].path
        elif isinstance(node, ast.Subscript):
            path = (integer(node.slice),)
            node = node.value
        elif isinstance(node, ast.Attribute) and node.attr == "values":
            node, path = node.value, (0,)
        qualified, name = self._operation(node) if isinstance(node, ast.Call) else ("", "")
        fits = path == (0,) if qualified in ("", "torch.sort") else qualified == "numpy.sort" and not path
        return node if isinstance(node, ast.Call) and name == "sort" and fits else None

    def _is_vector(self, tensor: ast.expr) -> bool:
        return self._is_losses(tensor) or self._is_reduced(tensor) or self._is_flat(tensor)

    def is_statistic(self, node: ast.expr) -> bool:
        """Whether an expression is one number of a whole tensor that is no mean and no sum: its norm, its maximum."""
        call = self._made(node)
        if not isinstance(call, ast.Call):
            return False
        qualified, name = self._operation(call)
        if name not in torch_ops.STATISTICS or not (qualified.startswith("torch.") or not qualified):
            return False
        given = call.args[bool(qualified) :]
        most = 1 if name in ("norm", "quantile", "nanquantile") else 0
        return len(given) <= most and not {"dim", "axis"} & {k.arg for k in call.keywords}

    def is_foreign(self, node: ast.expr) -> bool:
        """Whether an expression is what a function gives of which nothing is known: perhaps one number already."""
        call = self._made(node)
        qualified = self.resolver.library_function(call.func) if isinstance(call, ast.Call) else None
        return qualified is not None and not qualified.startswith(_KNOWN)

    def distances(self, node: ast.expr, steps: int = 0) -> list[ast.expr]:
        """The tensors between whose rows an expression has all distances, or what is made of each: samples, perhaps."""
        made = self._made(node)
        if steps > _MOST_STEPS:
            return []
        if isinstance(made, ast.UnaryOp):
            return self.distances(made.operand, steps + 1)
        if isinstance(made, ast.BinOp) and not isinstance(made.op, ast.MatMult):
            return self.distances(made.left, steps + 1) or self.distances(made.right, steps + 1)
        if not isinstance(made, ast.Call):
            return []
        qualified, name = self._operation(made)
        if qualified == "torch.cdist":
            return made.args[:2]
        of = made.args[0] if qualified.startswith("torch.") and made.args else getattr(made.func, "value", None)
        return self.distances(of, steps + 1) if name in _ALIKE | torch_ops.CURVED and of is not None else []

    def _operation(self, call: ast.Call) -> tuple[str, str]:
        """What a call is called by its library, empty for a method of an object, and the last part of that."""
        qualified = self.resolver.qualified(call.func) or ""
        return qualified, qualified.rpartition(".")[2] or getattr(call.func, "attr", "")

    def _is_ranked(self, node: ast.expr, steps: int = 0) -> bool:
        """Whether places are those of the greatest numbers, the first ones of places in some order, or of pairs."""
        if isinstance(node, ast.Subscript):
            return isinstance(node.slice, ast.Slice) or self._is_ranked(node.value, steps)
        if isinstance(node, ast.Attribute):
            return self._is_ranked(node.value, steps)
        if isinstance(node, ast.Call):
            return self._operation(node)[1] in _RANKS
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) and steps < _MOST_STEPS else []
        return any(b.value is not None and self._is_ranked(b.value, steps + 1) for b in bindings)

    def _is_flat(self, node: ast.expr) -> bool:
        """Whether a tensor certainly has one dimension."""
        source = self._source(node)
        if not isinstance(source, ast.Call):
            return False
        qualified, name = self._operation(source)
        given = source.args[qualified.startswith("torch.") :]
        if name in ("view", "reshape"):
            return [ast.unparse(a).strip("()[],") for a in given] == ["-1"]
        return name in ("flatten", "ravel") and not given and not source.keywords

    def _is_losses(self, node: ast.expr) -> bool:
        """Whether a tensor is made of the losses of samples, one for each target."""
        source = self._source(node)
        if isinstance(source, ast.Call) and getattr(source.func, "attr", "") in _KEEPS and self._is_flat(source):
            whole: ast.expr = source.func.value  # type: ignore[attr-defined]
            made = self._source(whole)
            return self._is_losses(whole) or self._is_each(made) or self._is_difference(self._made(whole))
        if not isinstance(source, ast.Call):
            return False
        qualified = self.resolver.qualified(source.func) or ""
        if qualified:
            return qualified in ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss")
        values = [v for f in self._callables(source.func) for v in self.resolver.values(f)]
        return bool(values) and all(v.name.rpartition(".")[2] in torch_ops.WEIGHTED_LOSSES for v in values)

    def _is_reduced(self, node: ast.expr) -> bool:
        """Whether a tensor is the mean or sum of each sample's losses, as it seems: over all dimensions but one."""
        dimensions: list[int] = []
        node = self._source(node)
        while isinstance(node, ast.Call):
            reduced = self._reduction(node)
            if reduced is None:
                break
            dimensions += reduced[1]
            node = self._made(reduced[0])
            if not (isinstance(node, ast.BinOp) or (isinstance(node, ast.Call) and self._is_difference(node))):
                node = self._source(node)
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPES:
            node = self._source(node.func.value)
        all_of_them = dimensions == [-1] or sorted(dimensions) == list(range(1, len(dimensions) + 1))
        return bool(dimensions) and all_of_them and (self._is_difference(node) or self._is_each(node))

    def _reduction(self, call: ast.Call) -> tuple[ast.expr, list[int]] | None:
        """What a call takes the mean or the sum of, and over which dimensions, where these are spelled out."""
        qualified = self.resolver.qualified(call.func) or ""
        name = qualified.removeprefix("torch.") or getattr(call.func, "attr", "")
        tensor = call.args[0] if qualified and call.args else getattr(call.func, "value", None)
        over = self.resolver.argument(call, int(bool(qualified)), "dim")
        if name not in ("mean", "sum") or tensor is None or over is None or "keepdim" in {k.arg for k in call.keywords}:
            return None
        try:
            numbers = ast.literal_eval(over)
        except ValueError:
            return None
        found = list(numbers) if isinstance(numbers, (tuple, list)) else [numbers]
        return (tensor, found) if all(isinstance(n, int) for n in found) else None

    def _made(self, node: ast.expr) -> ast.expr:
        """What a variable is set to, if in one place."""
        sources = list(self._sources(node)) if isinstance(node, ast.Name) else []
        return sources[0] if len(sources) == 1 and sources[0] is not None else node

    def _is_difference(self, node: ast.expr) -> bool:
        """`(a - b) ** 2`, `(a - b).abs()`."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            return isinstance(self._made(node.left), ast.BinOp)
        if not isinstance(node, ast.Call):
            return False
        name = (self.resolver.qualified(node.func) or "").removeprefix("torch.") or getattr(node.func, "attr", "")
        of = node.args[0] if self.resolver.qualified(node.func) and node.args else getattr(node.func, "value", None)
        return name in ("abs", "pow", "square") and of is not None and isinstance(self._made(of), ast.BinOp)

    def _is_each(self, node: ast.expr) -> bool:
        """Whether an expression is a loss of torch's for each element."""
        if not isinstance(node, ast.Call):
            return False
        qualified = self.resolver.qualified(node.func) or ""
        if qualified:
            of_torch = qualified.startswith("torch.nn.functional.")
            return of_torch and (
                qualified.endswith(("_loss", ".cross_entropy")) or ".binary_cross_entropy" in qualified
            )
        values = [v for f in self._callables(node.func) for v in self.resolver.values(f)]
        return bool(values) and all(v.name.startswith("torch.nn.") and v.name.endswith("Loss") for v in values)

    def _callables(self, func: ast.expr) -> list[ast.expr | None]:
        """What is called: also what is kept in an attribute of a module."""
        if not isinstance(func, ast.Attribute) or self.resolver.values(func):
            return [func]
        index = self.resolver.index
        return [b.value for b in index.set_in(index.enclosing_class(func), func.attr)]

    def _source(self, node: ast.expr, steps: int = 0) -> ast.expr:
        """What a tensor is made from, element by element, by operations that leave its dimensions as they are."""
        if isinstance(node, ast.BinOp):
            return self._source(node.left, steps)
        if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "data"):
            return self._source(node.value, steps)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            alike = not self.resolver.qualified(node.func) and node.func.attr in _ALIKE
            return self._source(node.func.value, steps) if alike else node
        sources = list(self._sources(node)) if isinstance(node, ast.Name) and steps < _MOST_STEPS else []
        if len(sources) != 1 or sources[0] is None:
            return node
        return self._source(sources[0], steps + 1)

    # ---- by what is true of them

    def _is_truth(self, node: ast.expr, steps: int = 0) -> bool:
        """Whether an expression is certainly a tensor of truth values."""
        if isinstance(node, ast.Compare):
            return not any(isinstance(op, (ast.In, ast.NotIn, ast.Is, ast.IsNot)) for op in node.ops)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.Invert) and self._is_truth(node.operand, steps)
        if isinstance(node, ast.BinOp):
            logical = isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor))
            return logical and (self._is_truth(node.left, steps) or self._is_truth(node.right, steps))
        if isinstance(node, ast.Subscript):
            return self._is_truth(node.value, steps)
        if isinstance(node, ast.Call):
            qualified = self.resolver.qualified(node.func) or ""
            if qualified.startswith("torch."):
                return qualified.rpartition(".")[2] in _TRUTHS
            if not isinstance(node.func, ast.Attribute):
                return False
            if any(self.resolver.qualified(a) == "torch.bool" for a in node.args):
                return True
            name = node.func.attr
            return name in _TRUTHS or (name in _KEEPS and self._is_truth(node.func.value, steps))
        if not isinstance(node, ast.Name) or steps > _MOST_STEPS:
            return False
        sources = list(self._sources(node))
        found = bool(sources) and all(s is not None and self._is_truth(s, steps + 1) for s in sources)
        owner = None if found else self.resolver.index.scope(node).owner(node.id)
        return found or (owner is not None and node.id in _asked(self.resolver, owner.node))

    def _sources(self, name: ast.Name) -> Iterator[ast.expr | None]:
        """What a variable is set to, and what a parameter is given; None for what cannot be told."""
        for binding in self.resolver.bindings(name):
            if binding.how is How.ASSIGN and not binding.path:
                yield binding.value
            elif binding.how is How.PARAMETER:
                yield from self.resolver.handed(binding)
            elif binding.how is not How.AUGMENT:
                yield None

    def _is_dealt(self, node: ast.expr) -> bool:
        """Whether an expression is a tensor of a batch, as the data set gave it, perhaps in another shape."""
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS:
            node = node.func.value
        values = self.resolver.values(node)
        return bool(values) and all(value.role is Role.BATCH for value in values)

    def _is_one_length(self, lengths: ast.expr, steps: int = 0) -> bool:
        """Whether the lengths of sequences are one length for all: `[n] * size`, `torch.full((size,), n)`."""
        if isinstance(lengths, ast.Name) and steps < _MOST_STEPS:
            sources = list(self._sources(lengths))
            return bool(sources) and all(s is not None and self._is_one_length(s, steps + 1) for s in sources)
        if isinstance(lengths, ast.BinOp) and isinstance(lengths.op, ast.Mult):
            return any(isinstance(side, ast.List) and len(side.elts) == 1 for side in (lengths.left, lengths.right))
        return isinstance(lengths, ast.Call) and self.resolver.qualified(lengths.func) == "torch.full"


def with_places(call: ast.Call, qualified: str | None) -> bool:
    """Whether what ranks numbers gives them and their places."""
    of_torch = isinstance(call.func, ast.Attribute) and not (qualified or "").startswith("numpy.")
    return of_torch and call.func.attr in ("topk", "kthvalue", "sort")  # type: ignore[attr-defined]


@kept
def _asked(resolver: Resolver, scope: ast.AST) -> set[str]:
    """The variables that a function asks whether any of them holds, or all do, or of which it takes the contrary."""
    found: set[str] = set()
    for node in walk(scope):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            asked = node.func.value if node.func.attr in ("any", "all") else None
        else:
            asked = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert) else None
        if isinstance(asked, ast.Name):
            found.add(asked.id)
    return found
