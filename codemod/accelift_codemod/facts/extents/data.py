"""The extents of data: of the samples of data sets, of batches, and of what scikit-learn has and makes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.extents.sizes import GRID, NUMBER, ROW, Extent, alike, array, inside, stacked
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.tree import is_constant
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts.extents.expressions import Extents, Path

_SETS = "sklearn.datasets."
_SEVERAL = frozenset({"load_linnerud", "make_multilabel_classification"})  # with several targets for each sample
_SPLITS = frozenset({"torch.utils.data.random_split", "torch.utils.data.dataset.random_split"})
_PARTS = ("torch.utils.data.Subset", "torch.utils.data.dataset.Subset", *_SPLITS)
_TENSORS = frozenset({"torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset"})
_FIELDS: dict[object, Extent] = {0: GRID, "data": GRID, 1: ROW, "target": ROW}
# Attributes of tables that are no columns.
_COLUMNS = frozenset("values T index columns shape dtypes size ndim empty axes str dt iloc loc at iat".split())


class Data:
    """Answers that for iterables and for parts of data sets."""

    def __init__(self, extents: Extents) -> None:
        self.extents = extents
        self.objects = extents.objects
        self.resolver = extents.resolver

    # ---- what loops go through

    def element(self, node: ast.expr, path: Path) -> Extent | None:
        """The extent of an element of an iterable, or of what is at a place in it."""
        values = self.resolver.values(node)
        if values and all(v.role is Role.LOADER for v in values):
            loaders = [self.objects.loader(v) for v in values]
            if not all(loader.stock_batches for loader in loaders):
                return None
            return alike([self._batch(loader.arguments, path) for loader in loaders])
        called = self.resolver.builtin(node.func) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and called == "enumerate" and node.args and path:
            return NUMBER if path[0] == 0 else self.element(node.args[0], path[1:])
        if isinstance(node, ast.Call) and called == "zip" and path:
            place = path[0]
            inside_zip = isinstance(place, int) and 0 <= place < len(node.args)
            return self.element(node.args[place], path[1:]) if inside_zip else None  # type: ignore[index]
        if called == "range":
            return NUMBER if not path else None
        return inside(self.extents.of(node)) if not path else None

    def _batch(self, arguments: dict[str, ast.expr | None], path: Path) -> Extent | None:
        """The extent of a part of the batches that torch makes of samples."""
        size = arguments.get("batch_size")
        if is_constant(size, None):
            return None
        return stacked(array(self.sample(arguments.get("dataset"), path)))

    # ---- samples

    def sample(self, node: ast.expr | None, path: Path) -> Extent | None:
        """The extent of a part of each sample of a data set."""
        return self.extents.once(("sample", node, path), lambda: self._sample(node, path))

    def _sample(self, node: ast.expr | None, path: Path) -> Extent | None:
        if isinstance(node, ast.Name):
            return alike([self._sample_of(b, path) for b in self.resolver.bindings(node)])
        if isinstance(node, ast.Attribute):
            return alike([self._sample_of(b, path) for b in self.extents.own(node)])
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            split = self.resolver.qualified(node.value.func) in _SPLITS
            return self.sample(node.value, path) if split else None
        if isinstance(node, ast.Call):
            return self._sample_made(node, path)
        return None

    def _sample_of(self, binding: Binding, path: Path) -> Extent | None:
        value = binding.value
        if binding.how is How.PARAMETER:
            return self.extents.parameter(binding, lambda given: self.sample(given, path))
        if binding.how is not How.ASSIGN or value is None:
            return None
        if not binding.path:
            return self.sample(value, path) or (inside(self.extents.bound(binding, ())) if not path else None)
        if isinstance(value, ast.Call) and self.resolver.qualified(value.func) in _SPLITS:
            return self.sample(value, path)
        function = self.resolver.callee(value) if isinstance(value, ast.Call) else None
        place = binding.path[0]
        if len(binding.path) == 1 and isinstance(place, int) and isinstance(function, FUNCTIONS):
            returns = [r.value for r in self.resolver.returns(function)]
            parts = [r.elts[place] if isinstance(r, ast.Tuple) and place < len(r.elts) else None for r in returns]
            return alike([self.sample(part, path) for part in parts])
        return None

    def _sample_made(self, call: ast.Call, path: Path) -> Extent | None:
        """The extent of a part of the samples of the data set that a call makes."""
        qualified = self.resolver.qualified(call.func) or ""
        place = path[0] if path else None
        tensors = qualified in _TENSORS
        builtin = self.resolver.builtin(call.func)
        if builtin == "list" and len(call.args) == 1 and isinstance(call.args[0], ast.Call):
            return self._sample_made(call.args[0], path)
        if tensors or builtin == "zip":
            known = isinstance(place, int) and -len(call.args) <= place < len(call.args)
            starred = any(isinstance(a, ast.Starred) for a in call.args)
            return inside(self.extents.at(call.args[place], path[1:])) if known and not starred else None  # type: ignore[index]
        if qualified in _PARTS:
            return self.sample(call.args[0] if call.args else None, path)
        target = self.resolver.callee(call)
        if isinstance(target, FUNCTIONS):
            return alike([self.sample(r.value, path) for r in self.resolver.returns(target)])
        getter = self.resolver.method(target, "__getitem__") if isinstance(target, ast.ClassDef) else None
        return self.extents.returned(getter, path) if getter is not None else None

    # ---- scikit-learn and pandas

    def bundled(self, qualified: str, call: ast.Call, path: Path) -> Extent | None:
        """The extent of a part of a data set of scikit-learn, of which the features come first."""
        name = qualified.rpartition(".")[2]
        if not qualified.startswith(_SETS) or not name.startswith(("load_", "make_", "fetch_")):
            return None
        if name in _SEVERAL or any(k.arg in ("n_targets", None) for k in call.keywords):
            return None
        return _FIELDS.get(path[0]) if len(path) == 1 else None

    def part(self, node: ast.Attribute) -> Extent | None:
        """The extent of an attribute of an array, a table or a data set of scikit-learn."""
        named = self.extents.at(node.value, (node.attr,)) if node.attr in ("data", "target") else None
        if named is not None:
            return named
        of = self.extents.of(node.value)
        if of is None:
            return None
        if node.attr == "values":
            return array(of) if of.table else None
        if node.attr == "data" and not of.table:
            return of
        if node.attr == "T" and not of.deeper and len(of.sizes) < 3:
            return Extent(of.sizes[::-1], table=of.table)
        plain = of.table and len(of.sizes) == 2 and node.attr not in _COLUMNS and not node.attr.startswith("_")
        return Extent(ROW.sizes, table=True) if plain else None
