"""The extents of what calls give: of torch, NumPy, pandas and scikit-learn, of tensors' methods, of the script."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.extents.sizes import (
    GRID,
    NUMBER,
    ROW,
    TABLE,
    Extent,
    alike,
    array,
    broadcast,
    resized,
    squeezed,
    unsqueezed,
    without,
)
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.values import Role, Value

if TYPE_CHECKING:
    from accelift_codemod.facts.extents.expressions import Extents, Path

# What makes a tensor or an array of what it is given, of the same extent.
_COPIES = frozenset(
    "torch.tensor torch.as_tensor torch.from_numpy torch.Tensor torch.FloatTensor torch.LongTensor torch.DoubleTensor "
    "torch.autograd.Variable numpy.array numpy.asarray numpy.float32 numpy.float64 copy.copy copy.deepcopy".split()
)
_CLASSES = frozenset("torch.Tensor torch.FloatTensor torch.LongTensor torch.DoubleTensor".split())
_SIZED = frozenset({f"numpy.{name}" for name in ("zeros", "ones", "empty", "random.random", "random.random_sample")})
_SIZED_BY_NUMBERS = frozenset({"numpy.random.rand", "numpy.random.randn"})
_LINES = frozenset(f"{module}.{name}" for module in ("torch", "numpy") for name in ("linspace", "arange")) | {
    "torch.randperm",
    "numpy.random.permutation",
}
# Methods, and functions of torch and NumPy, that give what is as large as what they are given.
_SAME = torch_ops.CURVED | frozenset(
    """
    float double half bfloat16 long int bool to cpu cuda detach clone contiguous requires_grad_ type type_as numpy
    astype copy sin cos neg round floor ceil nan_to_num leaky_relu gelu silu selu dropout logsigmoid
    zeros_like ones_like rand_like randn_like
    """.split()
)
# Methods of tables that give tables with the same columns or others, and of columns that give columns.
_TABLES = frozenset(
    """
    dropna fillna ffill bfill interpolate sort_values sort_index reset_index set_index copy sample astype head tail
    drop_duplicates rename replace clip abs round shift diff drop query apply map
    """.split()
)
_OF_COLUMNS = frozenset({"apply", "map"})
_READERS = frozenset({f"pandas.{n}" for n in ("read_csv", "read_excel", "read_parquet", "DataFrame", "get_dummies")})
_OTHERWISE = frozenset({"squeeze", "iterator", "chunksize", "sheet_name", "typ"})
_SCALERS = frozenset("StandardScaler MinMaxScaler RobustScaler MaxAbsScaler Normalizer".split())
_REDUCES = frozenset("sum mean amax amin std var argmax argmin".split())
_OF_CLASSES = torch_ops.WEIGHTED_LOSSES | {"cross_entropy", "nll_loss"}
# Losses of each element, by the names of classes and of functions, and of each target.
_LOSSES = _OF_CLASSES | frozenset(
    """
    MSELoss L1Loss SmoothL1Loss HuberLoss BCELoss BCEWithLogitsLoss KLDivLoss mse_loss l1_loss smooth_l1_loss
    huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div
    """.split()
)
_UNKNOWN = Value(Role.OBJECT, ast.Pass())
_SPLITS = "sklearn.model_selection.train_test_split"


class Functions:
    """Answers that for one call."""

    def __init__(self, extents: Extents) -> None:
        self.extents = extents
        self.resolver = extents.resolver
        self.objects = extents.objects

    def call(self, call: ast.Call, path: Path) -> Extent | None:
        """The extent of what a call gives, or of what is at a place in that."""
        modules = self._modules(call.func)
        if len(modules) == 1 and not path and _is_for_each(modules[0].origin):
            name = modules[0].name.rpartition(".")[2]
            return self._each(name, call.args) if name in _LOSSES else None
        if modules:
            given = self.extents.of(call.args[0]) if call.args else None
            return alike([self.extents.networks.output(m, given, path) for m in modules])
        target = self.resolver.callee(call)
        if isinstance(target, FUNCTIONS):
            return self.extents.returned(target, path)
        qualified = self.resolver.qualified(call.func) or ""
        if qualified == _SPLITS and len(path) == 1 and isinstance(path[0], int):
            place = path[0] // 2
            return resized(self.extents.of(call.args[place])) if place < len(call.args) else None
        bundled = self.extents.data.bundled(qualified, call, path)
        if bundled is not None or path:
            return bundled
        return self._library(call, qualified) if qualified else self._method(call)

    def _modules(self, func: ast.expr) -> list[Value]:
        """The modules that are called, also those that a method calls by `self.layer(x)`."""
        values = self.resolver.values(func)
        if not values and isinstance(func, ast.Attribute):
            values = tuple(v for b in self.extents.own(func) for v in self.resolver.values(b.value) or [_UNKNOWN])
        return list(values) if all(v.role in (Role.MODEL, Role.LOSS) for v in values) else []

    # ---- libraries

    def _library(self, call: ast.Call, qualified: str) -> Extent | None:
        module, _, name = qualified.rpartition(".")
        first = call.args[0] if call.args else None
        if qualified in _CLASSES and (len(call.args) > 1 or integer(first) is not None):
            return self._sized(call.args)
        if qualified in _COPIES:
            return array(self.extents.of(first))
        if qualified in _READERS:
            return TABLE if not any(k.arg in _OTHERWISE for k in call.keywords) else None
        if qualified in _LINES:
            return ROW
        if (module == "torch" and name in torch_ops.SIZED - {"full", "randint"}) or qualified in _SIZED:
            return self._sized(call.args if module == "torch" else call.args[:1])
        if qualified in _SIZED_BY_NUMBERS:
            return self._sized(call.args)
        if module in ("torch", "numpy", "torch.nn.functional") and first is not None:
            of = self.extents.of(first)
            return self._changed(name, call, of if module == "numpy" else array(of), call.args[1:])
        return None

    def _sized(self, sizes: list[ast.expr]) -> Extent | None:
        """Of what is made of sizes, one by one or in a tuple."""
        if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
            sizes = sizes[0].elts
        elif len(sizes) == 1 and self.extents.number(sizes[0]) is None:
            return None  # it may be a tuple
        if not sizes or any(isinstance(s, ast.Starred) for s in sizes):
            return None
        numbers = [self.extents.number(s) for s in sizes]
        return Extent(tuple(n if n != -1 else None for n in numbers))

    # ---- methods

    def _method(self, call: ast.Call) -> Extent | None:
        func = call.func
        if not isinstance(func, ast.Attribute):
            return NUMBER if self.resolver.builtin(func) in ("len", "float", "int") else None
        if func.attr in ("transform", "fit_transform"):
            return self._scaled(call, func)
        of = self.extents.of(func.value)
        if of is not None and of.table:
            return self._of_table(call, func.attr, of)
        return self._changed(func.attr, call, of, call.args)

    def _scaled(self, call: ast.Call, func: ast.Attribute) -> Extent | None:
        """Of what scikit-learn scales: an array of the same extent."""
        made = self._fitted(func.value)
        values = self.resolver.values(made)
        module, _, name = values[0].name.rpartition(".") if len(values) == 1 else ("", "", "")
        if not module.startswith("sklearn.preprocessing") or name not in _SCALERS or not call.args:
            return None
        return array(self.extents.of(call.args[0])) or GRID

    def _fitted(self, node: ast.expr) -> ast.expr:
        """What was fitted, which `fit` returns: of `StandardScaler().fit(x)`, the scaler."""
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        made = bindings[0].value if len(bindings) == 1 and not bindings[0].path else node
        fitted = isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr == "fit"
        return made.func.value if fitted else node  # type: ignore[union-attr]

    def _of_table(self, call: ast.Call, name: str, of: Extent) -> Extent | None:
        if name in ("to_numpy", "tolist"):
            return array(of)
        if name == "pop" and len(of.sizes) == 2:
            return Extent(ROW.sizes, table=True)
        if name in _OF_COLUMNS and len(of.sizes) != 1:
            return None
        if name == "reset_index" and len(of.sizes) == 1:
            return of if any(k.arg == "drop" for k in call.keywords) else None
        along = [integer(k.value) for k in call.keywords if k.arg == "axis"]
        changed = len(of.sizes) == 2 and name in ("drop", "dropna", "reset_index", "set_index") and along != [0]
        return (TABLE if changed else resized(of)) if name in _TABLES else None

    def _changed(self, name: str, call: ast.Call, of: Extent | None, given: list[ast.expr]) -> Extent | None:
        """Of what a function or method makes of a tensor or an array; `given` are the arguments after that."""
        if name in ("view", "reshape"):
            return self._sized(given) if not call.keywords else None
        if name in ("view_as", "reshape_as", "expand_as"):
            return self.extents.of(given[0]) if given else None
        if name in ("flatten", "ravel"):
            begin = given[0] if given else next((k.value for k in call.keywords), None)
            if begin is None:
                return ROW
            return of if of is not None and not of.deeper and len(of.sizes) == 2 and integer(begin) == 1 else None
        if of is None:
            return None
        if name in _SAME:
            return of
        dimension = given[0] if given else next((k.value for k in call.keywords if k.arg in ("dim", "axis")), None)
        if name in ("unsqueeze", "expand_dims"):
            return unsqueezed(of, integer(dimension))
        if name == "squeeze":
            return squeezed(of) if dimension is None else without(of, integer(dimension), only_ones=True)
        if name in torch_ops.ELEMENTWISE and given:
            return broadcast(of, self.extents.of(given[0]))
        if name in _LOSSES and _is_for_each(call):
            return self._each(name, call.args)
        return self._reduced(call, of, dimension) if name in _REDUCES else None

    def _each(self, loss: str, compared: list[ast.expr]) -> Extent | None:
        """Of a loss that gives one number for each element, or of those of classes for each target."""
        output, target = (self.extents.of(c) for c in compared[:2]) if len(compared) > 1 else (None, None)
        if loss not in _OF_CLASSES:
            return broadcast(output, target)
        known = output is not None and target is not None
        return target if known and len(target.sizes) < len(output.sizes) else None  # type: ignore[union-attr]

    def _reduced(self, call: ast.Call, of: Extent, dimension: ast.expr | None) -> Extent | None:
        if dimension is None:
            return NUMBER if not call.keywords else None
        kept = any(k.arg in ("keepdim", "keepdims") for k in call.keywords)
        return without(of, integer(dimension)) if not kept else None


def _is_for_each(loss: ast.AST) -> bool:
    """Whether a loss is told to give one number for each element."""
    return isinstance(loss, ast.Call) and any(
        k.arg == "reduction" and isinstance(k.value, ast.Constant) and k.value.value == "none" for k in loss.keywords
    )
