"""The same work by hand and with each installed library, in turns in one run; prints what each round cost as JSON.

Started by :mod:`benchmarks.runtime` as the script of one or several processes: `loops.py KIND ROUNDS FOLDER [SIDE]`.
Without a side all take part.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks.sides import BATCH, TURNS, Checkpoint, Fabric, Managed, Raw, Side, Turn

_ORDER = random.Random(0)  # of the sides in each turn, the same on all processes
Costs = dict[str, list[tuple[float, float]]]  # of each side, for each round: CPU and wall time in seconds


SIDES: dict[str, tuple[str, Callable[[int], Side]]] = {  # the package of each, and how it is made
    "raw": ("torch", Raw),
    "accelift": ("accelift", lambda _: Managed("accelift")),
    "accelerate": ("accelerate", lambda _: Managed("accelerate")),
    "fabric": ("lightning", Fabric),
}


def installed() -> list[str]:
    """Plain torch, this project, and the peers that there are."""
    return [name for name, (package, _) in SIDES.items() if importlib.util.find_spec(package) is not None]


def cost(turn: Turn) -> tuple[float, float]:
    """CPU seconds of this process, with all its threads, and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    turn()
    return time.process_time() - cpu, time.perf_counter() - wall


def loops(turns: dict[str, Turn]) -> Costs:
    """What an epoch costs each side; they take turns every few steps, as other work on the machine comes and goes."""
    costs = dict.fromkeys(turns, (0.0, 0.0))
    for _ in range(TURNS):
        for name in _ORDER.sample(list(turns), len(turns)):
            cpu, wall = cost(turns[name])
            costs[name] = costs[name][0] + cpu, costs[name][1] + wall
    return {name: [total] for name, total in costs.items()}


def saves(checkpoints: dict[str, Checkpoint]) -> Costs:
    """What it costs each side to save where nothing was saved before."""
    costs = {}
    for name, checkpoint in checkpoints.items():
        shutil.rmtree(checkpoint.path, ignore_errors=True)
        checkpoint.path.unlink(missing_ok=True)
        os.sync()  # what is still to be written is not the next one's cost
        costs[name] = [cost(checkpoint.save)]
    return costs


def load(checkpoint: Checkpoint) -> tuple[float, float]:
    """What it costs to load what was saved, as a new start of a script does: no step was taken yet."""
    checkpoint.optimizer.state.clear()
    return cost(checkpoint.load)


def main() -> None:
    """Take turns, after a round to warm up; the costs of all processes are added up."""
    kind, rounds, folder, names = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:] or installed()
    if kind not in ("save", "load"):
        torch.set_num_threads(1)  # what is computed is too little for several
    warnings.simplefilter("ignore")
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    sides = {name: SIDES[name][1](world) for name in names}
    if kind in ("save", "load"):
        checkpoints = {name: side.checkpoint(folder) for name, side in sides.items()}
        if kind == "load":
            print(json.dumps({name: [load(checkpoint)] for name, checkpoint in checkpoints.items()}), flush=True)
            os._exit(0)
        take = partial(saves, checkpoints)
    elif kind in ("step", "accumulate"):
        take = partial(loops, {name: getattr(side, kind)() for name, side in sides.items()})
    else:
        rows = torch.randn(BATCH // world, 10)
        take = partial(loops, {name: getattr(side, kind)(rows) for name, side in sides.items()})
    take()
    costs: Costs = {name: [] for name in sides}
    for _ in range(rounds):
        for name, taken in take().items():
            costs[name] += taken
    if world > 1:
        table = torch.tensor([costs[name] for name in sides], dtype=torch.float64)
        dist.all_reduce(table)
        costs = dict(zip(sides, table.tolist(), strict=True))
    if int(os.environ.get("RANK", "0")) == 0:
        print(json.dumps(costs), flush=True)
    if world > 1:
        dist.barrier()
    os._exit(0)  # taking gloo down now and then aborts the process, which is not what is measured


if __name__ == "__main__":
    main()
