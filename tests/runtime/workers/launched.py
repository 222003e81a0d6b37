"""What the launch tests start.  The first argument says what to do."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

RANK = int(os.environ.get("RANK", "0"))
SETTINGS = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "OMP_NUM_THREADS",
    "ACCELERATE_USE_CPU",
    "ACCELERATE_MIXED_PRECISION",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
    "ACCELERATE_DEBUG_MODE",
)


def tell(path: str) -> None:
    """Write down how this process was started."""
    found = {"argv": sys.argv[1:], "name": __name__, "pid": os.getpid(), "parent": os.getppid()}
    found["environment"] = {name: os.environ.get(name) for name in SETTINGS}
    Path(f"{path}.{RANK}").write_text(json.dumps(found))


def job() -> object:
    from accelift import Accelerator

    return Accelerator()


task, path, *rest = sys.argv[1:]
if task == "tell":
    tell(path)
elif task == "job":
    acc = job()
    total = acc.reduce(__import__("torch").tensor(acc.process_index + 1)).item()
    tell(path)
    Path(f"{path}.{RANK}.total").write_text(f"{total} {acc.mixed_precision} {acc.device}")
elif task == "exit":
    tell(path)
    if RANK == 1:
        sys.exit(int(rest[0]))
    time.sleep(60)
elif task == "kill":
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
elif task == "raise":
    acc = job()
    if RANK == 1:
        raise ValueError("this one failed on purpose")
    acc.wait_for_everyone()
elif task == "wait":
    acc = job()
    tell(path)
    if RANK == 0:
        time.sleep(120)
    acc.wait_for_everyone()
