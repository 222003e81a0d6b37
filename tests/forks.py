"""Runs commands in processes that are forked from one that has imported torch: much cheaper than fresh ones.

As a program it is the server, which reads an order a line from stdin and answers with a line on stdout.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

# What the scripts import, and what that imports late.
_IMPORTED = (
    "torch._dynamo",
    "torch.nn.parallel",
    "sklearn.datasets",
    "sklearn.model_selection",
    "accelift.recorder",
    "accelift.accelerator",
    "accelift.data.prepare",
    "accelift.strategy.ddp",
    "accelerate",
)
ROOT = Path(__file__).resolve().parents[1]
_DUMP = 2.0  # seconds for processes to say where they are


@dataclass(frozen=True)
class Order:
    """A job: what follows `python` on its command line, and for each process where it writes to and its variables.

    Processes that run for longer than `seconds` are ended; all are `grace` seconds after one has failed. `dump` is a
    signal for those that are late to say where they are.
    """

    arguments: tuple[str, ...]
    cwd: str
    outputs: tuple[tuple[str, str], ...]  # files for stdout and for stderr, which may be one
    environments: tuple[Mapping[str, str], ...]
    seconds: float
    grace: float | None = None
    dump: int | None = None


@dataclass
class Ended:
    """How a job ended: the exit code of each process, the one of the first that failed, and if it was late."""

    codes: list[int] = field(default_factory=list)
    failed: int = 0
    late: bool = False
    seconds: float = 0.0


class Forks:
    """The process that runs jobs, one after the other."""

    def __init__(self) -> None:
        paths = os.pathsep.join(filter(None, [str(ROOT / "runtime"), os.environ.get("PYTHONPATH")]))
        settings = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            env={**os.environ, "PYTHONPATH": paths, **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def close(self) -> None:
        """End it."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    def run(self, order: Order) -> Ended:
        """Run a job, and wait for it."""
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(asdict(order)) + "\n")
        return Ended(**json.loads(self._server.stdout.readline()))


def ranks(processes: int, port: int) -> list[dict[str, str]]:
    """The variables by which the processes of a job on this machine know themselves."""
    shared = {"WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [{k: str(v) for k, v in {**shared, "RANK": n, "LOCAL_RANK": n}.items()} for n in range(processes)]


# ---- the server


def _serve() -> None:
    """Answer orders until stdin ends."""
    own = [str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    installed = [path for path in sys.path if path not in own]
    for module in _IMPORTED:
        importlib.import_module(module)
    for line in sys.stdin:
        print(json.dumps(asdict(_run(Order(**json.loads(line)), installed))), flush=True)


def _run(order: Order, installed: list[str]) -> Ended:
    start = time.monotonic()
    processes = {_fork(order, rank, installed): rank for rank in range(len(order.environments))}
    ended, running, end = Ended([0] * len(processes)), set(processes), start + order.seconds

    def note(pid: int, status: int) -> int:
        running.discard(pid)
        ended.codes[processes[pid]] = code = os.waitstatus_to_exitcode(status)
        return code

    while running and time.monotonic() <= end:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            time.sleep(0.002)
        elif note(pid, status) and not ended.failed:
            ended.failed = ended.codes[processes[pid]]
            end = end if order.grace is None else min(end, time.monotonic() + order.grace)
    ended.late = bool(running) and (order.grace is None or not ended.failed)
    if ended.late and order.dump is not None:
        for pid in running:
            os.kill(pid, order.dump)
        time.sleep(_DUMP)
    for pid in list(running):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        note(*os.waitpid(pid, 0))
    ended.seconds = time.monotonic() - start
    return ended


def _fork(order: Order, rank: int, installed: list[str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = _child(order, rank, installed)
    finally:  # as the interpreter ends, but that what modules hold is not cleared
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)


def _child(order: Order, rank: int, installed: list[str]) -> int:
    """Be `python ARGUMENTS`; returns the exit code."""
    os.environ.clear()
    os.environ.update(order.environments[rank])
    os.chdir(order.cwd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(order.outputs[rank], 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    _seed()
    module = order.arguments[0] == "-m"
    name, *arguments = order.arguments[module:]
    first = order.cwd if module else str(Path(name).parent)
    sys.path[:] = [first, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *installed]
    sys.argv[:] = [name, *arguments]
    try:
        if module:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(name, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _seed() -> None:
    """Let nobody have the random numbers of the others, unless they seed themselves."""
    import numpy as np
    import torch

    random.seed()
    np.random.seed()
    torch.default_generator.seed()


if __name__ == "__main__":
    _serve()
