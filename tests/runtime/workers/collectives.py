"""Operations between processes."""

from __future__ import annotations

import io
import sys
import time
from collections import OrderedDict, defaultdict, namedtuple
from pathlib import Path
from typing import Any

import accelift
import torch
import torch.distributed as dist
from accelift import PartialState, utils
from accelift.dataclasses import DistributedType, InitProcessGroupKwargs
from accelift.operations import DistributedOperationException
from runtime_checks import Checks, accelerator, raises

check = Checks()
acc = accelerator()
RANK, WORLD = acc.process_index, acc.num_processes
TYPES = (
    torch.bool,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
)


@check
def what_the_state_knows() -> None:
    state = PartialState()
    assert state.num_processes == dist.get_world_size() == WORLD > 1
    assert state.process_index == state.local_process_index == dist.get_rank() == RANK
    assert state.distributed_type == DistributedType.MULTI_CPU == "MULTI_CPU"
    assert state.backend == "gloo" and state.device == torch.device("cpu")
    assert state.use_distributed and state.is_last_process == (RANK == WORLD - 1)
    assert state.is_main_process == state.is_local_main_process == (RANK == 0)
    assert vars(PartialState(cpu=True)) is vars(state)
    with raises(ValueError, "come too late"):
        accelift.Accelerator(kwargs_handlers=[InitProcessGroupKwargs(backend="mpi")])


@check
def gather_of_all_types() -> None:
    for dtype in TYPES:
        mine = torch.full((2, 3), RANK, dtype=dtype)
        expected = torch.cat([torch.full((2, 3), rank, dtype=dtype) for rank in range(WORLD)])
        gathered = acc.gather(mine)
        assert gathered.dtype == dtype and torch.equal(gathered, expected), dtype


Pair = namedtuple("Pair", ["a", "b"])


@check
def gather_walks_containers() -> None:
    mine = torch.tensor([RANK])
    everyone = torch.arange(WORLD)
    found = acc.gather(Pair([mine, (mine,)], OrderedDict(x=mine)))
    assert isinstance(found, Pair) and isinstance(found.b, OrderedDict)
    assert isinstance(found.a, list) and isinstance(found.a[1], tuple)
    for tensor in (found.a[0], found.a[1][0], found.b["x"]):
        assert torch.equal(tensor, everyone)
    factory = defaultdict(list, x=mine)
    assert acc.gather(factory)["nothing"] == [] and factory["x"] is mine
    with raises(TypeError, "gather works on tensors"):
        acc.gather({"x": "text"})


@check
def gather_of_odd_tensors() -> None:
    assert acc.gather(torch.tensor(RANK)).tolist() == list(range(WORLD))
    transposed = torch.arange(6).view(2, 3).t()
    assert torch.equal(acc.gather(transposed), torch.cat([transposed] * WORLD))
    learned = torch.ones(1, requires_grad=True)
    assert not acc.gather(learned).requires_grad
    assert acc.gather(torch.empty(0, 4, dtype=torch.bool)).shape == (0, 4)


@check
def reductions() -> None:
    total = sum(range(WORLD))
    for dtype in TYPES[1:]:
        mine = torch.full((2,), RANK, dtype=dtype)
        reduced = acc.reduce(mine)
        assert reduced.dtype == dtype and reduced.tolist() == [total] * 2
        assert mine.tolist() == [RANK] * 2, "the input was changed"
        if dtype is not torch.complex64:
            assert acc.reduce(mine, "max").tolist() == [WORLD - 1] * 2
            assert acc.reduce(mine, "min").tolist() == [0] * 2
        assert acc.reduce(mine, "none").tolist() == [RANK] * 2
    assert acc.reduce(torch.tensor(RANK == 0)).item() is True
    assert acc.reduce(torch.tensor(RANK == 0), "min").item() is False
    assert acc.reduce(torch.tensor(float(RANK)), "mean").item() == total / WORLD
    assert utils.reduce(torch.tensor(float(RANK))).item() == total / WORLD
    assert acc.reduce({"x": torch.tensor(1.0)}, scale=0.5)["x"].item() == WORLD / 2
    with raises(ValueError, "sum, mean, max, min, none"):
        acc.reduce(torch.ones(1), "product")
    with raises(ValueError, "mean of torch.int64"):
        acc.reduce(torch.ones(1, dtype=torch.int64), "mean")


