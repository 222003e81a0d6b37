"""Which processes there are, which of them this is, and where gradients stand."""

from __future__ import annotations

import atexit
import builtins
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

import torch
import torch.distributed as dist

from accelift import environment
from accelift.dataclasses import DistributedType, GradientAccumulationPlugin

if TYPE_CHECKING:
    from accelift.data.loader import LoaderPass, PreparedLoader

P = ParamSpec("P")
R = TypeVar("R")

_GLOO_LETS_GO = 0.05  # seconds


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
        if not self.__dict__:
            self._shared.update(_find_out(cpu, init_process_group))
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

    def __repr__(self) -> str:
        return (
            f"PartialState(process {self.process_index} of {self.num_processes}, "
            f"device={self.device}, distributed_type={self.distributed_type}, "
            f"backend={self.backend})"
        )

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
            dist.barrier(device_ids=[self.device.index] if on_gpu else None)

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Let the main process run the block before the others do.

        Raises:
            RuntimeError: on the other processes, if the main process failed in the block.
        """
        with self._first("main_process_first", self.is_main_process):
            yield

    @contextmanager
    def local_main_process_first(self) -> Iterator[None]:
        """Let the first process of each machine run the block before the others there do.

        Raises:
            RuntimeError: on the other processes, if one of the first failed in the block.
        """
        with self._first("local_main_process_first", self.is_local_main_process):
            yield

    @contextmanager
    def _first(self, verb: str, first: bool) -> Iterator[None]:
        if not self.use_distributed:
            yield
            return

        def agree(succeeded: bool) -> None:
            """A barrier that also tells whether the block went well where it ran first."""
            outcome = torch.tensor(int(succeeded), device=self.collective_device)
            dist.all_reduce(outcome, dist.ReduceOp.MIN)
            if succeeded and not outcome.item():
                raise RuntimeError(f"{verb}: the process that went first failed in the block.")

        if not first:
            agree(True)
        try:
            yield
        except Exception:
            if first:
                agree(False)
            raise
        if first:
            agree(True)

    def on_main_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Decorator: run on the main process only; elsewhere return ``None``."""
        return _only_if(self.is_main_process, function)

    def on_local_main_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Decorator: run on the first process of each machine only; elsewhere return ``None``."""
        return _only_if(self.is_local_main_process, function)

    def on_last_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Decorator: run on the last process only; elsewhere return ``None``."""
        return _only_if(self.is_last_process, function)

    def on_process(
        self, function: Callable[..., Any] | None = None, process_index: int | None = None
    ) -> Callable[..., Any]:
        """Decorator: run on the process of this index only; elsewhere return ``None``.

        Raises:
            ValueError: if no process index is given.
        """
        if process_index is None:
            raise ValueError("on_process needs to know where: on_process(process_index=...).")
        if function is None:
            return partial(self.on_process, process_index=process_index)
        return _only_if(self.process_index == process_index, function)

    def print(self, *args: Any, **kwargs: Any) -> None:
        """``print`` on the main process of the whole job only."""
        if self.is_main_process:
            builtins.print(*args, **kwargs)

    def destroy_process_group(self) -> None:
        """Leave the process group, if there is one; done at exit anyway."""
        if self.use_distributed and dist.is_initialized():
            dist.destroy_process_group()


