"""Settings that scripts hand to the Accelerator.  This module does not need torch."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from datetime import timedelta
from enum import Enum
from os import PathLike, fspath
from typing import Any, Literal


class Word(str, Enum):
    """Words to choose from, which are texts too: ``RNGType.TORCH == "torch"``."""

    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def list(cls) -> list[str]:
        """All of the words."""
        return [member.value for member in cls]


class DistributedType(Word):
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


class LoggerType(Word):
    """Names of trackers, for ``Accelerator(log_with=...)``.

    ``ALL`` is every tracker that is installed.  Offered are ``JSONL``, ``TENSORBOARD`` and
    ``WANDB``; the others are there for scripts that name them.
    """

    ALL = "all"
    JSONL = "jsonl"
    TENSORBOARD = "tensorboard"
    WANDB = "wandb"
    AIM = "aim"
    CLEARML = "clearml"
    COMETML = "comet_ml"
    DVCLIVE = "dvclive"
    MLFLOW = "mlflow"
    SWANLAB = "swanlab"
    TRACKIO = "trackio"


class PrecisionType(Word):
    """Words for ``Accelerator(mixed_precision=...)``; ``FP8`` is there for scripts that name it."""

    NO = "no"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"


class RNGType(Word):
    """Generators of random numbers: torch's on the CPU, on a kind of device, or a given one."""

    TORCH = "torch"
    CUDA = "cuda"
    XPU = "xpu"
    NPU = "npu"
    MLU = "mlu"
    SDAA = "sdaa"
    MUSA = "musa"
    HPU = "hpu"
    NEURON = "neuron"
    XLA = "xla"
    GENERATOR = "generator"


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
        dispatch_batches: ``True`` lets the main process alone read the data and send the others
            what they are dealt.  Otherwise every process reads its own part.
        even_batches: what happens where batches cannot be dealt evenly.  ``"exact"`` shares the
            samples out, each once, and weights them so that gradients are those of one process.
            ``True`` pads with samples from the start (:meth:`Accelerator.gather_for_metrics` drops
            them again), ``False`` lets the last processes go without.  ``None`` is ``"exact"`` if
            ``split_batches``, else ``True``.
        use_seedable_sampler: shuffle by a seed and the number of the epoch instead of by a
            generator's state; see :class:`accelift.data_loader.SeedableRandomSampler`.
        data_seed: that seed; by default the one that torch was seeded with.
        non_blocking: copy batches to the device without waiting (wants ``pin_memory=True``).
        use_stateful_dataloader: let a loop over a loader whose state was loaded go on where the
            state was taken.  Otherwise :func:`accelift.data_loader.skip_first_batches` does that.

    Raises:
        ValueError: for another ``even_batches``.
    """

    split_batches: bool = False
    dispatch_batches: bool | None = None
    even_batches: bool | Literal["exact"] | None = None
    use_seedable_sampler: bool = False
    data_seed: int | None = None
    non_blocking: bool = False
    use_stateful_dataloader: bool = False

    def __post_init__(self) -> None:
        if self.even_batches not in (True, False, None, "exact"):
            raise ValueError(
                f"DataLoaderConfiguration(even_batches={self.even_batches!r}) is not possible: give True, False "
                'or "exact".'
            )


@dataclass
class ProjectConfiguration:
    """Where a project has its files, and how its checkpoints are named.

    Args:
        project_dir: the folder of the project.
        logging_dir: the folder that trackers write to; by default the same.
        automatic_checkpoint_naming: let ``save_state()`` number its checkpoints:
            ``<project_dir>/checkpoints/checkpoint_<number>``.
        total_limit: how many of these to keep; older ones are deleted when a new one is complete.
        iteration: the number of the next checkpoint.
        save_on_each_node: let the first process of each machine save, where machines share no folder.

    Raises:
        ValueError: if ``total_limit`` is not at least 1.
    """

    project_dir: str | None = None
    logging_dir: str | None = None
    automatic_checkpoint_naming: bool = False
    total_limit: int | None = None
    iteration: int = 0
    save_on_each_node: bool = False

    def __post_init__(self) -> None:
        if self.total_limit is not None:
            _positive(self, "total_limit")
        self.set_directories(self.project_dir)

    def set_directories(self, project_dir: str | PathLike[str] | None = None) -> None:
        """Set the folder of the project and, unless it is known, that of the trackers."""
        self.project_dir = None if project_dir is None else fspath(project_dir)
        if self.logging_dir is None:
            self.logging_dir = self.project_dir


class KwargsHandler:
    """Arguments that are passed on to a class or function of torch."""

    # Here once, as making them for every dataclass is a good part of what importing this module takes.

    def __repr__(self) -> str:
        given = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__qualname__}({given})"

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # they can be changed

    def to_kwargs(self) -> dict[str, Any]:
        """The arguments whose value is not the default."""
        return {
            field.name: value
            for field in fields(self)  # type: ignore[arg-type]
            if (value := getattr(self, field.name)) != field.default or field.default is MISSING
        }


@dataclass(eq=False, repr=False)
class GradientAccumulationPlugin(KwargsHandler):
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
        average_leftover: divide the losses of the last, incomplete group of a pass by the number
            of micro-batches in it: ``loss / min(k, len(loader) - i // k * k)``.  Otherwise they are
            divided by ``num_steps`` like all others.

    Raises:
        ValueError: if ``num_steps`` is not at least 1, or no group would be incomplete.
    """

    num_steps: int
    adjust_scheduler: bool = True
    sync_with_dataloader: bool = True
    sync_each_batch: bool = False
    carry_over: bool = False
    average_leftover: bool = False

    def __post_init__(self) -> None:
        _positive(self, "num_steps")
        if self.average_leftover and (self.carry_over or not self.sync_with_dataloader):
            raise ValueError(
                "GradientAccumulationPlugin(average_leftover=True) needs a step at the end of each pass; leave "
                "out carry_over and sync_with_dataloader=False, with which groups are always complete."
            )


class DDPCommunicationHookType(str, Enum):
    """How gradients are packed for their way between the processes; see ``torch.distributed.algorithms``."""

    NO = "no"
    FP16 = "fp16"
    BF16 = "bf16"
    POWER_SGD = "power_sgd"
    BATCHED_POWER_SGD = "batched_power_sgd"

    def __str__(self) -> str:
        return self.value


@dataclass(eq=False, repr=False)
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


@dataclass(eq=False, repr=False)
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


@dataclass(eq=False, repr=False)
class InitProcessGroupKwargs(KwargsHandler):
    """Arguments of ``torch.distributed.init_process_group``.

    ``backend=None`` takes the one that fits the device: nccl for CUDA, gloo for the CPU.
    """

    backend: str | None = None
    init_method: str | None = None
    timeout: timedelta | None = None


@dataclass(eq=False, repr=False)
class GradScalerKwargs(KwargsHandler):
    """Arguments of ``torch.amp.GradScaler``, used with ``mixed_precision="fp16"``."""

    init_scale: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    enabled: bool = True


@dataclass(eq=False, repr=False)
class AutocastKwargs(KwargsHandler):
    """Arguments of ``torch.autocast``, used with ``mixed_precision``."""

    enabled: bool = True
    cache_enabled: bool | None = None
