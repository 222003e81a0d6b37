"""What picks some of the samples of a batch, or of their parts, by what they are: masks, places of what is not zero."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.layout.algebra import FIXED, Layout, Shape
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.values import Role

_TRUTHS = frozenset(
    "bool byte eq ne gt lt ge le logical_and logical_or logical_not logical_xor isnan isfinite isinf isin isclose "
    "greater less greater_equal less_equal not_equal".split()
)
_KEEPS = frozenset(
    "to view reshape flatten squeeze unsqueeze expand expand_as contiguous cpu cuda detach clone t transpose permute "
    "any all repeat view_as reshape_as type".split()
)
_RNN = "torch.nn.utils.rnn."
_MOST_STEPS = 8


class Choosing:
    """Tells whether a subscript, or a call that packs sequences, picks by what is in a batch."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def subscript(self, base: Shape, first: ast.expr, index: Shape) -> Shape | None:
        """The layout of `base[first]`; None if it does not pick. `index` is the layout of `first`."""
        if isinstance(base, tuple) or isinstance(index, tuple) or index in FIXED:
            return None
        if index is Layout.PICKED:
            return Layout.PICKED
        if self._is_truth(first):
            return Layout.MIXED if index is Layout.MIXED else Layout.PICKED
        # A data set cannot know places in a batch: its own tensors, used as they are, are masks.
        rows = base in (Layout.ROWS, Layout.PICKED) and index is Layout.ROWS
        return Layout.PICKED if rows and self._is_dealt(first) else None

    def packs(self, call: ast.Call, qualified: str, arguments: list[Shape]) -> Shape | None:
        """The layout of what a function that packs sequences, or unpacks them, returns; None if it is another one."""
        home, _, name = qualified.rpartition(".")
        if f"{home}." != _RNN or not arguments:
            return None
        if name == "pad_packed_sequence" and arguments[0] is Layout.PACKED:
            first = self.resolver.argument(call, 1, "batch_first")
            rows = isinstance(first, ast.Constant) and first.value is True
            return (Layout.ROWS if rows else Layout.COLUMNS, Layout.ROWS)
        if name == "pack_sequence" and arguments[0] not in FIXED:
            return Layout.PACKED
        if name == "pack_padded_sequence" and arguments[0] not in FIXED:
            lengths = self.resolver.argument(call, 1, "lengths")
            return Layout.UNKNOWN if lengths is None or self._is_one_length(lengths) else Layout.PACKED
        return None

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
        return bool(sources) and all(s is not None and self._is_truth(s, steps + 1) for s in sources)

    def _sources(self, name: ast.Name) -> Iterator[ast.expr | None]:
        """What a variable is set to, and what a parameter is given; None for what cannot be told."""
        for binding in self.resolver.bindings(name):
            if binding.how is How.ASSIGN and not binding.path:
                yield binding.value
            elif binding.how is How.PARAMETER:
                function = self.resolver.index.parents[self.resolver.index.parents[binding.node]]
                for call in self.resolver.sites(function) if isinstance(function, FUNCTIONS) else ():
                    yield (self.resolver.bind(call, function) or {}).get(binding.name)  # type: ignore[arg-type]
            elif binding.how is not How.AUGMENT:
                yield None

    def _is_dealt(self, node: ast.expr) -> bool:
        """Whether an expression is a tensor of a batch, as the data set gave it."""
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
