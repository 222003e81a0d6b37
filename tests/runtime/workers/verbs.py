"""What processes do apart, in turn, and alike."""

from __future__ import annotations

import copy
import io
import json
import logging
import random
import sys
from collections import UserDict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from accelift import PartialState, ProfileKwargs
from accelift.local_sgd import LocalSGD
from accelift.logging import get_logger
from accelift.state import AcceleratorState
from accelift.utils import (
    copy_tensor_to_devices,
    gather_object,
    synchronize_rng_state,
    synchronize_rng_states,
    tqdm,
)
from runtime_checks import Checks, accelerator, close, raises, snapshot
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

check = Checks()
acc = accelerator()
RANK, WORLD = acc.process_index, acc.num_processes


def joined(inputs: Any, apply_padding: bool = False) -> tuple[list[Any], list[int]]:
    """What all processes have in the block together, and how many each."""
    with acc.split_between_processes(inputs, apply_padding=apply_padding) as mine:
        items = [item.item() if hasattr(item, "item") else item for item in mine]
    return gather_object(items), gather_object([len(items)])


@check
def parts_of_sequences_and_tensors() -> None:
    for length in range(3 * WORLD + 2):
        numbers = list(range(length))
        counts = [length // WORLD + (rank < length % WORLD) for rank in range(WORLD)]
        for inputs in (numbers, tuple(numbers), range(length), torch.tensor(numbers), np.array(numbers)):
            assert joined(inputs) == (numbers, counts), inputs
            everything, sizes = joined(inputs, apply_padding=True)
            assert sizes == [-(-length // WORLD)] * WORLD
            # The first processes have theirs unpadded; what was added repeats the last item.
            assert sorted(everything) == sorted(numbers + numbers[-1:] * (sum(sizes) - length))


@check
def parts_of_containers() -> None:
    numbers = list(range(2 * WORLD + 1))
    inputs = UserDict(a=numbers, b={"c": torch.tensor(numbers) * 10, "d": "text", "e": 7})
    before = copy.deepcopy(inputs.data)
    with acc.state.split_between_processes(inputs) as mine:
        assert type(mine) is UserDict and mine["b"]["d"] == "text" and mine["b"]["e"] == 7
        assert mine["b"]["c"].tolist() == [10 * x for x in mine["a"]]
        assert gather_object(mine["a"]) == numbers
    assert inputs["a"] == before["a"] and torch.equal(inputs["b"]["c"], before["b"]["c"]), "the author's was changed"
    with acc.split_between_processes(TensorDataset(torch.arange(2 * WORLD))) as part:
        assert isinstance(part, Subset) and [x.item() for (x,) in part] == [2 * RANK, 2 * RANK + 1]
    with acc.split_between_processes("a prompt") as mine:
        assert mine == "a prompt"
    with raises(ValueError, "of one length"):
        acc.split_between_processes({"a": [1, 2], "b": [1]})


@check
def decorators_by_index() -> None:
    assert acc.on_local_process(lambda: "ran", local_process_index=1)() == ("ran" if RANK == 1 else None)

    @PartialState().on_local_process(local_process_index=0)
    def named() -> str:
        return "ran"

    assert named() == ("ran" if RANK == 0 else None) and named.__name__ == "named"
    with raises(ValueError, "local_process_index="):
        acc.on_local_process(named)


@check
def the_state_of_the_accelerator() -> None:
    other = accelerator(mixed_precision="bf16")
    assert AcceleratorState().mixed_precision == "bf16" and acc.mixed_precision == "no"
    assert AcceleratorState().num_processes == WORLD and other.state.device == acc.device
    AcceleratorState._reset_state()
    with raises(AttributeError, "`AcceleratorState` object has no attribute `device`"):
        other.prepare(nn.Linear(1, 1))
    assert PartialState().num_processes == WORLD, "the processes are still known"
    accelerator()
    assert other.device == acc.device and AcceleratorState().mixed_precision == "no"


@check
def a_tensor_that_one_process_has() -> None:
    for owner in range(WORLD):
        for tensor in (torch.arange(6.0).view(2, 3), torch.tensor(True), torch.empty(0, 4, dtype=torch.int16)):
            found = copy_tensor_to_devices(tensor if owner == RANK else None)
            assert found.dtype == tensor.dtype and torch.equal(found, tensor)
    with raises(ValueError, "exactly one process; it is on none"):
        copy_tensor_to_devices()


@check
def generators_in_step() -> None:
    torch.manual_seed(RANK)
    random.seed(RANK)
    generator = torch.Generator().manual_seed(10 + RANK)
    synchronize_rng_states(["torch", "generator"], generator)
    assert torch.rand(1).item() == torch.rand(1, generator=torch.Generator().manual_seed(0)).item()
    assert (
        torch.rand(1, generator=generator).item() == torch.rand(1, generator=torch.Generator().manual_seed(10)).item()
    )
    assert random.random() == random.Random(RANK).random(), "only what was asked for"
    with raises(ValueError, "needs one"):
        synchronize_rng_state("generator")
    with raises(ValueError, "no such device here"):
        synchronize_rng_state("cuda")


def local_sgd_by_hand(model: nn.Module, data: list[tuple[Tensor, Tensor]], every: int, rank: int) -> list[Tensor]:
    """The history of the parameters of one process, computed for all of them without communication."""
    models = [copy.deepcopy(model) for _ in range(WORLD)]
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in models]
    history = []
    for step, (x, y) in enumerate(data, start=1):
        for index, (one, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            optimizer.zero_grad()
            F.mse_loss(one(x + index), y).backward()
            optimizer.step()
        if step % every == 0 or step == len(data):
            with torch.no_grad():
                for parameters in zip(*(one.parameters() for one in models), strict=True):
                    mean = torch.stack(list(parameters)).mean(0)
                    for parameter in parameters:
                        parameter.copy_(mean)
        history.append(snapshot(models[rank]))
    return history


def train_locally(model: nn.Module, data: list[tuple[Tensor, Tensor]], every: int, enabled: bool) -> list[Tensor]:
    author = copy.deepcopy(model)
    optimizer = torch.optim.SGD(author.parameters(), lr=0.1)
    prepared, optimizer = acc.prepare(author, optimizer)
    history = []
    with LocalSGD(acc, prepared, local_sgd_steps=every, enabled=enabled) as local_sgd:
        for x, y in data:
            optimizer.zero_grad()
            acc.backward(F.mse_loss(prepared(x + RANK), y))
            optimizer.step()
            local_sgd.step()
            history.append(snapshot(author))
    history[-1] = snapshot(author)  # the end of the block averages too
    return history


@check
def local_sgd_averages_models() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    data = [(torch.randn(5, 3), torch.randn(5, 1)) for _ in range(7)]
    for every in (1, 2, 3, 7, 9):
        ours = train_locally(model, data, every, enabled=True)
        close(ours, local_sgd_by_hand(model, data, every, RANK), 1e-7)
        for step, parameters in enumerate(ours, start=1):
            everyones = acc.gather(parameters).view(WORLD, -1)
            averaged = step % every == 0 or step == len(data)
            assert bool((everyones == everyones[0]).all()) == averaged, (every, step)
    together = train_locally(model, data, 3, enabled=False)
    assert all((acc.gather(one).view(WORLD, -1) == one).all() for one in together), "gradients were not averaged"


@check
def local_sgd_in_half_precision_is_exact() -> None:
    prepared = acc.prepare(nn.Linear(4, 1, bias=False).to(torch.bfloat16))
    mine = torch.tensor([[1.0, 256.0, 3.0, 2.0]]) + RANK  # 257 and sums beyond 256 are no bfloat16
    with LocalSGD(acc, prepared, 1) as local_sgd:
        with torch.no_grad():
            prepared.weight.copy_(mine)
        held = [torch.tensor([[1.0, 256.0, 3.0, 2.0]]).add(rank).to(torch.bfloat16).double() for rank in range(WORLD)]
        local_sgd.step()
    assert torch.equal(prepared.weight.detach(), torch.stack(held).mean(0).to(torch.bfloat16))


@check
def logging_in_turn() -> None:
    path = Path(sys.argv[1]).with_name("log.txt")  # the same file for all
    logger = get_logger("in turn", log_level="INFO")
    logger.logger.addHandler(logging.FileHandler(path))

    def written() -> list[str]:
        """What all processes logged since the last call."""
        acc.wait_for_everyone()
        lines = path.read_text().splitlines()
        acc.wait_for_everyone()
        if RANK == 0:
            path.write_text("")
        acc.wait_for_everyone()
        return lines

    logger.info("once")
    logger.info("%s of %s", RANK, WORLD, in_order=True)
    logger.debug("not at this level", in_order=True)
    logger.warning_once("a warning")
    logger.warning_once("a warning")
    assert written() == ["once", *(f"[RANK {rank}] {rank} of {WORLD}" for rank in range(WORLD)), "a warning"]
    logger.info("everywhere", main_process_only=False)
    assert sorted(written()) == [f"[RANK {rank}] everywhere" for rank in range(WORLD)]
    # A level that differs does not make anybody wait.
    logger.logger.setLevel("INFO" if RANK == 0 else "ERROR")
    logger.info("the main process alone", in_order=True)
    assert written() == ["[RANK 0] the main process alone"]


@check
def a_trace_for_each_process() -> None:
    folder = Path(sys.argv[1]).with_name("traces")
    with acc.profile(ProfileKwargs(activities=["cpu"], output_trace_dir=str(folder))) as profiler:
        torch.ones(3) + RANK
    assert any(event.key == "aten::add" for event in profiler.key_averages())
    traces = {path.name for path in folder.iterdir()}
    assert traces == {f"profile_{rank}.json" for rank in range(WORLD)}
    assert json.loads((folder / f"profile_{RANK}.json").read_text())["traceEvents"]


@check
def one_progress_bar() -> None:
    for main_only in (True, False):
        text = io.StringIO()
        assert list(tqdm(range(3), file=text, main_process_only=main_only)) == [0, 1, 2]
        assert bool(text.getvalue()) == (RANK == 0 or not main_only)


if __name__ == "__main__":
    check.main()
