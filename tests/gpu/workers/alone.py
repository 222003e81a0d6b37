"""One process on a GPU computes the bits of plain PyTorch there."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import torch
from accelift import Accelerator, PartialState
from accelift.launch import devices
from accelift.utils import find_executable_batch_size, set_seed
from gpu_training import DEVICE, train
from runtime_checks import Checks, same, snapshot
from torch import nn

check = Checks()
FOLDER = Path(sys.argv[1])


@check
def the_device() -> None:
    state = PartialState()
    assert state.device == DEVICE and state.backend is None
    assert devices.visible_gpus() == torch.cuda.device_count()


@check
def plain() -> None:
    same(train(), train(acc=Accelerator()))


@check
def an_uneven_last_batch() -> None:
    same(train(samples=37), train(samples=37, acc=Accelerator()))


@check
def accumulation() -> None:
    same(train(every=3), train(every=3, acc=Accelerator(gradient_accumulation_steps=3)))


@check
def float16_with_an_overflow() -> None:
    plain = train(dtype=torch.float16)
    assert any(torch.equal(a, b) for a, b in pairwise(plain)), "no step was skipped"
    same(plain, train(acc=Accelerator(mixed_precision="fp16")))


@check
def float16_and_accumulation() -> None:
    acc = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=2)
    same(train(dtype=torch.float16, every=2), train(every=2, acc=acc))


@check
def bfloat16() -> None:
    same(train(dtype=torch.bfloat16), train(acc=Accelerator(mixed_precision="bf16")))


@check
def compiled() -> None:
    same(train(compiled=True, random=False), train(compiled=True, random=False, acc=Accelerator()))


@check
def memory_that_is_short() -> None:
    tried = []

    @find_executable_batch_size(starting_batch_size=64)
    def allocate(batch_size: int) -> int:
        tried.append(batch_size)
        free, _ = torch.cuda.mem_get_info()
        torch.empty(free // 8 * batch_size, dtype=torch.uint8, device=DEVICE)
        return batch_size

    found = allocate()
    assert 1 <= found <= 8 and tried[0] == 64 and tried[-1] == found, tried
    Accelerator().free_memory()
    assert torch.cuda.memory_reserved() < 1 << 30


@check
def checkpoints_have_the_random_numbers_of_the_gpu() -> None:
    acc = Accelerator()
    set_seed(5)
    model = acc.prepare(nn.Linear(4, 4))
    acc.save_state(str(FOLDER / "checkpoint"))
    drawn = torch.rand(5, device=DEVICE), torch.rand(5), snapshot(model)
    with torch.no_grad():
        model.weight.fill_(0)
    acc.load_state(str(FOLDER / "checkpoint"))
    again = torch.rand(5, device=DEVICE), torch.rand(5), snapshot(model)
    for one, other in zip(drawn, again, strict=True):
        assert torch.equal(one, other) and one.device == other.device


@check
def profiles() -> None:
    acc = Accelerator()
    with acc.profile() as profile:
        a = torch.randn(256, 256, device=acc.device)
        (a @ a).sum().item()
    assert any(event.device_time_total > 0 for event in profile.key_averages())


FOLDER.mkdir(parents=True, exist_ok=True)
check.main()
