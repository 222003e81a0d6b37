"""What the runtime library costs, next to plain torch and to Hugging Face Accelerate."""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
from functools import partial
from pathlib import Path

from benchmarks.measure import Failed, Measure, NotMeasured, Setting, ratio, run

_LOOPS = Path(__file__).with_name("loops.py")
_TURNS = 10  # for each round
_ADDED = """\
import time, torch
start = time.process_time()
from {} import Accelerator
Accelerator(cpu=True)
print(time.process_time() - start)
"""


def _loop(kind: str, processes: int, setting: Setting) -> float:
    """The median of our cost over that of the neighbouring turn, in one run of the loops."""
    _need("torch")
    python = [sys.executable]
    if processes > 1:
        python += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    turns = json.loads(run([*python, str(_LOOPS), kind, str(_TURNS * setting.rounds)]).output)
    return float(statistics.median(ours / theirs for ours, theirs in turns))


def _need(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        raise NotMeasured(f"{library} is not installed (pip install {library})")


def _imports(setting: Setting) -> float:
    _need("torch")
    _need("accelerate")

    def added(library: str) -> float:
        return float(run([sys.executable, "-c", _ADDED.format(library)]).output)

    return ratio(setting.rounds, partial(added, "accelift"), partial(added, "accelerate"))


def _launch(setting: Setting) -> float:
    script = setting.scratch / "nothing.py"
    script.write_text("print('started', flush=True)\n")
    here = {"HF_HOME": str(setting.scratch)}  # not the configuration of whoever runs this

    def launch(tool: str, kind: str) -> float:
        done = run([setting.command(tool), "launch", kind, "--num_processes", "2", str(script)], environment=here)
        if done.output.count("started") != 2:
            raise Failed(f"{tool} did not start two processes")
        return done.cpu

    # With --cpu, accelerate starts one process, whatever their number; a script that does nothing needs no GPU.
    return ratio(setting.rounds, partial(launch, "accelift", "--cpu"), partial(launch, "accelerate", "--multi_gpu"))


MEASURES = (
    Measure("step", "step, 1 process / plain loop", 1.12, partial(_loop, "step", 1)),
    Measure("step-2", "step, 2 processes / DDP by hand", 1.04, partial(_loop, "step", 2)),
    Measure("gather", "gather_for_metrics, 2 processes / all_gather", 1.10, partial(_loop, "gather", 2)),
    Measure("import", "Accelerator(), added to import torch / accelerate's", 0.2, _imports),
    Measure("launch", "launch 2 processes that do nothing / accelerate launch", 1.0, _launch),
)
