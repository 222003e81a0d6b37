"""The Accelerator: the verbs that scripts use, each handed on to the room that does the work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from torch import Tensor, nn

from accelift import environment, precision
from accelift.accumulation import MicroBatch
from accelift.arguments import (
    VERBS_NOT_OFFERED,
    Handlers,
    accumulation,
    check_type,
    dynamo,
    refuse_not_offered,
)
from accelift.checkpoint.verbs import CheckpointVerbs, Registered
from accelift.dataclasses import (
    AutocastKwargs,
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    GradientAccumulationPlugin,
    GradScalerKwargs,
    InitProcessGroupKwargs,
    KwargsHandler,
    ProjectConfiguration,
    TorchDynamoPlugin,
)
from accelift.loss import REDUCTIONS, loss_factor, weight_factor
from accelift.memory import clear_device_cache
from accelift.preparing import PreparingVerbs
from accelift.processes import ProcessVerbs
from accelift.profile import ProfileKwargs, profile
from accelift.registry import Registry
from accelift.scaling import ScalingVerbs
from accelift.state import AcceleratorState, GradientState
from accelift.strategy import choose
from accelift.tracking.base import GeneralTracker
from accelift.tracking.trackers import Trackers
from accelift.tracking.verbs import TrackerVerbs
from accelift.unwrap import extract_model_from_parallel

if TYPE_CHECKING:
    from accelift.diagnosis.divergence import DivergenceCheck


class Accelerator(ProcessVerbs, PreparingVerbs, ScalingVerbs, CheckpointVerbs, TrackerVerbs):
    """What a training script needs to run on one process or on many, computing the same.

    Names, arguments and meanings are those of Hugging Face Accelerate.  On one process everything
    is plain PyTorch.

    Args:
        device_placement: whether ``prepare`` moves models, optimizer state and batches to
            :attr:`device`.
        split_batches: the same as ``DataLoaderConfiguration(split_batches=...)``.
        mixed_precision: ``"no"``, ``"fp16"`` or ``"bf16"``; by default what the launcher says.
        gradient_accumulation_steps: micro-batches per optimizer step, for :meth:`accumulate`; by
            default what the launcher says.
        cpu: use the CPU even where there is an accelerator.
        dataloader_config: how batches are dealt to the processes.
        rng_types: random generators to synchronise when a pass over a loader begins: ``"torch"``,
            ``"cuda"``, ``"generator"`` (the sampler's own), ...
        log_with: the trackers that :meth:`log` writes to: their names (see :class:`LoggerType`),
            trackers of your own, or several of these.
        project_dir: the folder of numbered checkpoints and of what trackers write.
        project_config: more about the project's folders and checkpoints.
        gradient_accumulation_plugin: more about accumulation, instead of a number of steps.
        step_scheduler_with_optimizer: whether prepared schedulers follow their optimizer's steps.
        kwargs_handlers: arguments for what is used of torch, at most one of each kind.
        dynamo_backend: let prepared models go through ``torch.compile`` with this backend.
        dynamo_plugin: more about that, instead of a backend.
        debug: on several processes, compare what they bring to each collective operation first; by
            default what the launcher says.
        check_divergence: on several processes, compare their parameters every so many optimizer
            steps, and raise a :class:`DivergenceError` that names the first one that differs.  By
            default what ``ACCELIFT_CHECK_DIVERGENCE`` says, else never.

    Raises:
        ValueError: for arguments that contradict each other, or are not offered.
    """

    def __init__(
        self,
        device_placement: bool = True,
        split_batches: bool = False,
        mixed_precision: str | None = None,
        gradient_accumulation_steps: int = 1,
        cpu: bool = False,
        dataloader_config: DataLoaderConfiguration | None = None,
        deepspeed_plugin: Any = None,
        fsdp_plugin: Any = None,
        torch_tp_plugin: Any = None,
        megatron_lm_plugin: Any = None,
        rng_types: Sequence[str] | None = None,
        log_with: str | GeneralTracker | Sequence[str | GeneralTracker] | None = None,
        project_dir: str | os.PathLike[str] | None = None,
        project_config: ProjectConfiguration | None = None,
        gradient_accumulation_plugin: GradientAccumulationPlugin | None = None,
        step_scheduler_with_optimizer: bool = True,
        kwargs_handlers: list[KwargsHandler] | None = None,
        dynamo_backend: str | None = None,
        dynamo_plugin: TorchDynamoPlugin | None = None,
        deepspeed_plugins: Any = None,
        parallelism_config: Any = None,
        debug: bool | None = None,
        check_divergence: int | None = None,
    ) -> None:
        refuse_not_offered(locals())
        self._handlers = handlers = Handlers(kwargs_handlers)
        init = handlers.get(InitProcessGroupKwargs)
        self.state = AcceleratorState(cpu=cpu, _from_accelerator=True, **init.to_kwargs())
        self.device_placement = device_placement
        self.step_scheduler_with_optimizer = step_scheduler_with_optimizer
        self.rng_types = rng_types
        self.dataloader_config = dataloader_config or DataLoaderConfiguration()
        if split_batches:
            self.dataloader_config = replace(self.dataloader_config, split_batches=True)
        self.gradient_state = GradientState(accumulation(gradient_accumulation_steps, gradient_accumulation_plugin))
        if mixed_precision is None:
            mixed_precision = environment.setting("MIXED_PRECISION") or "no"
        self.mixed_precision = self.state.mixed_precision = precision.check(mixed_precision, self.device)
        self._autocast = handlers.get(AutocastKwargs)
        self._scaler: precision.LossScaler | None = None
        if self.mixed_precision == "fp16":
            scaling = handlers.get(GradScalerKwargs)
            self._scaler = precision.LossScaler(self.device, scaling)
        self._compilation = dynamo(dynamo_backend, dynamo_plugin)
        self._strategy = choose(self.state, handlers.get(DistributedDataParallelKwargs))
        self._several = self.state.use_distributed
        self.registry = Registry()
        if debug is not None:
            self.state.debug = debug
        if check_divergence is None:
            check_divergence = environment.positive("CHECK_DIVERGENCE", 0)
        self._divergence: DivergenceCheck | None = None
        if check_divergence and self._several:
            from accelift.diagnosis import divergence

            self._divergence = divergence.DivergenceCheck(check_divergence, self.registry, self.state)
        self.project_configuration = project_config or ProjectConfiguration()
        if self.project_dir is None:
            self.project_configuration.set_directories(project_dir)
        self._registered = Registered()
        self._trackers = Trackers(log_with, self.logging_dir, self.is_main_process)
        self._wrappers: WeakKeyDictionary[nn.Module, ref[nn.Module]] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        # What was prepared stays with this process; datasets may carry the rest to their workers.
        kept = vars(self).keys() - {"_wrappers"}
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _wrappers=WeakKeyDictionary())

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            instead = VERBS_NOT_OFFERED.get(name)
            if instead is None:
                return super().__getattribute__(name)  # again, for its error; a property's own would be lost
            raise AttributeError(f"accelerator.{name} is not offered: {instead}.")

    # Training

    @property
    def gradient_accumulation_steps(self) -> int:
        """Micro-batches per optimizer step; can be set before :meth:`prepare`."""
        return self.gradient_state.num_steps

    @gradient_accumulation_steps.setter
    def gradient_accumulation_steps(self, steps: int) -> None:
        if steps == self.gradient_state.num_steps:
            return
        if self.registry.optimizers.all() or self.registry.loaders.all():
            raise ValueError(
                f"gradient_accumulation_steps={steps} comes too late: optimizers and loaders are prepared for "
                f"{self.gradient_state.num_steps}; give it to the Accelerator, or set it before prepare."
            )
        self.gradient_state.plugin = replace(self.gradient_state.plugin, num_steps=steps)

    @property
    def sync_gradients(self) -> bool:
        """Whether the current micro-batch ends with an optimizer step; can be set, in place of :meth:`accumulate`."""
        return self.gradient_state.sync_gradients

    @sync_gradients.setter
    def sync_gradients(self, sync_gradients: bool) -> None:
        self.gradient_state.sync_gradients = sync_gradients

    def accumulate(self, *models: nn.Module) -> AbstractContextManager[None]:
        """A context for one micro-batch, which decides whether it ends with an optimizer step.

        Where it does not, prepared optimizers ignore ``step`` and ``zero_grad``, prepared
        schedulers ignore ``step``, and the gradients of ``models`` are not averaged.

        Args:
            models: all models that are trained on the micro-batch; enter one context for all.

        Raises:
            TypeError: if there is something else than models.
        """
        for model in models:
            check_type("accumulate", model, nn.Module)
        return MicroBatch(self.gradient_state, self._strategy, models)

    def no_sync(self, model: nn.Module) -> AbstractContextManager[Any]:
        """A context in which backward does not average the gradients of ``model``."""
        check_type("no_sync", model, nn.Module)
        return self._strategy.no_sync(model)

    def trigger_sync_in_backward(self, model: nn.Module) -> AbstractContextManager[None]:
        """A context whose backward averages the gradients of ``model``, with all that ``no_sync`` has kept apart."""
        check_type("trigger_sync_in_backward", model, nn.Module)
        return self._strategy.trigger_sync(model)

    def backward(
        self,
        loss: Tensor,
        reduction: str = "mean",
        weight: float | Tensor | None = None,
        **kwargs: Any,
    ) -> None:
        """Compute gradients which, averaged over the processes, are those of the whole batch.

        The loss is divided by the accumulation steps, weighted where the processes were dealt
        shares of different sizes, and scaled for float16.

        Args:
            loss: the loss over this process's part of the batch.
            reduction: ``"mean"`` or ``"sum"``: what the loss is over the samples.
            weight: how many items the mean is over, where samples have several and not equally many
                (tokens that are not padding, weights of classes).  It need not be given on one process.
            kwargs: passed on to ``Tensor.backward``.

        Raises:
            TypeError: if the loss is not a tensor.
            ValueError: for another reduction, or a weight for a sum.
        """
        if not isinstance(loss, Tensor):
            raise TypeError(f"backward needs the loss as a tensor, not a {type(loss).__name__}.")
        if weight is not None and reduction != "mean":
            raise ValueError(f'backward was given a weight and reduction="{reduction}"; only a mean has a weight.')
        if reduction not in REDUCTIONS:
            raise ValueError(
                f'backward knows no reduction {reduction!r}; choose "mean" or "sum", or pass other '
                "arguments of Tensor.backward by name."
            )
        self.gradient_state.backwards += 1
        steps = self.gradient_state.divisor
        if steps > 1:
            loss = loss / steps
        if self._several:
            if weight is None:
                factor = loss_factor(reduction, self.gradient_state, self.state)
            else:
                factor = weight_factor(weight, self.state)
            self.gradient_state.factor = factor
            if factor != 1.0:
                loss = loss * factor
        if self._scaler is not None:
            loss = self._scaler.scale(loss)
        due = self._several and self.gradient_state.sync_gradients
        self._strategy.backward(loss, self.registry.optimizers.all() if due else None, **kwargs)

    def autocast(self, autocast_handler: AutocastKwargs | None = None) -> AbstractContextManager[Any]:
        """A context in which torch computes in the Accelerator's ``mixed_precision``."""
        return precision.autocast(self.mixed_precision, self.device, autocast_handler or self._autocast)

    def profile(self, profile_handler: ProfileKwargs | None = None) -> AbstractContextManager[Any]:
        """A context that profiles the block with ``torch.profiler`` and gives the profiler.

        Each process writes a trace into ``output_trace_dir`` of the handler, if it has one.

        Args:
            profile_handler: what to record; by default what ``kwargs_handlers`` says.
        """
        return profile(profile_handler or self._handlers.get(ProfileKwargs), self.state)

    # Afterwards

    def unwrap_model(
        self, model: nn.Module, keep_fp32_wrapper: bool = True, keep_torch_compile: bool = True
    ) -> nn.Module:
        """The model as the author made it, for its attributes, its state dict or a copy.

        The prepared model is not changed by this.

        Args:
            model: a prepared model, or any other, which is returned as it is; so is ``None``, for a
                model that there may not be.
            keep_fp32_wrapper: with mixed precision, whether calls of the result still run under
                autocast; ``False`` gives the very object that was prepared.
            keep_torch_compile: whether a model that the script gave to ``torch.compile`` stays what
                that returned.
        """
        if model is None:
            return model
        check_type("unwrap_model", model, nn.Module)
        return extract_model_from_parallel(model, keep_fp32_wrapper, keep_torch_compile)

    def get_state_dict(self, model: nn.Module, unwrap: bool = True) -> dict[str, Any]:
        """The state dict of a prepared model, with the keys of the author's model.

        Args:
            model: the model.
            unwrap: ``False`` keeps the keys of the prepared model.
        """
        return (self.unwrap_model(model, keep_torch_compile=False) if unwrap else model).state_dict()

    def free_memory(self, *objects: Any) -> list[None]:
        """Forget what was prepared and return memory to the device.

        Returns:
            A ``None`` for each object: ``model, optimizer = accelerator.free_memory(model, ...)``.
        """
        count = len(objects)
        del objects
        self.registry.clear()
        self._wrappers.clear()
        clear_device_cache(garbage_collection=True)
        return [None] * count

    clear = free_memory
