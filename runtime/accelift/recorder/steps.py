"""Recording optimizer steps: what reached backward, the gradients, the learning rates, and the parameters after it."""

from __future__ import annotations

import gc
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from accelift.recorder.chance import Chance
from accelift.recorder.events import Enough, Events
from accelift.recorder.values import describe


class Steps:
    """Records every step of every optimizer.

    Args:
        events: where to.
        chance: is told of backward passes, and disturbs parameters where that is asked for.
        limit: end the script after so many steps.
    """

    def __init__(self, events: Events, chance: Chance, limit: int | None) -> None:
        self._events = events
        self._chance = chance
        self._limit = limit
        self._numbers: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()
        self._count = 0
        self._losses: list[float | None] = []
        self._before: dict[str, Any] = {}
        self._names: dict[int, str] = {}

    def install(self) -> None:
        """Begin to record."""
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        backward = torch.autograd.backward

        def recorded(tensors: Any, *args: Any, **kwargs: Any) -> None:
            of = [tensors] if isinstance(tensors, Tensor) else list(tensors)
            self._losses += [_value(loss) for loss in of]
            self._chance.before_backward()
            backward(tensors, *args, **kwargs)

        torch.autograd.backward = recorded

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._limit is not None and self._count >= self._limit:
            raise Enough  # once more, for scripts that caught it
        if optimizer not in self._numbers:
            self._numbers[optimizer] = len(self._numbers)
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            self._events.put(
                "optimizer",
                optimizer=self._numbers[optimizer],
                kind=type(optimizer).__name__,
                names=[self._name(parameter, index) for index, parameter in enumerate(parameters)],
                start=[describe(parameter) for parameter in parameters],
            )
        self._before = {
            "lr": [float(group.get("lr", 0.0)) for group in optimizer.param_groups],
            "gradients": [
                None if parameter.grad is None else describe(parameter.grad)
                for group in optimizer.param_groups
                for parameter in group["params"]
            ],
        }

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._events.put(
            "step",
            step=self._count,
            optimizer=self._numbers[optimizer],
            place=self._events.place(),
            losses=self._losses,
            **self._before,
            parameters=[describe(parameter) for parameter in parameters],
        )
        self._events.flush()
        self._losses = []
        self._count += 1
        self._chance.disturb(parameters)
        if self._count == self._limit:
            raise Enough

    def _name(self, parameter: Tensor, index: int) -> str:
        """``Net.fc1.weight``, by the outermost module that has the parameter."""
        if id(parameter) not in self._names:
            modules = [item for item in gc.get_objects() if issubclass(type(item), nn.Module)]
            inner = {id(child) for module in modules for child in module.children()}
            for root in (_unwrapped(module) for module in modules if id(module) not in inner):
                for name, one in root.named_parameters():
                    self._names.setdefault(id(one), f"{type(root).__name__}.{name}")
        return self._names.get(id(parameter), f"parameter {index}")


def _unwrapped(module: Any) -> nn.Module:
    """The author's model in a parallel or compiled one."""
    while isinstance(inner := getattr(module, "module", getattr(module, "_orig_mod", None)), nn.Module):
        if not isinstance(module, (DistributedDataParallel, nn.DataParallel)) and not hasattr(module, "_orig_mod"):
            break
        module = inner
    assert isinstance(module, nn.Module)
    return module


def _value(loss: Tensor) -> float | None:
    value = float(loss.detach().double().sum())
    return value if value == value and abs(value) != float("inf") else None