class GradientState:
    """Where an Accelerator stands: in which loader, and whether gradients are due.

    Attributes:
        sync_gradients: whether this micro-batch ends with an optimizer step, before which
            gradients are averaged over the processes.
        step: micro-batches counted so far.
        passes: the loaders being iterated; the one that dealt last comes last.
        deals_batches: whether a loader was prepared that gives the processes different batches.
        warned_of_shares: whether the user knows of loaders that deal different shares.
    """

    def __init__(self, plugin: GradientAccumulationPlugin) -> None:
        self.plugin = plugin
        self.sync_gradients = True
        self.step = 0
        self.passes: list[LoaderPass] = []
        self.deals_batches = False
        self.warned_of_shares = False

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "passes": []}  # the loops are this process's

    @property
    def num_steps(self) -> int:
        """Micro-batches per optimizer step."""
        return self.plugin.num_steps

    @property
    def adjust_scheduler(self) -> bool:
        """Whether schedulers count the micro-batches that only accumulate."""
        return self.plugin.adjust_scheduler

    @property
    def sync_with_dataloader(self) -> bool:
        """Whether the last batch of a loader ends with an optimizer step in any case."""
        return self.plugin.sync_with_dataloader and not self.plugin.carry_over

    @property
    def current(self) -> LoaderPass | None:
        """The pass that dealt the current batch, or ``None`` outside of any prepared loader."""
        return self.passes[-1] if self.passes else None

    @property
    def active_dataloader(self) -> PreparedLoader | None:
        """The prepared loader that dealt the current batch."""
        return self.passes[-1].loader if self.passes else None

    @property
    def in_dataloader(self) -> bool:
        """Whether a prepared loader is being iterated."""
        return bool(self.passes)

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the current batch is the last one of its loader."""
        return bool(self.passes) and self.passes[-1].end_of_dataloader

    def count_micro_batch(self) -> None:
        """Count one more micro-batch and decide whether it ends with an optimizer step."""
        current = self.current
        per_pass = self.plugin.sync_with_dataloader or self.plugin.carry_over
        if per_pass and current is not None and not current.counted:
            # A new pass starts to count anew, also where the last one was left early.
            current.counted = True
            self.step = 0
        self.step += 1
        self.sync_gradients = self.step % self.num_steps == 0
        if not self.sync_gradients and self.sync_with_dataloader and self.end_of_dataloader:
            self.sync_gradients = True
            self.step = 0


def _only_if(here: bool, function: Callable[P, R]) -> Callable[P, R | None]:
    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        return function(*args, **kwargs) if here else None

    return guarded


def _find_out(cpu: bool, init_process_group: dict[str, Any]) -> dict[str, Any]:
    """The attributes of the state; joins the process group where there is one to join."""
    cpu = cpu or environment.flag("USE_CPU")
    joined = dist.is_available() and dist.is_initialized()
    world = dist.get_world_size() if joined else int(os.environ.get("WORLD_SIZE") or 1)
    if world == 1:
        return _describe(_choose_device(cpu, None), None, 1, 0, 0)
    if joined:
        rank = dist.get_rank()
        local_rank = int(os.environ.get("LOCAL_RANK", rank))
    else:
        rank = environment.rank_variable("RANK")
        local_rank = environment.rank_variable("LOCAL_RANK")
    if _is_helper_process():
        return _describe(torch.device("cpu"), None, world, rank, local_rank)
    device = _choose_device(cpu, local_rank)
    if not joined:
        _join(device, init_process_group)
    found = _describe(device, dist.get_backend(), world, rank, local_rank)
    return found | {"_init_process_group": init_process_group}


def _describe(device: torch.device, backend: str | None, world: int, rank: int, local_rank: int) -> dict[str, Any]:
    kind = DistributedType.NO
    if backend is not None:
        kinds = {"cpu": DistributedType.MULTI_CPU, "cuda": DistributedType.MULTI_GPU}
        kind = kinds.get(device.type) or DistributedType(f"MULTI_{device.type.upper()}")
    return {
        "device": device,
        "backend": backend,
        "collective_device": torch.device("cpu") if backend == "gloo" else device,
        "distributed_type": kind,
        "num_processes": world,
        "process_index": rank,
        "local_process_index": local_rank,
        "debug": environment.flag("DEBUG_MODE"),
    }


def _is_helper_process() -> bool:
    """Whether this process only helps one of the job's, and so must not join its group.

    Workers of a DataLoader started by spawn or forkserver run the script's module-level code
    again; ``multiprocessing`` marks processes that are at it.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        return True
    return torch.utils.data.get_worker_info() is not None


def _choose_device(cpu: bool, local_rank: int | None) -> torch.device:
    """This process's device; ``local_rank`` is ``None`` where there is one process."""
    if cpu:
        return torch.device("cpu")
    if torch.cuda.is_available():
        if local_rank is None:
            return torch.device("cuda", torch.cuda.current_device())
        if local_rank >= torch.cuda.device_count():
            raise ValueError(
                f"process {local_rank} of this machine has no GPU: {torch.cuda.device_count()} "
                "visible; start fewer processes or pass --cpu to the launcher."
            )
        torch.cuda.set_device(local_rank)
        return torch.device("cuda", local_rank)
    # torch.accelerator is as young as torch 2.6.
    accelerators = getattr(torch, "accelerator", None)
    if accelerators is None or not accelerators.is_available():
        return torch.device("cpu")
    kind = accelerators.current_accelerator()
    if local_rank is None:
        return torch.device(kind)
    accelerators.set_device_index(local_rank)
    return torch.device(kind.type, local_rank)


def _join(device: torch.device, arguments: dict[str, Any]) -> None:
    arguments = dict(arguments)
    if arguments.get("backend") is None:
        backends = {"cpu": "gloo", "cuda": "nccl"}
        arguments["backend"] = backends.get(device.type) or dist.get_default_backend_for_device(device)
    dist.init_process_group(**arguments)
    atexit.register(_leave)


def _leave() -> None:
    """Leave the process group at exit: torch warns, or aborts, where that is not done."""
    if not dist.is_initialized():
        return
    failed = getattr(sys, "last_value", None) is not None
    gloo = dist.get_backend() == "gloo"
    if failed and not gloo:
        return  # nccl could wait for the other processes, and the traceback with it
    dist.destroy_process_group()
    if gloo:
        # A thread of gloo's lets go of the last operation's tensors after we were told that it is done,
        # and needs the GIL for that.  Were the interpreter being torn down by then, it would abort.
        time.sleep(_GLOO_LETS_GO)
