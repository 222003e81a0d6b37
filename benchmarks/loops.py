"""The same work by hand and with each installed library, in turns in one run; prints the cost of each turn as JSON.

Started by :mod:`benchmarks.runtime` as the script of one or several processes: `loops.py KIND TURNS FOLDER`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from benchmarks.sides import BATCH, Checkpoint, Fabric, Managed, Raw, Side, Turn

Costs = dict[str, list[list[float]]]  # of each side, for each turn: CPU and wall time in seconds


def sides(world: int) -> dict[str, Side]:
    """Plain torch, this project, and the peers that are installed."""
    found: dict[str, Side] = {"raw": Raw(world), "accelift": Managed("accelift")}
    if importlib.util.find_spec("accelerate") is not None:
        found["accelerate"] = Managed("accelerate")
    if importlib.util.find_spec("lightning") is not None:
        found["fabric"] = Fabric(world)
    return found


def cost(turn: Turn) -> list[float]:
    """CPU seconds of this process, with all its threads, and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    turn()
    return [time.process_time() - cpu, time.perf_counter() - wall]


def take_turns(turns: dict[str, Turn], rounds: int) -> Costs:
    """The costs of each side after a round to warm up; another one begins each round."""
    costs: Costs = {name: [] for name in turns}
    names = list(turns)
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            costs[name].append(cost(turns[name]))
    return {name: taken[1:] for name, taken in costs.items()}


def save(checkpoint: Checkpoint) -> Turn:
    """Saving where nothing was saved before."""

    def turn() -> None:
        checkpoint.save()

    return turn


def main() -> None:
    """Take turns; the CPU times of all processes are added up."""
    kind, rounds, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    found = sides(world)
    if kind in ("save", "load"):
        costs = checkpoints(kind, {name: side.checkpoint(folder) for name, side in found.items()}, rounds)
    elif kind in ("step", "accumulate"):
        costs = take_turns({name: getattr(side, kind)() for name, side in found.items()}, rounds)
    else:
        rows = torch.randn(BATCH // world, 10)
        costs = take_turns({name: getattr(side, kind)(rows) for name, side in found.items()}, rounds)
    if world > 1:
        table = torch.tensor(list(costs.values()), dtype=torch.float64)
        dist.all_reduce(table)
        costs = dict(zip(costs, table.tolist(), strict=True))
    if int(os.environ.get("RANK", "0")) == 0:
        print(json.dumps(costs), flush=True)
    if world > 1:
        dist.barrier()
    os._exit(0)  # taking gloo down now and then aborts the process, which is not what is measured


def checkpoints(kind: str, found: dict[str, Checkpoint], rounds: int) -> Costs:
    """The costs of saving where nothing was saved before, or of loading."""
    costs: Costs = {name: [] for name in found}
    for checkpoint in found.values():
        checkpoint.save()
    for _ in range(rounds):
        for name, checkpoint in found.items():
            if kind == "save":
                shutil.rmtree(checkpoint.path, ignore_errors=True)
                checkpoint.path.unlink(missing_ok=True)
                os.sync()  # what others have still to write is not the next one's cost
            costs[name].append(cost(getattr(checkpoint, kind)))
    return costs


if __name__ == "__main__":
    main()
