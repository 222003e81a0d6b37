"""The verbs that prepare models, optimizers and schedulers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader

from accelift import precision
from accelift.arguments import check_type
from accelift.data.verbs import LoaderVerbs
from accelift.dataclasses import AutocastKwargs
from accelift.diagnosis.checks import check_optimizer
from accelift.optimizer import prepare_optimizer
from accelift.scheduler import prepare_scheduler
from accelift.state import PartialState
from accelift.strategy import Strategy

if TYPE_CHECKING:
    from accelift.diagnosis.divergence import DivergenceCheck


class PreparingVerbs(LoaderVerbs):
    """How an Accelerator makes what a script trains fit for its processes."""

    state: PartialState
    mixed_precision: str
    step_scheduler_with_optimizer: bool
    _autocast: AutocastKwargs
    _scaler: precision.LossScaler | None
    _compilation: dict[str, Any] | None
    _strategy: Strategy
    _several: bool
    _divergence: DivergenceCheck | None
    _wrappers: WeakKeyDictionary[nn.Module, ref[nn.Module]]

    def prepare(self, *objects: Any, device_placement: Sequence[bool | None] | None = None) -> Any:
        """Prepare models, optimizers, schedulers and loaders for the processes there are.

        Args:
            objects: what to prepare; other objects are returned as they are.
            device_placement: for each object, whether it is moved to the device; ``None`` leaves
                that to the Accelerator's ``device_placement``.

        Returns:
            A tuple in the order of the arguments, or the object itself if there is only one.

        Raises:
            ValueError: if a model is given twice, or nothing is given at all.
        """
        if not objects:
            raise ValueError("prepare was given nothing to prepare.")
        if device_placement is not None and len(device_placement) != len(objects):
            raise ValueError(
                f"prepare was given {len(objects)} objects but device_placement for "
                f"{len(device_placement)}; give one for each, None for the default."
            )
        models = [item for item in objects if isinstance(item, nn.Module)]
        if len({id(model) for model in models}) < len(models):
            raise ValueError("prepare was given the same model twice; give it once.")
        placement = device_placement or [None] * len(objects)
        prepared = list(objects)
        # Models go first, so that an optimizer's state can follow its parameters.
        steps: list[tuple[type, Callable[[Any, bool | None], Any]]] = [
            (nn.Module, self.prepare_model),
            (DataLoader, self.prepare_data_loader),
            (Optimizer, self.prepare_optimizer),
            (LRScheduler, lambda scheduler, _: self.prepare_scheduler(scheduler)),
        ]
        for kind, prepare_one in steps:
            for index, item in enumerate(objects):
                if isinstance(item, kind):
                    prepared[index] = prepare_one(item, placement[index])
        return prepared[0] if len(prepared) == 1 else tuple(prepared)

    def prepare_model(
        self,
        model: nn.Module,
        device_placement: bool | None = None,
        evaluation_mode: bool = False,
    ) -> nn.Module:
        """Move the model to the device and make its backward average gradients over processes.

        Args:
            model: the model; one that was prepared before gives what it gave then.
            device_placement: whether to move it; by default as the Accelerator does.
            evaluation_mode: do without the averaging, for a model that is not trained.

        Raises:
            TypeError: if it is not a model.
            ValueError: if it is in a ``torch.nn.DataParallel`` on several processes.
        """
        check_type("prepare_model", model, nn.Module)
        known = self._wrappers.get(model)
        wrapper = None if known is None else known()
        if wrapper is not None:
            return wrapper
        prepared = self._prepare_model(model, device_placement, evaluation_mode)
        self.registry.models.add(prepared)
        self._watch_for_divergence()
        return prepared

    def _prepare_model(self, model: nn.Module, device_placement: bool | None, evaluation_mode: bool) -> nn.Module:
        if precision.is_autocasting(model) or self._strategy.unwrap(model) is not model:
            return model
        if self._places(device_placement):
            model.to(self.state.device)
        prepared: nn.Module = model
        if self.mixed_precision != "no":
            prepared = precision.autocasting(model, self.mixed_precision, self.state.device, self._autocast)
        if not evaluation_mode:
            prepared = self._strategy.wrap(prepared, self.state)
            if prepared is not model:
                self._wrappers[model] = ref(prepared)
        if self._compilation is not None:
            prepared.compile(**self._compilation)
        return prepared

    def prepare_optimizer(self, optimizer: Optimizer, device_placement: bool | None = None) -> Optimizer:
        """Make the optimizer, which stays the same object, heed accumulation and loss scaling.

        Raises:
            TypeError: if it is not an optimizer.
        """
        check_type("prepare_optimizer", optimizer, Optimizer)
        check_optimizer(optimizer, self.registry.models.all(), self._scaler is not None, self.state)
        self.registry.optimizers.add(optimizer)
        self._strategy.cover(optimizer)
        self._watch_for_divergence()
        places = self._places(device_placement)
        return prepare_optimizer(optimizer, self.gradient_state, self._scaler, places, self._several)

    def prepare_scheduler(self, scheduler: LRScheduler) -> LRScheduler:
        """Make the scheduler, which stays the same object, follow its optimizer's steps.

        Where batches are dealt in turn it steps ``num_processes`` times, once for each of them.

        Raises:
            TypeError: if it is not a scheduler.
        """
        check_type("prepare_scheduler", scheduler, LRScheduler)
        self.registry.schedulers.add(scheduler)
        steps_per_call = 1 if self.split_batches else self.state.num_processes
        follows = self.gradient_state.num_steps > 1 or self._scaler is not None
        if not self.step_scheduler_with_optimizer or not (follows or steps_per_call > 1):
            return scheduler
        return prepare_scheduler(scheduler, self.gradient_state, steps_per_call)

    def _watch_for_divergence(self) -> None:
        if self._divergence is not None:
            self._divergence.watch()

    def _places(self, device_placement: bool | None) -> bool:
        return self.device_placement if device_placement is None else device_placement
