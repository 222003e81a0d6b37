"""Two processes that share a GPU, and what one computes on it."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import torch
from accelift import Accelerator, DataLoaderConfiguration, InitProcessGroupKwargs, PartialState
from accelift.utils import gather_object
from gpu_training import DEVICE, dataset, train
from runtime_checks import Checks, close
from torch import nn
from torch.utils.data import DataLoader

check = Checks()
GLOO = InitProcessGroupKwargs(backend="gloo")
SPLIT = DataLoaderConfiguration(split_batches=True)
acc = Accelerator(kwargs_handlers=[GLOO])
RANK, WORLD = acc.process_index, acc.num_processes
FOLDER = Path(sys.argv[1])


def accelerator(**arguments: object) -> Accelerator:
    return Accelerator(dataloader_config=SPLIT, kwargs_handlers=[GLOO], **arguments)  # type: ignore[arg-type]


@check
def the_state() -> None:
    state = PartialState()
    assert (state.num_processes, state.distributed_type, state.device) == (2, "MULTI_GPU", DEVICE)


@check
def training() -> None:
    close(train(random=False), train(random=False, acc=accelerator()))


@check
def an_uneven_last_batch() -> None:
    close(train(samples=37, random=False), train(samples=37, random=False, acc=accelerator()))


@check
def accumulation() -> None:
    close(train(random=False, every=3), train(random=False, every=3, acc=accelerator(gradient_accumulation_steps=3)))


@check
def float16_with_an_overflow() -> None:
    ours = train(random=False, acc=accelerator(mixed_precision="fp16"))
    assert any(torch.equal(a, b) for a, b in pairwise(ours)), "no step was skipped"
    close(train(random=False, dtype=torch.float16), ours, tolerance=2e-3)


@check
def operations() -> None:
    mine = torch.full((2,), float(RANK), device=DEVICE)
    gathered = acc.gather((mine, [mine.half()]))
    assert gathered[0].device == DEVICE and gathered[0].tolist() == [0, 0, 1, 1] == gathered[1][0].tolist()
    assert acc.reduce(mine, "mean").tolist() == [0.5, 0.5]
    padded = acc.pad_across_processes(torch.ones(RANK + 1, device=DEVICE))
    assert padded.device == DEVICE and padded.tolist() == ([1, 1] if RANK else [1, 0])
    assert gather_object([RANK]) == [0, 1]


@check
def evaluation() -> None:
    acc = accelerator()
    model, loader = acc.prepare(nn.Flatten(), DataLoader(dataset(37), batch_size=8))
    rows, labels = zip(*(acc.gather_for_metrics((model(x), y)) for x, y in loader), strict=True)
    assert all(row.device == DEVICE for row in rows)
    assert torch.equal(torch.cat(rows).cpu(), dataset(37).tensors[0].flatten(1))
    assert torch.equal(torch.cat(labels).cpu(), dataset(37).tensors[1])


@check
def checkpoints_of_both() -> None:
    acc = accelerator()
    acc.prepare(nn.Linear(3, 2))
    torch.manual_seed(RANK)
    acc.save_state(str(FOLDER / "both"))
    drawn = torch.rand(3, device=DEVICE)
    acc.load_state(str(FOLDER / "both"))
    assert torch.equal(torch.rand(3, device=DEVICE), drawn)
    assert not torch.equal(*acc.gather(drawn).chunk(2))


FOLDER.mkdir(parents=True, exist_ok=True)
check.main()
