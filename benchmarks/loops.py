"""Training by hand and with `accelift`, in turns in one run; prints the CPU seconds of each turn as JSON.

Started by :mod:`benchmarks.runtime` as the script of one or several processes: `loops.py step|gather TURNS`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from accelift import Accelerator, DataLoaderConfiguration
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Optimizer
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

Turn = Callable[[], None]
BATCH, BATCHES, CALLS = 32, 256, 200


def make() -> tuple[nn.Module, Optimizer, TensorDataset]:
    """A small model, its optimizer, and data."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    data = TensorDataset(torch.randn(BATCH * BATCHES, 32), torch.randint(10, (BATCH * BATCHES,)))
    return model, SGD(model.parameters(), lr=0.01, momentum=0.9), data


def steps(accelerator: Accelerator) -> tuple[Turn, Turn]:
    """An epoch as `accelift convert` writes it, and as one writes it by hand."""
    device, world = accelerator.device, accelerator.num_processes
    model, optimizer, data = make()
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, BATCH, shuffle=True))

    def ours() -> None:
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()

    own_model, own_optimizer, own_data = make()
    own_model.to(device)
    own_loader = DataLoader(own_data, BATCH, shuffle=True)
    if world > 1:
        own_model = DistributedDataParallel(own_model)
        own_loader = DataLoader(own_data, BATCH // world, sampler=DistributedSampler(own_data))

    def theirs() -> None:
        for x, y in own_loader:
            x, y = x.to(device), y.to(device)
            own_optimizer.zero_grad()
            loss = nn.functional.cross_entropy(own_model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            own_optimizer.step()

    return ours, theirs


def gathers(accelerator: Accelerator) -> tuple[Turn, Turn]:
    """Gathering the predictions for a batch, amid an epoch."""
    batches = iter(accelerator.prepare(DataLoader(make()[2], BATCH)))
    predictions = torch.randn(len(next(batches)[0]), 10)

    def ours() -> None:
        assert batches is not None  # still under way
        for _ in range(CALLS):
            accelerator.gather_for_metrics(predictions)

    def theirs() -> None:
        for _ in range(CALLS):
            parts = [torch.empty_like(predictions) for _ in range(accelerator.num_processes)]
            dist.all_gather(parts, predictions)
            torch.cat(parts)

    return ours, theirs


def cost(turn: Turn) -> float:
    """CPU seconds of this process, with all its threads."""
    start = time.process_time()
    turn()
    return time.process_time() - start


def main() -> None:
    """Take turns, after one to warm up; the costs of all processes are added up."""
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
    sides = {"step": steps, "gather": gathers}[sys.argv[1]](accelerator)
    costs = [[cost(turn) for turn in sides] for _ in range(int(sys.argv[2]) + 1)][1:]
    total = accelerator.reduce(torch.tensor(costs, dtype=torch.float64), "sum")
    if accelerator.is_main_process:
        print(json.dumps(total.tolist()), flush=True)
    accelerator.wait_for_everyone()
    os._exit(0)  # taking gloo down now and then aborts the process, which is not what is measured


if __name__ == "__main__":
    main()
