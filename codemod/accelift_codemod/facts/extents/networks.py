"""The extents of what networks return: how many numbers their last layer gives for each sample."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.extents.sizes import GRID, Extent, alike
from accelift_codemod.facts.values import Role, Value

if TYPE_CHECKING:
    from accelift_codemod.facts.extents.expressions import Extents, Path

# Layers that return what is as large as what they are given.
_SAME = frozenset(
    """
    Identity Dropout AlphaDropout FeatureAlphaDropout BatchNorm1d LayerNorm RMSNorm ReLU ReLU6 LeakyReLU PReLU RReLU
    ELU SELU CELU GELU SiLU Mish Sigmoid LogSigmoid Tanh Hardtanh Hardswish Hardsigmoid Softplus Softsign Tanhshrink
    """.split()
)


class Networks:
    """Answers that for calls of networks and of layers."""

    def __init__(self, extents: Extents) -> None:
        self.extents = extents
        self.resolver = extents.resolver
        self.index = extents.resolver.index

    def output(self, value: Value, given: Extent | None, path: Path) -> Extent | None:
        """The extent of what a module returns, or of a part of it."""
        return self.extents.once((value.origin, path), lambda: self._output(value, given, path))

    def _output(self, value: Value, given: Extent | None, path: Path) -> Extent | None:
        if isinstance(value.declaration, ast.ClassDef):
            forward = self.resolver.method(value.declaration, "forward")
            return self.extents.returned(forward, path) if forward is not None else None
        module, _, name = value.name.rpartition(".")
        if module != "torch.nn" or not isinstance(value.origin, ast.Call):
            return None
        if name in torch_ops.RECURRENT:
            return self._recurrent(given) if path == (0,) else None
        return self._layer(name, value.origin, given) if not path else None

    def _recurrent(self, given: Extent | None) -> Extent | None:
        return Extent((*given.sizes[:-1], None), given.deeper) if given is not None and given.sizes else None

    def _layer(self, name: str, made: ast.Call, given: Extent | None) -> Extent | None:
        if name in ("Linear", "LazyLinear"):
            features = self.extents.number(self.resolver.argument(made, 1 if name == "Linear" else 0, "out_features"))
            if given is None or not given.sizes:
                return Extent((features,), deeper=True)
            return Extent((*given.sizes[:-1], features), given.deeper)
        if name == "Embedding":
            size = self.extents.number(self.resolver.argument(made, 1, "embedding_dim"))
            return Extent((*given.sizes, size), given.deeper) if given is not None else Extent((size,), deeper=True)
        if name in _SAME:
            return given
        if name == "Flatten" and not made.args and not made.keywords:
            return given if given is not None and not given.deeper and len(given.sizes) == 2 else GRID
        if name == "Sequential":
            return self._chain(made, given)
        return None

    def _chain(self, made: ast.Call, given: Extent | None) -> Extent | None:
        if made.keywords or self._grows(made):
            return None
        for part in made.args:
            values = self.resolver.values(part) if not isinstance(part, ast.Starred) else ()
            if not values or any(v.role not in (Role.MODEL, Role.LOSS) for v in values):
                given = None  # the next layer may tell
            else:
                given = alike([self.output(v, given, ()) for v in values])
        return given

    def _grows(self, made: ast.Call) -> bool:
        """Whether modules are added to a container after it is made."""
        calls = [c for name in ("add_module", "append", "insert", "extend") for c in self.index.methods.get(name, [])]
        return any(
            isinstance(c.func, ast.Attribute) and any(v.origin is made for v in self.resolver.values(c.func.value))
            for c in calls
        )
