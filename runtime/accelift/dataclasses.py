"""Settings that scripts hand to the Accelerator.  This module does not need torch."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from datetime import timedelta
from enum import Enum
from typing import Any


class DistributedType(str, Enum):
    """What kind of job the processes form.

    Jobs are of type ``NO`` (one process) or ``MULTI_*`` (one process per device).  The other
    members are there to be compared with, for scripts that branch on them.
    """

    NO = "NO"
    MULTI_CPU = "MULTI_CPU"
    MULTI_GPU = "MULTI_GPU"
    MULTI_XPU = "MULTI_XPU"
    MULTI_NPU = "MULTI_NPU"
    MULTI_MLU = "MULTI_MLU"
    MULTI_SDAA = "MULTI_SDAA"
    MULTI_MUSA = "MULTI_MUSA"
    MULTI_HPU = "MULTI_HPU"
    MULTI_NEURON = "MULTI_NEURON"
    FSDP = "FSDP"
    DEEPSPEED = "DEEPSPEED"
    MEGATRON_LM = "MEGATRON_LM"
    XLA = "XLA"

    def __str__(self) -> str:
        return self.value


def _positive(owner: object, name: str) -> None:
    value = getattr(owner, name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(
            f"{type(owner).__name__}({name}={value!r}) is not possible: give a whole number of at least 1."
        )


@dataclass
class DataLoaderConfiguration:
    """How :meth:`Accelerator.prepare` deals the batches of a ``DataLoader`` to the processes.

    Args:
        split_batches: ``True`` keeps the global batch: each batch of the script is shared out
            among the processes, in the order in which one process would see it.  ``False`` deals
            whole batches in turn, so that ``num_processes`` of them make one step.
        even_batches: what happens where batches cannot be dealt evenly.  ``None`` shares the
            samples out and weights them exactly if ``split_batches``, and pads otherwise.
            ``True`` pads with samples from the start (:meth:`Accelerator.gather_for_metrics` drops
            them again), ``False`` lets the last processes go without.
        non_blocking: copy batches to the device without waiting (wants ``pin_memory=True``).

    Raises:
        ValueError: for arguments of Hugging Face Accelerate that have no counterpart here.
    """

    split_batches: bool = False
    dispatch_batches: bool | None = None
    even_batches: bool | None = None
    use_seedable_sampler: bool = False
    data_seed: int | None = None
    non_blocking: bool = False
    use_stateful_dataloader: bool = False

    def __post_init__(self) -> None:
        if self.dispatch_batches:
            raise ValueError(
                "DataLoaderConfiguration(dispatch_batches=True) is not offered: every process "
                "reads its own share of the batches; leave the argument out."
            )
        if self.use_seedable_sampler or self.data_seed is not None:
            raise ValueError(
                "DataLoaderConfiguration(use_seedable_sampler=..., data_seed=...) is not offered: "
                "batches already come in the order that one process would draw; call "
                "set_seed(...) or give the DataLoader a generator instead."
            )
        if self.use_stateful_dataloader:
            raise ValueError(
                "DataLoaderConfiguration(use_stateful_dataloader=True) is not offered; use torch's DataLoader."
            )


@dataclass
class GradientAccumulationPlugin:
    """When :meth:`Accelerator.accumulate` lets an optimizer step happen.

    Args:
        num_steps: micro-batches per optimizer step.
        adjust_scheduler: while gradients accumulate, a prepared scheduler does not step; ``True``
            counts the call in its ``_step_count``, as if it had been.
        sync_with_dataloader: ``True`` steps at the last batch of the loader too and starts
            counting anew with each pass over it: ``(i + 1) % k == 0 or i + 1 == len(loader)``.
            ``False`` counts on across passes, as a global step counter does.
        sync_each_batch: average gradients over the processes for every micro-batch.  Slower, but
            no process has to keep unreduced gradients.
        carry_over: count anew with each pass but do *not* step at its end; what is left over stays
            in the gradients: ``(i + 1) % k == 0`` alone.  Overrides ``sync_with_dataloader``.
    """

    num_steps: int
    adjust_scheduler: bool = True
    sync_with_dataloader: bool = True
    sync_each_batch: bool = False
    carry_over: bool = False

    def __post_init__(self) -> None:
        _positive(self, "num_steps")


class KwargsHandler:
    """Arguments that are passed on to a class or function of torch."""

    def to_kwargs(self) -> dict[str, Any]:
        """The arguments whose value is not the default."""
        return {
            field.name: value
            for field in fields(self)  # type: ignore[arg-type]
            if (value := getattr(self, field.name)) != field.default or field.default is MISSING
        }


class DDPCommunicationHookType(str, Enum):
    """How gradients are packed for their way between the processes; see ``torch.distributed.algorithms``."""

    NO = "no"
    FP16 = "fp16"
    BF16 = "bf16"
    POWER_SGD = "power_sgd"
    BATCHED_POWER_SGD = "batched_power_sgd"

    def __str__(self) -> str:
        return self.value


@dataclass
class DistributedDataParallelKwargs(KwargsHandler):
    """Arguments of ``torch.nn.parallel.DistributedDataParallel``; see there.

    Args:
        comm_hook: how gradients are packed; all but ``"no"`` make the average inexact.
        comm_wrapper: pack what a PowerSGD hook sends once more: ``"fp16"`` or ``"bf16"``.
        comm_state_option: arguments of ``PowerSGDState``.

    Raises:
        ValueError: for an unknown hook, or a wrapper that does not exist.
    """

    broadcast_buffers: bool = True
    bucket_cap_mb: int = 25
    find_unused_parameters: bool = False
    gradient_as_bucket_view: bool = False
    static_graph: bool = False
    comm_hook: DDPCommunicationHookType | str = DDPCommunicationHookType.NO
    comm_wrapper: DDPCommunicationHookType | str = DDPCommunicationHookType.NO
    comm_state_option: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wrappers = list(DDPCommunicationHookType)[:3]
        for name, possible in (("comm_hook", list(DDPCommunicationHookType)), ("comm_wrapper", wrappers)):
            value = getattr(self, name)
            if value not in [one.value for one in possible]:
                raise ValueError(
                    f"DistributedDataParallelKwargs({name}={str(value)!r}) is not offered; choose one of "
                    f"{', '.join(map(str, possible))}."
                )
            setattr(self, name, DDPCommunicationHookType(value))

    def to_kwargs(self) -> dict[str, Any]:
        """The arguments of DistributedDataParallel itself whose value is not the default."""
        return {name: value for name, value in super().to_kwargs().items() if not name.startswith("comm_")}


@dataclass
class TorchDynamoPlugin(KwargsHandler):
    """Arguments of ``torch.compile``, which prepared models then go through; see there.

    Args:
        backend: ``"no"`` does not compile.
        disable: do not compile after all.
    """

    backend: str = "no"
    mode: str | None = None
    fullgraph: bool = False
    dynamic: bool | None = None
    options: dict[str, Any] | None = None
    disable: bool = False

    def __post_init__(self) -> None:
        self.backend = self.backend.lower()  # Hugging Face's names are upper case
        if self.mode == "default":
            self.mode = None


@dataclass
class InitProcessGroupKwargs(KwargsHandler):
    """Arguments of ``torch.distributed.init_process_group``.

    ``backend=None`` takes the one that fits the device: nccl for CUDA, gloo for the CPU.
    """

    backend: str | None = None
    init_method: str | None = None
    timeout: timedelta | None = None


@dataclass
class GradScalerKwargs(KwargsHandler):
    """Arguments of ``torch.amp.GradScaler``, used with ``mixed_precision="fp16"``."""

    init_scale: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    enabled: bool = True


@dataclass
class AutocastKwargs(KwargsHandler):
    """Arguments of ``torch.autocast``, used with ``mixed_precision``."""

    enabled: bool = True
    cache_enabled: bool | None = None
