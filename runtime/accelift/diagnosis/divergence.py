"""Noticing, while a script trains, that the processes no longer have the same parameters."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakMethod, finalize

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.weak import WeakTensorKeyDictionary

from accelift.collective import Collective, process
from accelift.diagnosis import agreement
from accelift.diagnosis.causes import AVERAGED, LOCAL, OUTSIDE, Evidence, likely_cause
from accelift.unwrap import extract_model_from_parallel

if TYPE_CHECKING:
    from accelift.registry import Registry
    from accelift.state import PartialState

_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class DivergenceError(RuntimeError):
    """Parameters that should be the same on all processes are not."""


class Watched(NamedTuple):
    """A parameter that should be the same on all processes, and the prepared model that it is in."""

    parameter: Tensor
    name: str
    model: nn.Module | None


class DivergenceCheck:
    """Compares the parameters of prepared models and optimizers after every few optimizer steps.

    The sums of the bits of each parameter are compared, so no difference of rounding is too small
    to be seen; on equal sums nothing but four numbers is sent.  Buffers are not compared: the
    statistics of BatchNorm are each process's own.

    What is in it stays with this process; a copy is ``None``.

    Args:
        every: how many steps, of all optimizers together, lie between two comparisons.
        registry: what was prepared.
        state: the processes.

    Raises:
        ValueError: if that is not a whole number of at least 1.
    """

    def __init__(self, every: int, registry: Registry, state: PartialState) -> None:
        if not isinstance(every, int) or every < 1:
            raise ValueError(f"check_divergence={every!r} is not possible: give a whole number of at least 1.")
        self._every = every
        self._registry = registry
        self._state = state
        self._steps = 0
        self._compared = False
        self._sources: dict[int, str] = {}
        self._hooked = WeakTensorKeyDictionary()
        # The hooks are torch's for ever, this object need not be.
        before, after = WeakMethod(self._before_step), WeakMethod(self._after_step)
        for hook in (
            register_optimizer_step_pre_hook(lambda *step: _call(before, *step)),
            register_optimizer_step_post_hook(lambda *step: _call(after, *step)),
        ):
            finalize(self, hook.remove)

    def __reduce__(self) -> Any:
        return type(None), ()

    def watch(self) -> None:
        """Take notice of what was prepared since the last call."""
        for watched in self._watched():
            parameter = watched.parameter
            if parameter.requires_grad and parameter.is_leaf and parameter not in self._hooked:
                hook = WeakMethod(self._accumulated)
                model = None if watched.model is None else id(watched.model)
                self._hooked[parameter] = parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    lambda one, hook=hook, model=model: _call(hook, one, model)
                )

    def compare(self, optimizer: Optimizer | None = None) -> None:
        """Compare all parameters now.  A collective operation.

        Args:
            optimizer: the one that has just stepped.

        Raises:
            DivergenceError: naming the first parameter that differs, and the likely cause.
        """
        watched = self._watched(optimizer)
        device = self._state.collective_device
        count = torch.tensor(len(watched), device=device)
        sums = torch.stack([count, *(checksum(one.parameter).to(device) for one in watched)])
        # A sum of sums in which the order counts; whole numbers wrap around.
        digest = torch.stack([count, (sums * torch.arange(1, 2 * len(sums), 2, device=device)).sum()])
        ends = torch.cat([digest, ~digest])
        with Collective("the divergence check", self._state):
            dist.all_reduce(ends, dist.ReduceOp.MAX)
        if not torch.equal(ends[:2], ~ends[2:]):
            self._explain(watched, sums[1:].tolist(), optimizer)

    def _before_step(self, optimizer: Optimizer, *_: Any) -> None:
        if not self._compared and self._concerns(optimizer):
            self._compared = True
            self.compare(optimizer)

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        if not self._concerns(optimizer):
            return
        self._steps += 1
        if self._steps % self._every == 0:
            self.compare(optimizer)
        for parameter in _parameters_of(optimizer):
            self._sources.pop(id(parameter), None)

    def _accumulated(self, parameter: Tensor, model: int | None) -> None:
        """Note in which backward the gradient of a parameter was added to."""
        current = process.current
        averages = (getattr(one, "require_backward_grad_sync", True) for one in self._models() if id(one) == model)
        if not all(averages):
            self._sources[id(parameter)] = LOCAL
        else:
            inside = current is not None and current.operation == "backward"
            self._sources[id(parameter)] = AVERAGED if inside else OUTSIDE

    def _concerns(self, optimizer: Optimizer) -> bool:
        """Whether the optimizer is prepared, or trains a prepared model nevertheless."""
        if any(one is optimizer for one in self._registry.optimizers.all()):
            return True
        ours = {id(parameter) for model in self._models() for parameter in model.parameters()}
        return any(id(parameter) in ours for parameter in _parameters_of(optimizer))

    def _models(self) -> list[nn.Module]:
        return [model for model in self._registry.models.all() if isinstance(model, DistributedDataParallel)]

    def _watched(self, optimizer: Optimizer | None = None) -> list[Watched]:
        """All parameters that should be the same, each once, in the order in which they were prepared."""
        found: dict[int, Watched] = {}
        for model in self._models():
            inside = extract_model_from_parallel(model)
            for name, parameter in inside.named_parameters():
                found.setdefault(id(parameter), Watched(parameter, f"{name!r} of {type(inside).__name__}", model))
        optimizers = self._registry.optimizers.all()
        for one in optimizers if optimizer is None else [*optimizers, optimizer]:
            for loose in _parameters_of(one):
                found.setdefault(id(loose), Watched(loose, "", None))
        return list(found.values())

    def _explain(self, watched: list[Watched], sums: list[int], optimizer: Optimizer | None) -> None:
        exchange = agreement.of(self._state).exchange
        everyones = exchange(sums, "the divergence check")
        counts = list(map(len, everyones))
        if len(set(counts)) > 1:
            told = agreement.grouped([f"{count} of them" for count in counts])
            raise DivergenceError(
                f"the processes do not train the same parameters: {told}; prepare the same models and optimizers "
                "everywhere."
            )
        index = next(i for i, values in enumerate(zip(*everyones, strict=True)) if len(set(values)) > 1)
        values = [one[index] for one in everyones]
        name = watched[index].name or _name_of(watched[index].parameter)
        other = next(rank for rank, value in enumerate(values) if value != values[0])
        if self._steps == 0:
            when = "before the first optimizer step"
            cause = (
                "it was given another value on some processes after it was prepared (weights that are loaded or "
                "initialised there); do so before prepare, or alike everywhere"
            )
        else:
            when = f"after {self._steps} optimizer steps"
            notes = exchange(self._evidence(watched[index], optimizer).to_note(), "the divergence check")
            cause = likely_cause([Evidence(**note) for note in notes])
        raise DivergenceError(f"{when} the parameter {name} is not the same on ranks 0 and {other}: {cause}.")

    def _evidence(self, watched: Watched, optimizer: Optimizer | None) -> Evidence:
        parameter = watched.parameter
        known = self._registry.optimizers.all()
        candidates = known if optimizer is None else [optimizer, *known]
        trains = next((one for one in candidates if any(p is parameter for p in _parameters_of(one))), None)
        groups = [] if trains is None else trains.param_groups
        group = next((one for one in groups if any(p is parameter for p in one["params"])), {})
        kept = {} if trains is None else trains.state.get(parameter, {})
        return Evidence(
            in_model=watched.model is not None,
            was_frozen=any(parameter is frozen for frozen in getattr(watched.model, "_frozen", ())),
            optimizer="no optimizer" if trains is None else type(trains).__name__,
            prepared=any(one is trains for one in known),
            source=self._sources.get(id(parameter)),
            gradient=None if parameter.grad is None else int(checksum(parameter.grad)),
            settings={name: setting for name, value in group.items() if (setting := _plain(value)) is not None},
            state=sum(int(checksum(value)) for value in kept.values() if isinstance(value, Tensor)),
        )


def checksum(values: Tensor) -> Tensor:
    """The sum of the bits of a tensor, read as whole numbers: the same for the same values only."""
    values = values.detach()
    if values.is_sparse:
        values = values.to_dense()
    if values.is_complex():
        values = torch.view_as_real(values)
    return values.view(_WORDS[values.element_size()]).sum(dtype=torch.int64)


def _parameters_of(optimizer: Optimizer) -> Iterable[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _plain(value: Any) -> Any:
    """A setting as JSON can tell it; ``None`` for what is none."""
    if isinstance(value, Tensor):
        return value.item() if value.numel() == 1 else None
    if isinstance(value, (list, tuple)):
        items = [_plain(item) for item in value]
        return None if None in items else items
    return value if isinstance(value, (bool, int, float, str)) else None


def _name_of(parameter: Tensor) -> str:
    """What a parameter that is in no prepared model is called, in the module that it is in, if any."""
    for item in gc.get_objects():
        if issubclass(type(item), nn.Module):
            for name, one in item.__dict__.get("_parameters", {}).items():
                if one is parameter:
                    return f"{name!r} of {type(item).__name__}"
    return f"of shape {tuple(parameter.shape)} that is in no module"


def _call(method: WeakMethod[Any], *arguments: Any) -> None:
    bound = method()
    if bound is not None:
        bound(*arguments)
