"""The models that are trained: what their parameters are called, and whether they are in training mode."""

from __future__ import annotations

import gc
from typing import Any
from weakref import WeakSet

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


class Models:
    """Finds the outermost modules that have the parameters of the optimizers."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._trained: WeakSet[nn.Module] = WeakSet()

    def name(self, parameter: Tensor, index: int) -> str:
        """``Net.fc1.weight``, by the outermost module that has the parameter."""
        if id(parameter) not in self._names:
            modules = [item for item in gc.get_objects() if issubclass(type(item), nn.Module)]
            inner = {id(child) for module in modules for child in module.children()}
            for root in (_unwrapped(module) for module in modules if id(module) not in inner):
                for name, one in root.named_parameters():
                    self._names.setdefault(id(one), f"{type(root).__name__}.{name}")
                    if one is parameter:
                        self._trained.add(root)
        return self._names.get(id(parameter), f"parameter {index}")

    def mode(self) -> str:
        """``train`` or ``eval`` if all modules of these models are in it, else ``mixed``; empty if none is known."""
        modes = {module.training for model in list(self._trained) for module in model.modules()}
        return "" if not modes else "mixed" if len(modes) > 1 else "train" if True in modes else "eval"


def _unwrapped(module: Any) -> nn.Module:
    """The author's model in a parallel or compiled one."""
    while isinstance(inner := getattr(module, "module", getattr(module, "_orig_mod", None)), nn.Module):
        if not isinstance(module, (DistributedDataParallel, nn.DataParallel)) and not hasattr(module, "_orig_mod"):
            break
        module = inner
    assert isinstance(module, nn.Module)
    return module
