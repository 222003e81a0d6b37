"""Which processes there are, and which of them this is."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

import torch
import torch.distributed as dist

from accelift import world
from accelift.collective import Collective
from accelift.dataclasses import DistributedType
from accelift.gradients import GradientState as GradientState  # one of the names that scripts import from here
from accelift.guards import first, only_if

P = ParamSpec("P")
R = TypeVar("R")

_KNOWN = frozenset(
    {
        "backend",
        "collective_device",
        "debug",
        "device",
        "distributed_type",
        "local_process_index",
        "mixed_precision",
        "num_processes",
        "process_index",
    }
)


class PartialState:
    """The processes of the job and this process's place among them.

    All instances of a process share what the first one found out.  ``WORLD_SIZE > 1`` in the
    environment means several processes, also on the CPU; otherwise there is one, and no process
    group.

    Args:
        cpu: use the CPU even where there is an accelerator.
        init_process_group: arguments of ``torch.distributed.init_process_group``.

    Attributes:
        device: where this process computes.
        backend: what the processes talk through; ``None`` if there is nobody to talk to.
        collective_device: where tensors must be for the backend to send them.
        distributed_type: what kind of job the processes form.
        num_processes: how many processes there are.
        process_index: the index of this process in the job.
        local_process_index: the index of this process on its machine.
        debug: whether the shapes of what processes tell each other are compared first.

    Raises:
        ValueError: if a state exists already that contradicts the arguments, or the variables set
            by the launcher are incomplete.
    """

    _shared: ClassVar[dict[str, Any]] = {}

    device: torch.device
    backend: str | None
    collective_device: torch.device
    distributed_type: DistributedType
    num_processes: int
    process_index: int
    local_process_index: int
    debug: bool

    def __init__(self, cpu: bool = False, **init_process_group: Any) -> None:
        self.__dict__ = PartialState._shared
        if not self.initialized:
            self._shared.update(world.find_out(cpu, init_process_group))
            if self.use_distributed:
                from accelift.diagnosis import watchdog

                watchdog.watch(self)
            return
        if cpu and self.device.type != "cpu":
            raise ValueError(
                f"cpu=True comes too late: this process already uses {self.device}; give cpu=True "
                "to the first Accelerator or PartialState of the script."
            )
        if init_process_group and self.backend is not None:
            known = self._shared["_init_process_group"]
            if init_process_group != known:
                raise ValueError(
                    f"InitProcessGroupKwargs({init_process_group}) come too late: the process "
                    f"group was started with {known or 'the defaults'}; give them to the first "
                    "Accelerator or PartialState of the script."
                )

    @classmethod
    def _reset_state(cls) -> None:
        """Forget everything, so that the next instance looks again."""
        cls._shared.clear()

    def __reduce__(self) -> Any:
        # Where it is unpickled, maybe in a worker of a DataLoader, things may be different.
        return PartialState, ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            if name not in _KNOWN:
                raise AttributeError(f"{kind!r} object has no attribute {name!r}")
            raise AttributeError(
                f"`{kind}` object has no attribute `{name}`. This happens if `{kind}._reset_state()` was called and "
                "there was no new `Accelerator` or `PartialState` since."
            )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(process {self.process_index} of {self.num_processes}, "
            f"device={self.device}, distributed_type={self.distributed_type}, "
            f"backend={self.backend})"
        )

    @property
    def initialized(self) -> bool:
        """Whether it is known which processes there are."""
        return bool(self._shared)

    @property
    def fork_launched(self) -> bool:
        """Whether this process was forked by ``notebook_launcher`` or ``debug_launcher``."""
        return os.environ.get("FORK_LAUNCHED") == "1"

    @property
    def default_device(self) -> torch.device:
        """The device that a single process would use here."""
        return world.choose_device(False, None)

    def set_device(self) -> None:
        """Make :attr:`device` the one that torch uses where none is named; done at the start anyway."""
        if self.device.index is not None:
            getattr(torch, self.device.type).set_device(self.device)

    @property
    def use_distributed(self) -> bool:
        """Whether there are other processes to talk to."""
        return self.backend is not None

    @property
    def is_main_process(self) -> bool:
        """Whether this is the first process of the whole job."""
        return self.process_index == 0

    @property
    def is_local_main_process(self) -> bool:
        """Whether this is the first process on its machine."""
        return self.local_process_index == 0

    @property
    def is_last_process(self) -> bool:
        """Whether this is the last process of the whole job."""
        return self.process_index == self.num_processes - 1

    def wait_for_everyone(self) -> None:
        """Wait until every process has come here."""
        if self.use_distributed:
            # nccl guesses the device, with a warning, unless it is told.
            on_gpu = self.backend == "nccl" and self.device.index is not None
            with Collective("wait_for_everyone", self):
                dist.barrier(device_ids=[self.device.index] if on_gpu else None)

    def main_process_first(self) -> AbstractContextManager[None]:
        """Let the main process run the block before the others do.

        Raises:
            RuntimeError: on the other processes, if the main process failed in the block.
        """
        return first(self, "main_process_first", self.is_main_process)

    def local_main_process_first(self) -> AbstractContextManager[None]:
        """Let the first process of each machine run the block before the others there do.

        Raises:
            RuntimeError: on the other processes, if one of the first failed in the block.
        """
        return first(self, "local_main_process_first", self.is_local_main_process)

    def on_main_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Decorator: run on the main process only; elsewhere return ``None``."""
        return only_if(self.is_main_process, function)

    def on_local_main_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Decorator: run on the first process of each machine only; elsewhere return ``None``."""
        return only_if(self.is_local_main_process, function)

    def on_last_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Decorator: run on the last process only; elsewhere return ``None``."""
        return only_if(self.is_last_process, function)

    def on_process(
        self, function: Callable[..., Any] | None = None, process_index: int | None = None
    ) -> Callable[..., Any]:
        """Decorator: run on the process of this index only, or on the only one; elsewhere return ``None``.

        Raises:
            ValueError: if no process index is given.
        """
        if process_index is None:
            raise ValueError("on_process needs to know where: on_process(process_index=...).")
        if function is None:
            return partial(self.on_process, process_index=process_index)
        return only_if(self.num_processes == 1 or self.process_index == process_index, function)

    def on_local_process(
        self, function: Callable[..., Any] | None = None, local_process_index: int | None = None
    ) -> Callable[..., Any]:
        """Decorator: run on the process of this index on each machine, or on the only one; elsewhere return ``None``.

        Raises:
            ValueError: if no index is given.
        """
        if local_process_index is None:
            raise ValueError("on_local_process needs to know where: on_local_process(local_process_index=...).")
        if function is None:
            return partial(self.on_local_process, local_process_index=local_process_index)
        return only_if(self.num_processes == 1 or self.local_process_index == local_process_index, function)

    def split_between_processes(self, inputs: Any, apply_padding: bool = False) -> AbstractContextManager[Any]:
        """See :func:`accelift.split.part_of`.

        ``with state.split_between_processes(prompts) as mine:`` gives each process its part.
        """
        from accelift.split import part_of

        return nullcontext(part_of(inputs, self.process_index, self.num_processes, apply_padding))

    def print(self, *args: Any, **kwargs: Any) -> None:
        """``print`` on the main process of the whole job only."""
        if self.is_main_process:
            builtins.print(*args, **kwargs)

    def destroy_process_group(self, group: dist.ProcessGroup | None = None) -> None:
        """Leave the process group, if there is one; done at exit anyway.

        Args:
            group: another group than that of all processes.
        """
        if dist.is_available() and dist.is_initialized():
            if group is None:
                from accelift.diagnosis import watchdog

                watchdog.leave()
            world.destroy(group)


