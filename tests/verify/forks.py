"""Runs of scripts in processes that are forked from one that has imported torch: much cheaper than fresh ones.

As a program it is the server, which reads an order a line from stdin and answers with a line on stdout.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.ports import free_port

# What the scripts import, and what that imports late.
_IMPORTED = (
    "torch._dynamo",
    "torch.nn.parallel",
    "sklearn.datasets",
    "accelift.recorder.__main__",
    "accelift.accelerator",
    "accelift.data.prepare",
    "accelift.strategy.ddp",
    "accelerate",
)
HERE = Path(__file__).resolve()
_DUMP = 2.0  # seconds for processes to say where they are
_GRACE = 5.0  # seconds for the others after one has failed


class Forks:
    """Makes runs as `accelift_codemod.verify.runs.execute` does, and remembers those on one process.

    Args:
        folder: for what such runs keep.
    """

    def __init__(self, folder: Path) -> None:
        import accelift

        runtime = str(Path(accelift.__file__).resolve().parent.parent)
        paths = os.pathsep.join(filter(None, [runtime, str(HERE.parents[2]), os.environ.get("PYTHONPATH", "")]))
        settings = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}
        self._server = subprocess.Popen(
            [sys.executable, str(HERE)],
            env={**os.environ, "PYTHONPATH": paths, **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._known: dict[tuple[Any, ...], Any] = {}
        self._folder = folder
        self._kept: dict[tuple[Any, ...], Path] = {}

    def close(self) -> None:
        """End the server."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    def execute(self, order: Any, limits: Any) -> Any:
        """Run a script under the recorder, and wait for it; scripts are told apart by their text."""
        scratch = str(order.out.parent)
        options = tuple(option.replace(scratch, "") for option in order.options)
        key = (order.script.read_bytes(), order.arguments, options, order.processes)
        if order.processes is not None:
            return self._run(order, limits)
        if "--keep" in options:
            self._lend(Path(order.options[options.index("--keep") + 1]), key)
        if key not in self._known:
            self._known[key] = self._run(order, limits)
        return self._known[key]

    def _lend(self, kept: Path, key: tuple[Any, ...]) -> None:
        """Let what a run keeps outlive its scratch folder."""
        folder = self._folder / str(len(self._kept))
        folder = self._kept.setdefault(key, folder)
        folder.mkdir(exist_ok=True)
        kept.symlink_to(folder)

    def _run(self, order: Any, limits: Any) -> Any:
        from accelift_codemod.verify.recording import read
        from accelift_codemod.verify.runs import Run

        order.out.mkdir(parents=True, exist_ok=True)
        log = order.out / "output.txt"
        asked = {
            "arguments": order.recorder_arguments(),
            "processes": order.processes or 1,
            "launched": order.processes is not None,
            "environment": order.environment(),
            "cwd": str(order.cwd),
            "log": str(log),
            "seconds": limits.seconds,
        }
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(asked) + "\n")
        reply = json.loads(self._server.stdout.readline())
        recording = read(order.out, order.processes or 1)
        output = log.read_text(errors="replace")
        return Run(recording, reply["code"], reply["seconds"], reply["stopped"], output)


def _serve() -> None:
    """Answer orders until stdin ends."""
    for module in _IMPORTED:
        importlib.import_module(module)
    for line in sys.stdin:
        reply = _make_run(json.loads(line))
        print(json.dumps(reply), flush=True)


def _make_run(order: dict[str, Any]) -> dict[str, Any]:
    start = time.monotonic()
    port = free_port()
    running = {_fork(order, rank, port): rank for rank in range(order["processes"])}
    code, stopped, end = 0, "", start + order["seconds"]
    try:
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in running:
                del running[pid]
                if status and not code:
                    code = os.waitstatus_to_exitcode(status)
                    end = min(end, time.monotonic() + _GRACE)
            elif time.monotonic() > end:
                stopped = "" if code else f"it ran for more than {order['seconds']:g} seconds (--timeout)"
                break
            else:
                time.sleep(0.01)
        if stopped:
            for pid in running:
                os.kill(pid, signal.SIGUSR1)
            time.sleep(_DUMP)
    finally:
        for pid in running:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    return {
        "code": code or (-signal.SIGKILL if running else 0),
        "stopped": stopped,
        "seconds": time.monotonic() - start,
    }


def _fork(order: dict[str, Any], rank: int, port: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = _child(order, rank, port)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        import atexit

        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _child(order: dict[str, Any], rank: int, port: int) -> int:
    from accelift.recorder.__main__ import main

    os.environ.clear()
    os.environ.update(order["environment"])
    if order["launched"]:
        ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": order["processes"], "MASTER_PORT": port}
        os.environ.update({name: str(value) for name, value in ranks.items()}, MASTER_ADDR="127.0.0.1")
    os.chdir(order["cwd"])
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    main(order["arguments"])
    return 0


if __name__ == "__main__":
    _serve()
