"""A job of two processes, of which one waits and the other does not come: why, says the first argument."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import torch
from accelift import Accelerator, InitProcessGroupKwargs
from accelift.collective import Collective
from accelift.diagnosis import watchdog

JOB, FOLDER = sys.argv[1], Path(sys.argv[2])


# Libraries may take longer to load on one process than the timeout.
(FOLDER / os.environ["RANK"]).touch()
while not all((FOLDER / rank).exists() for rank in "01"):
    time.sleep(0.02)
acc = Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(seconds=12))])
acc.gather(torch.ones(1))
waits = acc.is_main_process == (JOB != "vanishes")  # that one keeps the store
if JOB == "outlives":
    time.sleep(0 if acc.is_main_process else 2.5)
elif waits and JOB == "left to us":
    (dog,) = watchdog._watchdogs.values()
    dog._schedule = replace(dog._schedule, alarm=60.0, end=2.0)
    with Collective("gather", acc.state):
        time.sleep(60)
elif waits:
    acc.gather(torch.ones(1))
elif JOB == "vanishes":
    os.kill(os.getpid(), signal.SIGKILL)
elif JOB == "left to us":
    time.sleep(5)