class AcceleratorState(PartialState):
    """What :class:`PartialState` knows, and the precision of the newest Accelerator.

    Scripts that ask for what is not offered, ``deepspeed_plugin`` and the like, find nothing.

    Args:
        mixed_precision: given by the Accelerator.
        cpu: as for PartialState.
        _from_accelerator: given by the Accelerator.
        init_process_group: as for PartialState.

    Raises:
        ValueError: if there is no Accelerator yet, or as for PartialState.
    """

    _shared: ClassVar[dict[str, Any]] = {}

    mixed_precision: str
    deepspeed_plugin: ClassVar[None] = None
    fsdp_plugin: ClassVar[None] = None
    megatron_lm_plugin: ClassVar[None] = None
    parallelism_config: ClassVar[None] = None
    is_fsdp2: ClassVar[bool] = False

    def __init__(
        self,
        mixed_precision: str | None = None,
        cpu: bool = False,
        _from_accelerator: bool = False,
        **init_process_group: Any,
    ) -> None:
        PartialState(cpu, **init_process_group)
        self.__dict__ = AcceleratorState._shared
        if not (self.initialized or _from_accelerator):
            raise ValueError("AcceleratorState() needs an Accelerator first; without one, use PartialState().")
        if _from_accelerator:
            self._shared["mixed_precision"] = mixed_precision or "no"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            known = PartialState._shared
            return known[name] if self.initialized and name in known else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in PartialState._shared:
            PartialState._shared[name] = value
        else:
            super().__setattr__(name, value)

    @classmethod
    def _reset_state(cls, reset_partial_state: bool = False) -> None:
        """Forget what the newest Accelerator said, and all else if ``reset_partial_state``."""
        cls._shared.clear()
        if reset_partial_state:
            PartialState._reset_state()

    def __reduce__(self) -> Any:
        return AcceleratorState, (self.mixed_precision, False, True)


def is_initialized() -> bool:
    """Whether there is an Accelerator."""
    return bool(AcceleratorState._shared)
