"""The weights of models: under the names that the author's model has, whatever was put around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from accelift.checkpoint import safetensors
from accelift.checkpoint.files import CheckpointError, read_state, read_tensors
from accelift.checkpoint.memory import in_memory
from accelift.unwrap import extract_model_from_parallel

SAFE_NAME, NAME = "model.safetensors", "pytorch_model.bin"


def state_dict_of(model: nn.Module) -> dict[str, Any]:
    """The state dict of a model, with the names of the author's model."""
    model = extract_model_from_parallel(model)
    state = model.state_dict()
    return dict(zip(_names(model, state), state.values(), strict=True))


def parameter_names(models: Sequence[nn.Module]) -> dict[int, str]:
    """The names of all parameters of models, by the parameters' ``id``."""
    names: dict[int, str] = {}
    for number, model in enumerate(models):
        model = extract_model_from_parallel(model)
        found = dict(model.named_parameters(remove_duplicate=False))
        for name, parameter in zip(_names(model, found), found.values(), strict=True):
            names.setdefault(id(parameter), f"{number}.{name}")
    return names


def numbered(name: str, index: int) -> str:
    """``model.safetensors``, ``model_1.safetensors``, ...: the file of the first object, of the second, ..."""
    stem, dot, suffix = name.rpartition(".")
    return name if index == 0 else f"{stem}_{index}{dot}{suffix}"


def read_weights(path: Path) -> dict[str, Any]:
    """The state dict in a file; its tensors are the file's pages."""
    return read_tensors(path) if path.suffix == ".safetensors" else read_state(path)


class Loading:
    """A state dict that fits a model, about to be loaded into it.

    Args:
        model: the model, prepared or not.
        saved: the state dict, with the names of the author's model.
        path: where it comes from.
        kwargs: arguments of ``load_state_dict``; with ``strict=False`` names may differ.

    Raises:
        CheckpointError: naming the file and the tensor, if it is of another model.
    """

    def __init__(self, model: nn.Module, saved: Mapping[str, Any], path: Path, **kwargs: Any) -> None:
        self._model = extract_model_from_parallel(model)
        self._kwargs = kwargs
        live = self._model.state_dict(keep_vars=True)
        keys = dict(zip(_names(self._model, live), live, strict=True))
        if not isinstance(saved, Mapping):
            raise CheckpointError(f"{path} does not hold the weights of a model.")
        sources = _sources({name: live[key] for name, key in keys.items()}, saved)
        missing = [name for name in keys if name not in sources]
        unknown = [name for name in saved if name not in keys]
        if kwargs.get("strict", True) and (missing or unknown):
            lacks, whose = (missing, "it lacks") if missing else (unknown, "the model lacks")
            raise CheckpointError(f"{path} is of another model: {whose} {_listed(lacks)}.")
        for name, source in sources.items():
            there, here = _shape(saved[source]), _shape(live[keys[name]])
            if here is not None and here != there:
                raise CheckpointError(f"{path} is of another model: {name} is {there} there and {here} here.")
        self._state = {keys[name]: saved[source] for name, source in sources.items()}
        self._live = live

    def __call__(self) -> None:
        """Load it."""
        self._model.load_state_dict(in_memory(self._state, self._live, moves=True), **self._kwargs)


def _names(model: nn.Module, keys: Iterable[str]) -> list[str]:
    """The keys of a state dict without those parts that stand for wrappers: ``module``, ``_orig_mod``."""
    found = [(name, _inside(module)) for name, module in model.named_modules(remove_duplicate=False)]
    around = sorted((f"{name}.{part}." if name else f"{part}." for name, part in found if part), key=len, reverse=True)
    names = list(keys)
    for prefix in around:  # the innermost come first, so that the others are still as they were
        outer = prefix[: prefix[:-1].rfind(".") + 1]
        names = [outer + name.removeprefix(prefix) if name.startswith(prefix) else name for name in names]
    return names


def _inside(module: nn.Module) -> str | None:
    """The name that a wrapper has for what is in it; ``None`` if it is none, or does not say so in its keys."""
    if "_orig_mod" in module._modules:
        return "_orig_mod"
    plain = type(module).state_dict is nn.Module.state_dict
    return "module" if plain and isinstance(module, (DistributedDataParallel, nn.DataParallel)) else None


def _sources(live: Mapping[str, Any], saved: Mapping[str, Any]) -> dict[str, str]:
    """For each name of the model the one to load it from: its own, or another one of the same tensor."""
    _, aliases = safetensors.distinct({name: value for name, value in live.items() if isinstance(value, Tensor)})
    twins: dict[str, list[str]] = {}
    for name in live:
        twins.setdefault(aliases.get(name, name), []).append(name)
    sources = {}
    for name in live:
        for one in (name, *twins[aliases.get(name, name)]):
            if one in saved:
                sources[name] = one
                break
    return sources


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, Tensor) and not is_lazy(value) else None


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
