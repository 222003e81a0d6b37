"""Runs scripts in forks of one process that has imported torch already: milliseconds each.

A line of JSON on stdin asks (`{"projects": [...], "processes": N}`; each has the texts of its files, the script first).
A line on stdout answers: it names a pickle with what the run of each script left, on the main process.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import types
from pathlib import Path
from typing import Any

import accelift
import accelift.trace
import numpy as np
import sklearn.metrics
import torch
import torch._dynamo  # by optimizers, when the first is made
import torch.distributed as dist
import tqdm
from accelift.utils import DataLoaderConfiguration
from accelift_codemod.verify.runs import Idle, done_by
from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.ports import free_port

# Imported here once, and not by every script.
PRELOADED = (accelift.Accelerator, DataLoaderConfiguration, sklearn.metrics.accuracy_score, tqdm.tqdm)
SECONDS, IDLE = 60, 10  # that a job may take, and that it may do nothing: its processes wait for each other


def main() -> None:
    """Answer until stdin ends."""
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            asked = json.loads(line)
            several = asked["processes"]
            left = [run(files, several if index else 1, folder) for index, files in enumerate(asked["projects"])]
            place = Path(folder, "answer")
            place.write_bytes(pickle.dumps(left))
            print(place, file=answers, flush=True)


def run(files: dict[str, str], processes: int, folder: str) -> dict[str, Any]:
    """Run a script in a folder of its own, on some processes, and say what it left."""
    work = Path(tempfile.mkdtemp(dir=folder))
    text, *modules = files.values()
    for name, module in zip(list(files)[1:], modules, strict=True):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(module)
    results = [work.with_suffix(f".{rank}") for rank in range(processes)]
    port = free_port() if processes > 1 else 0
    children = [_fork(text, work, results[rank], rank, processes, port) for rank in range(processes)]
    finished = _wait(children)
    outcomes = [pickle.loads(r.read_bytes()) if r.exists() else {"failed": "it was ended"} for r in results]
    failed = next((o["failed"] for o in outcomes if o["failed"]), "" if finished else "it waits for ever")
    left = {**outcomes[0], "failed": failed}
    if not failed:
        written = [path for path in sorted(work.rglob("*")) if path.is_file() and path.suffix != ".py"]
        left["files"] = {str(path.relative_to(work)): _content(path) for path in written}
        left["apart"] = any(not _same(outcomes[0]["steps"], o["steps"]) for o in outcomes[1:])
    shutil.rmtree(work)
    for result in results:
        result.unlink(missing_ok=True)
    return left


def _same(steps: list[Any], others: list[Any]) -> bool:
    return len(steps) == len(others) and all(
        np.allclose(a, b, atol=1e-6, equal_nan=True) for a, b in zip(steps, others, strict=True)
    )


def _fork(text: str, work: Path, result: Path, rank: int, processes: int, port: int) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.chdir(work)
        sys.path.insert(0, str(work))
        sys.dont_write_bytecode = True
        if processes > 1:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes))
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), LOCAL_WORLD_SIZE=str(processes))
        result.write_bytes(pickle.dumps(_recorded(text)))
        if dist.is_initialized():
            dist.barrier()
    finally:
        os._exit(0)


def _recorded(text: str) -> dict[str, Any]:
    """Run a script in this process; its parameters after each optimizer step, its output, and its error."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    steps: list[Any] = []
    register_optimizer_step_post_hook(lambda optimizer, *_: steps.append(_parameters(optimizer)))
    module = types.ModuleType("__main__")
    module.__dict__["__file__"] = sys.argv[0] = "script.py"
    sys.argv[1:] = []
    sys.modules["__main__"] = module
    printed, failed = io.StringIO(), ""
    with Path(os.devnull).open("w") as silent, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(silent):
        try:
            exec(compile(text, "script.py", "exec"), module.__dict__)
        except BaseException:
            failed = traceback.format_exc()
    return {"failed": failed, "stdout": printed.getvalue(), "steps": steps}


def _parameters(optimizer: torch.optim.Optimizer) -> Any:
    values = [p.detach().reshape(-1).float() for group in optimizer.param_groups for p in group["params"]]
    return torch.cat(values).numpy().copy()


def _content(path: Path) -> Any:
    """What a file holds: its text, or the numbers and the keys of what was saved there."""
    if path.suffix != ".pt":
        return path.read_bytes()
    with contextlib.suppress(Exception):
        return _flat(torch.load(path, weights_only=True))
    return path.stat().st_size > 0


def _flat(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().numpy().copy()
    if isinstance(value, dict):
        return {key: _flat(part) for key, part in value.items()}
    return [_flat(part) for part in value] if isinstance(value, (list, tuple)) else value


def _wait(children: list[int]) -> bool:
    """Wait for all children to end; False if one had to be ended."""
    waiting, start, finished = set(children), time.monotonic(), True
    idle = Idle(IDLE, start)
    while waiting:
        for child in list(waiting):
            if os.waitpid(child, os.WNOHANG)[0]:
                waiting.discard(child)
        now = time.monotonic()
        if waiting and (now > start + SECONDS or idle.over(sum(map(done_by, waiting)), now)):
            finished = False
            for child in waiting:
                os.kill(child, signal.SIGKILL)
        time.sleep(0.001)
    return finished


if __name__ == "__main__":
    main()