@check
def broadcasts() -> None:
    for dtype in TYPES:
        mine = torch.full((3, 2), RANK, dtype=dtype).t()
        found = acc.broadcast([mine], from_process=WORLD - 1)[0]
        assert torch.equal(found, torch.full((2, 3), WORLD - 1, dtype=dtype))
        assert torch.equal(mine, torch.full((2, 3), RANK, dtype=dtype)), "the input was changed"
    assert acc.broadcast(torch.tensor(RANK)).shape == ()
    assert utils.broadcast_object_list([RANK, "x"]) == [0, "x"]
    with raises(ValueError, "from_process=9"):
        acc.broadcast(torch.ones(1), from_process=9)


@check
def padding() -> None:
    mine = torch.full((2, RANK + 1), RANK + 1)
    padded = acc.pad_across_processes(mine, dim=1, pad_index=-1)
    assert padded.tolist() == [[RANK + 1] * (RANK + 1) + [-1] * (WORLD - RANK - 1)] * 2
    first = acc.pad_across_processes(mine, dim=-1, pad_first=True)
    assert first.tolist() == [[0] * (WORLD - RANK - 1) + [RANK + 1] * (RANK + 1)] * 2
    scalar = torch.tensor(1.0)
    assert acc.pad_across_processes(scalar) is scalar


@check
def objects() -> None:
    assert utils.gather_object([RANK, f"x{RANK}"]) == [item for rank in range(WORLD) for item in (rank, f"x{rank}")]
    assert utils.gather_object((RANK,)) == tuple(range(WORLD))
    with raises(TypeError, "put the dict in a list"):
        utils.gather_object({})


@check
def triggers() -> None:
    assert acc.check_trigger() is False
    if RANK == WORLD - 1:
        acc.set_trigger()
    assert acc.check_trigger() is True
    assert acc.check_trigger() is False


@check
def main_process_goes_first() -> None:
    for context in (acc.main_process_first, acc.local_main_process_first):
        with context():
            if RANK == 0:
                time.sleep(0.3)
            now = time.monotonic()
        times = acc.gather(torch.tensor([now], dtype=torch.float64))
        assert times[0] < times[1:].min()


@check
def main_process_fails_first() -> None:
    entered = False
    try:
        with acc.main_process_first():
            entered = True
            if RANK == 0:
                raise KeyError("no data")
    except KeyError:
        assert RANK == 0
    except RuntimeError as error:
        assert RANK > 0 and not entered and "went first failed" in str(error)
    else:
        raise AssertionError("nothing was raised")


@check
def decorators_and_print() -> None:
    assert acc.on_main_process(lambda: "ran")() == ("ran" if RANK == 0 else None)
    assert acc.on_local_main_process(lambda: "ran")() == ("ran" if RANK == 0 else None)
    assert acc.on_last_process(lambda: "ran")() == ("ran" if RANK == WORLD - 1 else None)

    @acc.on_process(process_index=1)
    def named(x: int) -> int:
        return x

    assert named(3) == (3 if RANK == 1 else None) and named.__name__ == "named"
    with raises(ValueError, "process_index="):
        acc.on_process(lambda: None)
    text = io.StringIO()
    acc.print("hello", file=text)
    assert text.getvalue() == ("hello\n" if RANK == 0 else "")


@check
def debug_mode_compares_shapes() -> None:
    state = PartialState()
    state.debug = True
    try:
        mine: Any = {"x": torch.ones(1, 2 + RANK)}
        for operation in (acc.gather, acc.reduce, acc.broadcast):
            with raises(DistributedOperationException, "of {'x': float32 (1, 3)}"):
                operation(mine)
        deeper = torch.ones((1,) * (RANK + 1))
        with raises(DistributedOperationException, "pad_across_processes of float32 (*, 1) at "):
            acc.pad_across_processes(deeper)
        assert acc.gather(torch.ones(1)).shape == (WORLD,)
    finally:
        state.debug = False


@check
def saving_happens_once() -> None:
    path = Path(f"{sys.argv[1]}.saved-by-{RANK}.pt")
    acc.save({"x": torch.ones(1)}, path)
    assert path.exists() == (RANK == 0)


if __name__ == "__main__":
    check.main()
