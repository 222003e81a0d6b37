"""NCCL's operations and DDP on a GPU, for a job of which there is one process.

The state of one process has no backend; this one is told that it has others to talk to.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from accelift import Accelerator, PartialState, world
from accelift.diagnosis import watchdog
from accelift.utils import broadcast_object_list, gather_object, synchronize_rng_state
from gpu_training import DEVICE, train
from runtime_checks import Checks, same, warned
from torch import nn
from torch.nn.parallel import DistributedDataParallel

check = Checks()
FOLDER = Path(sys.argv[1])
torch.cuda.set_device(DEVICE)
dist.init_process_group("nccl")
PartialState._shared.update(world.describe(DEVICE, "nccl", 1, 0, 0) | {"_init_process_group": {}})
watchdog.watch(PartialState())


@check
def the_state() -> None:
    state = PartialState()
    assert state.use_distributed and state.distributed_type == "MULTI_GPU" and state.collective_device == DEVICE


@check
def operations() -> None:
    acc = Accelerator()
    for dtype in (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float64):
        for device in (DEVICE, torch.device("cpu")):
            mine = torch.ones(2, 3, dtype=dtype, device=device)
            gathered = acc.gather({"a": [mine]})["a"][0]
            assert torch.equal(gathered.cpu(), mine.cpu()) and gathered.dtype == dtype
    assert acc.reduce(torch.tensor(3.0, device=DEVICE), "mean").item() == 3
    assert acc.gather(torch.tensor(3.0, device=DEVICE)).shape == (1,)
    assert acc.pad_across_processes(torch.ones(2, device=DEVICE)).shape == (2,)
    assert gather_object([{"a": 1}]) == [{"a": 1}]
    objects = ["text", 7]
    assert broadcast_object_list(objects) == ["text", 7]
    synchronize_rng_state("cuda")
    synchronize_rng_state("torch")
    acc.set_trigger()
    assert acc.check_trigger() and not acc.check_trigger()


@check
def no_warning_of_a_barrier() -> None:
    acc = Accelerator()
    with warned("device", times=0):
        acc.wait_for_everyone()
        with acc.main_process_first():
            pass


@check
def training() -> None:
    same(train(), train(acc=Accelerator()))


@check
def training_in_float16() -> None:
    same(train(dtype=torch.float16), train(acc=Accelerator(mixed_precision="fp16")))


@check
def training_in_bfloat16() -> None:
    same(train(dtype=torch.bfloat16), train(acc=Accelerator(mixed_precision="bf16")))


@check
def accumulation() -> None:
    same(train(every=3), train(every=3, acc=Accelerator(gradient_accumulation_steps=3)))


@check
def evaluation() -> None:
    acc = Accelerator()
    model, loader = acc.prepare(
        nn.Linear(3, 2), torch.utils.data.DataLoader(torch.arange(66.0).reshape(22, 3), batch_size=4)
    )
    assert isinstance(model, DistributedDataParallel)
    rows = [acc.gather_for_metrics(batch) for batch in loader]
    assert torch.equal(torch.cat(rows).cpu(), torch.arange(66.0).reshape(22, 3))


@check
def checkpoints() -> None:
    acc = Accelerator()
    model = acc.prepare(nn.Linear(3, 2))
    acc.save_state(str(FOLDER / "checkpoint"))
    before = model.module.weight.detach().clone()
    with torch.no_grad():
        model.module.weight.fill_(0)
    acc.load_state(str(FOLDER / "checkpoint"))
    assert torch.equal(model.module.weight, before)
    acc.save(acc.get_state_dict(model), str(FOLDER / "model.pt"))
    assert set(torch.load(FOLDER / "model.pt", weights_only=True)) == {"weight", "bias"}


FOLDER.mkdir(parents=True, exist_ok=True)
check.main()
