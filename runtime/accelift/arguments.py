"""Checking what the Accelerator is given, and saying what it does not offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from accelift import environment
from accelift.dataclasses import (
    AutocastKwargs,
    DistributedDataParallelKwargs,
    GradientAccumulationPlugin,
    GradScalerKwargs,
    InitProcessGroupKwargs,
    KwargsHandler,
    TorchDynamoPlugin,
)
from accelift.profile import ProfileKwargs

H = TypeVar("H", bound=KwargsHandler)

_HANDLERS = (
    AutocastKwargs,
    DistributedDataParallelKwargs,
    GradScalerKwargs,
    InitProcessGroupKwargs,
    ProfileKwargs,
)

_REPLICATED = "models are replicated, as DistributedDataParallel does"

ARGUMENTS_NOT_OFFERED = {
    "deepspeed_plugin": _REPLICATED,
    "fsdp_plugin": _REPLICATED,
    "torch_tp_plugin": _REPLICATED,
    "megatron_lm_plugin": _REPLICATED,
    "deepspeed_plugins": _REPLICATED,
    "parallelism_config": _REPLICATED,
}

VERBS_NOT_OFFERED = {
    "lomo_backward": "use accelerator.backward and another optimizer",
    "maybe_context_parallel": _REPLICATED,
    "torch_device_mesh": _REPLICATED,
    "verify_device_map": _REPLICATED,
}


def refuse_not_offered(given: Mapping[str, Any]) -> None:
    """Refuse arguments of Hugging Face's Accelerator that have no counterpart here.

    Raises:
        ValueError: naming what to do instead.
    """
    for name, instead in ARGUMENTS_NOT_OFFERED.items():
        if given[name] is not None:
            raise ValueError(f"Accelerator({name}=...) is not offered: {instead}.")


def check_type(verb: str, item: object, kind: type) -> None:
    """Refuse what is not of a type.

    Raises:
        TypeError: naming the verb, the type wanted and the one given.
    """
    if not isinstance(item, kind):
        raise TypeError(f"{verb} takes a {kind.__name__}, not a {type(item).__name__}.")


class Handlers:
    """The kwargs handlers given to an Accelerator, at most one of each kind.

    Raises:
        ValueError: if there are two of a kind.
        TypeError: if there is something else.
    """

    def __init__(self, handlers: list[KwargsHandler] | None) -> None:
        self._handlers: dict[type[KwargsHandler], KwargsHandler] = {}
        for handler in handlers or []:
            kind = type(handler)
            if kind not in _HANDLERS:
                offered = ", ".join(kind.__name__ for kind in _HANDLERS)
                raise TypeError(f"kwargs_handlers takes {offered}, not a {kind.__name__}.")
            if kind in self._handlers:
                raise ValueError(f"kwargs_handlers was given two {kind.__name__}; give one.")
            self._handlers[kind] = handler

    def get(self, kind: type[H]) -> H:
        """The handler of this kind, or one with the defaults."""
        handler = self._handlers.get(kind)
        return handler if isinstance(handler, kind) else kind()


def accumulation(steps: int, plugin: GradientAccumulationPlugin | None) -> GradientAccumulationPlugin:
    """The plugin for the given arguments, or for what the launcher says if they are the defaults.

    Raises:
        ValueError: if both are given, or the number of steps is not at least 1.
    """
    if plugin is None:
        default = 1
        if steps == default:
            steps = environment.positive("GRADIENT_ACCUMULATION_STEPS", default)
        return GradientAccumulationPlugin(num_steps=steps)
    if steps != 1:
        raise ValueError(
            "Accelerator takes gradient_accumulation_steps or gradient_accumulation_plugin, not "
            "both; give num_steps to the plugin."
        )
    return plugin


def dynamo(backend: str | None, plugin: TorchDynamoPlugin | None) -> dict[str, Any] | None:
    """The arguments of ``torch.compile`` for prepared models; ``None`` where they are not compiled.

    Raises:
        ValueError: if both are given.
    """
    if plugin is None:
        plugin = TorchDynamoPlugin(backend or environment.setting("DYNAMO_BACKEND") or "no")
    elif backend is not None:
        raise ValueError("Accelerator takes dynamo_backend or dynamo_plugin, not both; give the backend to the plugin.")
    return None if plugin.backend == "no" or plugin.disable else plugin.to_kwargs()
