"""Recording optimizer steps: what reached backward, the gradients, the learning rates, and the parameters after it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from accelift.recorder.chance import Chance
from accelift.recorder.events import Enough, Events
from accelift.recorder.models import Models
from accelift.recorder.road import Road
from accelift.recorder.values import describe


class Steps:
    """Records every step of every optimizer.

    Args:
        events: where to.
        chance: is told of backward passes, and disturbs parameters where that is asked for.
        models: knows the parameters' names.
        limit: end the script after so many steps.
        road: where parameters are kept, or come from.
    """

    def __init__(self, events: Events, chance: Chance, models: Models, limit: int | None, road: Road) -> None:
        self._events = events
        self._chance = chance
        self._models = models
        self._limit = limit
        self._road = road
        self._numbers: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()
        self._made = itertools.count()  # a number is not given again when an optimizer is gone
        self._count = 0
        self._losses: list[float | None] = []
        self._clips: list[float] = []
        self._stale: WeakKeyDictionary[Optimizer, list[bool]] = WeakKeyDictionary()
        self._before: dict[str, Any] = {}

    def install(self) -> None:
        """Begin to record."""
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        backward = torch.autograd.backward

        def recorded(tensors: Any, *args: Any, **kwargs: Any) -> None:
            of = [tensors] if isinstance(tensors, Tensor) else list(tensors)
            self._losses += [_value(loss) for loss in of]
            for optimizer, stale in self._stale.items():
                stale.append(any(_nonzero(one.grad) for group in optimizer.param_groups for one in group["params"]))
            self._chance.before_backward()
            backward(tensors, *args, **kwargs)

        torch.autograd.backward = recorded
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            clip = self._clipping(getattr(torch.nn.utils, name))
            setattr(torch.nn.utils, name, clip)
            setattr(torch.nn.utils.clip_grad, name, clip)

    def _clipping(self, clip: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(clip)
        def recorded(parameters: Any, limit: Any = None, *args: Any, **kwargs: Any) -> Any:
            given = kwargs.get("max_norm", kwargs.get("clip_value", limit))
            self._clips.append(float(given))
            return clip(parameters, *([] if limit is None else [limit]), *args, **kwargs)

        return recorded

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._limit is not None and self._count >= self._limit:
            raise Enough  # once more, for scripts that caught it
        if optimizer not in self._numbers:
            self._numbers[optimizer] = next(self._made)
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            self._events.put(
                "optimizer",
                optimizer=self._numbers[optimizer],
                kind=type(optimizer).__name__,
                names=[self._models.name(parameter, index) for index, parameter in enumerate(parameters)],
                settings=[_settings(group) for group in optimizer.param_groups],
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
            clips=self._clips,
            stale=self._stale.get(optimizer, []),
            mode=self._models.mode(),
            **self._before,
            parameters=[describe(parameter) for parameter in parameters],
        )
        self._events.flush()
        self._losses, self._clips, self._stale[optimizer] = [], [], []
        self._road.after_step(self._count, parameters)
        self._count += 1
        self._chance.disturb(parameters)
        if self._count == self._limit:
            raise Enough


def _settings(group: dict[str, Any]) -> dict[str, str]:
    """What an optimizer was told about a group of parameters; learning rates change and are recorded with each step."""
    return {name: repr(value) for name, value in group.items() if name not in ("params", "lr", "initial_lr")}


def _nonzero(gradient: Tensor | None) -> bool:
    if gradient is None:
        return False
    return bool((gradient._values() if gradient.is_sparse else gradient).any())


def _value(loss: Tensor) -> float | None:
    value = float(loss.detach().double().sum())
    return value if value == value and abs(value) != float("inf") else None
