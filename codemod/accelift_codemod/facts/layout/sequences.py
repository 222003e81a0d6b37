"""Layers that compute along sequences: whether the samples of a batch stand in the place of the steps, and meet."""

from __future__ import annotations

import ast

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.layout.algebra import FIXED, Layout, Shape, tensor
from accelift_codemod.facts.layout.dimensions import Dimensions
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.values import Value

# Where batch_first stands among the arguments of the layers.
_PLACES = {"LSTM": 4, "GRU": 4, "RNN": 5, "MultiheadAttention": 8, "Transformer": 10}
_PLACES |= {"TransformerEncoderLayer": 6, "TransformerDecoderLayer": 6}
_STACKS = frozenset({"TransformerEncoder", "TransformerDecoder"})  # of layers that are made before
_FOLDS = frozenset({"view", "reshape"})


class Sequences:
    """Answers that for calls of layers."""

    def __init__(self, resolver: Resolver, dimensions: Dimensions) -> None:
        self.resolver = resolver
        self.dimensions = dimensions
        self.mixing: dict[ast.AST, Value] = {}  # the layers found so far in which samples meet, by where they are made
        self._flat: set[ast.AST] = set()  # those of them that are given two dimensions, which are one sequence

    def is_layer(self, value: Value) -> bool:
        """Whether a module is a layer of torch that computes along sequences."""
        module, _, name = value.name.rpartition(".")
        return module == "torch.nn" and name in torch_ops.SEQUENTIAL

    def output(self, value: Value, given: list[Shape], call: ast.Call | None) -> Shape:
        """What such a layer returns for what it is given."""
        first = self._batch_first(value)
        if first is None or not given:
            return Layout.UNKNOWN
        steps = tensor(given[0])
        folds = call is not None and self._folds(call)
        # Of two dimensions, the first one has the steps of one sequence.
        flat = steps is Layout.ROWS and call is not None and bool(call.args) and self.dimensions.rank(call.args[0]) == 2
        if (steps is (Layout.COLUMNS if first else Layout.ROWS) or flat) and not folds:
            self.mixing[value.origin] = value
            if flat:
                self._flat.add(value.origin)
            return Layout.MIXED
        recurrent = value.name.rpartition(".")[2] in torch_ops.RECURRENT
        samples = Layout.ROWS if first else Layout.COLUMNS
        if recurrent and steps is samples and all(map(_is_state, given[1:])):
            states = (Layout.STATES, Layout.STATES) if value.name.endswith("LSTM") else Layout.STATES
            return (samples, states)
        if not recurrent and all(tensor(part) is samples or part in FIXED for part in given):
            # With the weights of attention for each sample, or masks for each.
            return (samples, Layout.ROWS) if value.name.endswith("MultiheadAttention") else samples
        return Layout.UNKNOWN

    def remedy(self, layer: ast.AST) -> str:
        """What to do about a layer in which samples meet."""
        if layer in self._flat:
            return "give each sample steps of its own: `x.unsqueeze(1)` with batch_first=True, `x.unsqueeze(0)` without"
        return "make it with batch_first=True if the samples are dimension 0, without if they are dimension 1"

    def _batch_first(self, value: Value) -> bool | None:
        """Whether a layer takes the samples in dimension 0, and the steps of sequences in dimension 1."""
        made = value.origin
        name = value.name.rpartition(".")[2]
        if not isinstance(made, ast.Call) or any(k.arg is None for k in made.keywords):
            return None
        if name in _STACKS:
            layers = self.resolver.values(made.args[0] if made.args else None)
            single = len(layers) == 1 and self.is_layer(layers[0]) and not layers[0].name.endswith(tuple(_STACKS))
            return self._batch_first(layers[0]) if single else None
        if any(isinstance(a, ast.Starred) for a in made.args):
            return None
        told = self.resolver.argument(made, _PLACES[name], "batch_first")
        if told is None:
            return False
        return bool(told.value) if isinstance(told, ast.Constant) else None

    def _folds(self, call: ast.Call) -> bool:
        """Whether a layer is given something that is put into other dimensions, the first of which is what is left:
        `x.view(-1, size, 8)` may be one step with all samples."""
        node: ast.expr | None = call.args[0] if call.args else None
        if isinstance(node, ast.Name):
            node = self.resolver.set_once(node)
        func = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute) or func.attr not in _FOLDS:
            return False
        sizes = node.args[0].elts if node.args and isinstance(node.args[0], (ast.Tuple, ast.List)) else node.args
        return bool(sizes) and integer(sizes[0]) == -1


def of_one_layer(places: ast.expr) -> Shape:
    """What a subscript takes out of the states of layers: those of one have the samples in dimension 0."""
    layer, *rest = places.elts if isinstance(places, ast.Tuple) and places.elts else [places]
    whole = not rest or (isinstance(rest[0], ast.Slice) and rest[0].lower is rest[0].upper is rest[0].step is None)
    return Layout.ROWS if integer(layer) is not None and whole else Layout.UNKNOWN


def _is_state(given: Shape) -> bool:
    """Whether a layer may be given this as a state: made for as many samples as there are, or none for each."""
    if isinstance(given, tuple):
        return all(map(_is_state, given))
    return given in FIXED or given in (Layout.ROWS, Layout.COLUMNS, Layout.STATES)
