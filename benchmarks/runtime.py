"""What the runtime library costs, next to plain torch, Hugging Face Accelerate and Lightning Fabric."""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial

from benchmarks.measure import Failed, Measure, NotMeasured, Setting, least, run

_EPOCHS = 3  # for each round
_CPU, _WALL = 0, 1
_PACKAGES = {"accelerate": "accelerate", "fabric": "lightning"}
_ADDED = """\
import time, torch
start = time.process_time()
{}
print(time.process_time() - start)
"""
_BEGUN = {
    "accelift": "from accelift import Accelerator; Accelerator(cpu=True)",
    "accelerate": "from accelerate import Accelerator; Accelerator(cpu=True)",
    "fabric": "from lightning.fabric import Fabric; Fabric(accelerator='cpu')",
}

Costs = Mapping[str, list[list[float]]]
Ratios = dict[str, float]  # of each side


def _need(side: str) -> None:
    package = _PACKAGES.get(side, "torch")
    if importlib.util.find_spec(package) is None:
        raise NotMeasured(f"{package} is not installed (pip install '.[bench]')")


@cache
def _taken(kind: str, processes: int, rounds: int, setting: Setting) -> Costs:
    """What each round cost each side that is installed, in one run of the loops."""
    _need("torch")
    python = [sys.executable]
    if processes > 1:
        python += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    done = run([*python, "-m", "benchmarks.loops", kind, str(rounds), str(setting.scratch)])
    costs: Costs = json.loads(done.output.splitlines()[-1])
    return costs


def _to_raw(kind: str, processes: int, setting: Setting) -> Ratios:
    """CPU time next to plain torch's: the median over epochs in which the sides took turns."""
    costs = _taken(kind, processes, _EPOCHS * setting.rounds, setting)
    return {
        side: statistics.median(one[_CPU] / raw[_CPU] for one, raw in zip(taken, costs["raw"], strict=True))
        for side, taken in costs.items()
    }


def _added_to_fabrics(setting: Setting) -> Ratios:
    """What is added to a step of plain torch, next to what Fabric adds."""
    _need("fabric")
    ratios = _to_raw("step", 1, setting)
    return {side: (ratio - 1) / (ratios["fabric"] - 1) for side, ratio in ratios.items()}


def _to_accelerate(sides: Mapping[str, Callable[[], float]], rounds: int) -> Ratios:
    """The least cost of each side next to accelerate's, in turns."""
    _need("accelerate")
    costs = least(rounds, *sides.values())
    return _over("accelerate", dict(zip(sides, costs, strict=True)))


def _over(side: str, costs: Mapping[str, float]) -> Ratios:
    return {name: cost / costs[side] for name, cost in costs.items()}


def _save(setting: Setting) -> Ratios:
    """The least wall time of saving 315 MB, which is mostly waiting, next to accelerate's."""
    _need("accelerate")
    costs = _taken("save", 1, setting.rounds, setting)
    return _over("accelerate", {side: min(one[_WALL] for one in taken) for side, taken in costs.items()})


def _load(setting: Setting) -> Ratios:
    """The same of loading them, each time in a new process: what costs most is memory that was not used before."""
    sides = _taken("save", 1, setting.rounds, setting)  # which leaves a checkpoint of each

    def load(side: str) -> float:
        done = run([sys.executable, "-m", "benchmarks.loops", "load", "1", str(setting.scratch), side])
        costs: Costs = json.loads(done.output.splitlines()[-1])
        return costs[side][0][_WALL]

    return _to_accelerate({side: partial(load, side) for side in sides}, 2 * setting.rounds)


def _imports(setting: Setting) -> Ratios:
    _need("torch")

    def added(side: str) -> float:
        return float(run([sys.executable, "-c", _ADDED.format(_BEGUN[side])]).output.splitlines()[-1])

    installed = [side for side in _BEGUN if importlib.util.find_spec(_PACKAGES.get(side, side)) is not None]
    return _to_accelerate({side: partial(added, side) for side in installed}, setting.rounds)


def _launch(setting: Setting) -> Ratios:
    script = setting.scratch / "nothing.py"
    script.write_text("print('started', flush=True)\n")
    here = {"HF_HOME": str(setting.scratch)}  # not the configuration of whoever runs this

    def launch(command: str, *arguments: str) -> float:
        done = run([setting.command(command), *arguments, str(script)], environment=here)
        if done.output.count("started") != 2:
            raise Failed(f"{command} did not start two processes")
        return done.cpu

    return _to_accelerate(
        {
            "accelift": partial(launch, "accelift", "launch", "--cpu", "--num_processes", "2"),
            # With --cpu, accelerate starts one process, whatever their number; a script that does nothing needs no GPU.
            "accelerate": partial(launch, "accelerate", "launch", "--multi_gpu", "--num_processes", "2"),
            "torchrun": partial(launch, "torchrun", "--standalone", "--nproc-per-node=2"),
        },
        setting.rounds,
    )


def _measure(name: str, title: str, budget: float, ratios: Callable[[Setting], Ratios]) -> Measure:
    once = cache(ratios)

    def ours(setting: Setting) -> float:
        return once(setting)["accelift"]

    def peers(setting: Setting) -> Ratios:
        return {side: ratio for side, ratio in once(setting).items() if side != "accelift"}

    return Measure(name, title, budget, ours, peers=peers)


MEASURES = (
    _measure("step", "step, 1 process / plain loop", 1.12, partial(_to_raw, "step", 1)),
    _measure("step-added", "added to a step, 1 process / Fabric's", 0.5, _added_to_fabrics),
    _measure("accumulate", "accumulate, 1 process / plain loop", 1.12, partial(_to_raw, "accumulate", 1)),
    _measure("step-2", "step, 2 processes / DDP by hand", 1.04, partial(_to_raw, "step", 2)),
    _measure("accumulate-2", "accumulate, 2 processes / DDP by hand", 1.04, partial(_to_raw, "accumulate", 2)),
    _measure("metrics", "gather_for_metrics / all_gather, 2 processes", 1.10, partial(_to_raw, "metrics", 2)),
    _measure("gather", "gather / all_gather, 2 processes", 1.10, partial(_to_raw, "gather", 2)),
    _measure("reduce", "reduce / all_reduce, 2 processes", 1.10, partial(_to_raw, "reduce", 2)),
    _measure("barrier", "wait_for_everyone / barrier, 2 processes", 1.10, partial(_to_raw, "barrier", 2)),
    _measure("save", "save_state, 315 MB / accelerate's", 0.5, _save),
    _measure("load", "load_state, 315 MB / accelerate's", 0.6, _load),
    _measure("import", "Accelerator(), added to import torch / accelerate's", 0.2, _imports),
    _measure("launch", "launch 2 processes that do nothing / accelerate's", 1.0, _launch),
)
