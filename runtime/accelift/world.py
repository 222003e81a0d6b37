"""Finding out which processes form the job and which device this one has, and joining them."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from accelift import environment
from accelift.dataclasses import DistributedType

_GLOO_LETS_GO = 0.05  # seconds


def find_out(cpu: bool, init_process_group: dict[str, Any]) -> dict[str, Any]:
    """The attributes of the state; joins the process group where there is one to join."""
    cpu = cpu or environment.flag("USE_CPU")
    joined = dist.is_available() and dist.is_initialized()
    world = dist.get_world_size() if joined else int(os.environ.get("WORLD_SIZE") or 1)
    if world == 1:
        return describe(choose_device(cpu, None), None, 1, 0, 0)
    if joined:
        rank = dist.get_rank()
        local_rank = int(os.environ.get("LOCAL_RANK", rank))
    else:
        rank = environment.rank_variable("RANK")
        local_rank = environment.rank_variable("LOCAL_RANK")
    if _is_helper_process():
        return describe(torch.device("cpu"), None, world, rank, local_rank)
    device = choose_device(cpu, local_rank)
    if not joined:
        _join(device, init_process_group)
    found = describe(device, dist.get_backend(), world, rank, local_rank)
    return found | {"_init_process_group": init_process_group}


def describe(device: torch.device, backend: str | None, world: int, rank: int, local_rank: int) -> dict[str, Any]:
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


def choose_device(cpu: bool, local_rank: int | None) -> torch.device:
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
    seconds = environment.positive("TIMEOUT", 0)
    if seconds and arguments.get("timeout") is None:
        arguments["timeout"] = timedelta(seconds=seconds)
    dist.init_process_group(**arguments)
    atexit.register(leave, os.getpid())


def leave(process: int) -> None:
    """Leave the process group at exit: torch warns, or aborts, where that is not done.

    Not in a fork of the process that joined it, which has none of its threads and would wait for them.
    """
    if os.getpid() != process or not dist.is_initialized():
        return
    failed = getattr(sys, "last_value", None) is not None
    if failed and dist.get_backend() != "gloo":
        return  # nccl could wait for the other processes, and the traceback with it
    destroy()


def destroy(group: dist.ProcessGroup | None = None) -> None:
    """Leave the process group, or another one."""
    gloo = dist.get_backend(group) == "gloo"
    dist.destroy_process_group(group)
    if gloo:
        # A thread of gloo's lets go of the last operation's tensors after we were told that it is done,
        # and needs the GIL for that.  Were the interpreter being torn down by then, it would abort.
        time.sleep(_GLOO_LETS_GO)
