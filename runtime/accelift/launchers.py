"""Running a function on several processes from Python, for instance from a notebook."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.multiprocessing.spawn import ProcessContext, ProcessExitedException, start_processes

from accelift import world
from accelift.environment import patch_environment
from accelift.ports import DEFAULT_PORT
from accelift.state import AcceleratorState, is_initialized


def notebook_launcher(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    num_processes: int | None = None,
    mixed_precision: str = "no",
    use_port: str | int = str(DEFAULT_PORT),
    master_addr: str = "127.0.0.1",
    node_rank: int = 0,
    num_nodes: int = 1,
    rdzv_backend: str = "static",
    rdzv_endpoint: str = "",
    rdzv_conf: dict[str, Any] | None = None,
    rdzv_id: str = "none",
    max_restarts: int = 0,
    monitor_interval: float = 0.1,
    log_line_prefix_template: str | None = None,
) -> None:
    """Run a function on several processes, which are forked from this one.

    The Accelerator is made in the function.  One process just calls it.

    Args:
        function: the function.
        args: its arguments.
        num_processes: how many processes each machine runs; by default one for each GPU, or one.
        mixed_precision: what an Accelerator in the function computes in if it is not told.
        use_port: a port of machine 0; on a single machine the default takes a free one.
        master_addr: the address of machine 0.
        node_rank: which of the machines this is.
        num_nodes: how many machines call this with the same function.
        rdzv_backend: must be ``"static"`` for several machines.
        rdzv_endpoint: ``address:port`` of machine 0, instead of ``master_addr`` and ``use_port``.
        rdzv_conf: not needed here.
        rdzv_id: not needed here.
        max_restarts: how often all processes of a single machine may begin anew after one failed.
        monitor_interval: seconds that the others have to end by themselves after a process failed.
        log_line_prefix_template: not needed here: processes write to the notebook themselves.

    Raises:
        RuntimeError: if there is an Accelerator already, or CUDA was initialised.
        ValueError: if machine ``node_rank`` is not one of ``num_nodes``, for less than one process, or
            for what several machines cannot do.
        torch.distributed.elastic.multiprocessing.errors.ChildFailedError: with the traceback of the
            process of this machine that failed first; the others were ended.
    """
    if not 0 <= node_rank < num_nodes:
        raise ValueError(
            f"notebook_launcher: node_rank={node_rank} is not one of {num_nodes} machines, counted from 0."
        )
    if num_nodes > 1 and (rdzv_backend != "static" or max_restarts):
        raise ValueError(
            'notebook_launcher starts several machines with rdzv_backend="static" and without max_restarts; '
            "`accelift launch` does it otherwise."
        )
    if num_processes is None:
        num_processes = max(_gpus(), 1)
    address, _, port = (rdzv_endpoint or f"{master_addr}:{use_port}").rpartition(":")
    if num_nodes == 1 and port in ("0", str(DEFAULT_PORT)):
        port = ""
    settings = {} if mixed_precision == "no" else {"ACCELERATE_MIXED_PRECISION": mixed_precision}
    machines = (address, port, num_nodes, node_rank)
    _Launch(function, args, num_processes, settings, *machines, max_restarts, monitor_interval).run()


def debug_launcher(function: Callable[..., Any], args: Sequence[Any] = (), num_processes: int = 2) -> None:
    """Run a function on several processes on the CPU, forked from this one, to try it out.

    Args:
        function: the function, in which the Accelerator is made.
        args: its arguments.
        num_processes: how many; one just calls the function.

    Raises:
        RuntimeError: if there is an Accelerator already.
        ValueError: for less than one process.
        torch.distributed.elastic.multiprocessing.errors.ChildFailedError: with the traceback of the
            process that failed first; the others were ended.
    """
    _Launch(function, args, num_processes, {"ACCELERATE_USE_CPU": "1"}).run()


@dataclass(frozen=True)
class _Launch:
    """What is to be run, and where; on a free port of this machine if there is none."""

    function: Callable[..., Any]
    args: Sequence[Any]
    num_processes: int
    settings: Mapping[str, str] = field(default_factory=dict)
    address: str = "127.0.0.1"
    port: str = ""
    num_nodes: int = 1
    node_rank: int = 0
    max_restarts: int = 0
    monitor_interval: float = 0.1

    def run(self) -> None:
        if self.num_processes < 1:
            raise ValueError(f"num_processes={self.num_processes} is not possible: give at least 1.")
        if self.num_processes * self.num_nodes == 1:
            with patch_environment(**self.settings):
                self.function(*self.args)
            return
        if is_initialized():
            raise RuntimeError(
                "processes cannot be started, as there is an Accelerator already; make it in the function only, and "
                "restart the notebook."
            )
        if "ACCELERATE_USE_CPU" not in self.settings and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            raise RuntimeError(
                "processes cannot be started, as CUDA was initialised in this one; use the GPU in the function only, "
                "and restart the notebook."
            )
        attempt = 0
        while not self._succeeds(attempt):
            attempt += 1

    def _succeeds(self, attempt: int) -> bool:
        meeting, _store = self._meeting()
        with TemporaryDirectory() as folder:
            context = self._start(Path(folder), {**meeting, "TORCHELASTIC_RESTART_COUNT": str(attempt)})
            codes: list[int | None] = [None] * self.num_processes
            try:
                while True:
                    wait(list(context.sentinels))
                    time.sleep(self.monitor_interval)
                    codes = [process.exitcode for process in context.processes]
                    if context.join():
                        return True
            except ProcessExitedException as error:  # the others were ended
                if attempt == self.max_restarts:
                    raise self._failure(Path(folder), context, codes, error.error_index) from None
                return False
            finally:
                for process in context.processes:  # some are left where somebody pressed Ctrl-C
                    process.terminate()

    def _meeting(self) -> tuple[dict[str, str], TCPStore | None]:
        """How the processes find each other, and where, as long as it is kept."""
        if self.port:
            meeting = {"MASTER_ADDR": self.address, "MASTER_PORT": self.port, "TORCHELASTIC_USE_AGENT_STORE": "False"}
            return meeting, None
        # Kept by this process, so that what the first one leaves there outlives it.  Not by torch's agent: its threads
        # look up addresses, and a fork at that moment leaves glibc's lock for that locked in the child for ever.
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
        return meeting, store

    def _start(self, folder: Path, meeting: Mapping[str, str]) -> ProcessContext:
        environment = {
            **self.settings,
            **meeting,
            "FORK_LAUNCHED": "1",
            "LOCAL_WORLD_SIZE": str(self.num_processes),
            "WORLD_SIZE": str(self.num_processes * self.num_nodes),
        }
        # The runtimes of ROCm and XPU do not survive a fork.
        forked = torch.version.hip is None and not (hasattr(torch, "xpu") and torch.xpu.is_available())
        context: ProcessContext = start_processes(  # type: ignore[no-untyped-call]
            _child,
            (self.node_rank * self.num_processes, self.function, self.args, environment, folder),
            nprocs=self.num_processes,
            join=False,
            start_method="fork" if forked else "spawn",
        )
        return context

    def _failure(self, folder: Path, context: ProcessContext, codes: list[int | None], index: int) -> Exception:
        """The error of the process that failed first, not of one that failed as it lost that one."""
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

        told = [[*map(int, path.read_text().split())] for path in folder.glob("*.failed")]
        killed = [index for index, code in enumerate(codes) if (code or 0) < 0]
        if killed:  # one that is killed cannot tell when
            index = killed[0]
        elif told:
            _, index = min(told)
        pid, code = context.processes[index].pid, codes[index] or 1
        failure = ProcessFailure(index, pid, code, str(folder / f"{index}.json"))
        name = getattr(self.function, "__name__", "the function")
        return ChildFailedError(name, {self.node_rank * self.num_processes + index: failure})


def _child(
    index: int,
    first_rank: int,
    function: Callable[..., Any],
    args: Sequence[Any],
    environment: Mapping[str, str],
    folder: Path,
) -> None:
    """What a process of the job does."""
    from torch.distributed.elastic.multiprocessing.errors import record

    os.environ.update(environment, RANK=str(first_rank + index), LOCAL_RANK=str(index))
    os.environ["TORCHELASTIC_ERROR_FILE"] = str(folder / f"{index}.json")
    AcceleratorState._reset_state(reset_partial_state=True)  # what the parent knew is not so here
    torch.set_num_threads(1)  # the threads of OpenMP do not survive a fork
    try:
        record(function)(*args)
    except BaseException:
        (folder / f"{index}.failed").write_text(f"{time.time_ns()} {index}")
        sys.exit(1)
    world.leave(os.getpid())  # a process of multiprocessing runs nothing at exit


def _gpus() -> int:
    """How many GPUs this process can see, asked by another one: asking initialises the driver."""
    ask = "from accelift.launch.devices import visible_gpus; print(visible_gpus())"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return int(done.stdout)
