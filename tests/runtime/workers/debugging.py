"""What debug mode compares, and what prepare notices."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelift import Accelerator, DistributedDataParallelKwargs, PartialState, utils
from accelift.collective import DistributedOperationException
from runtime_checks import Checks, accelerator, raises, warned
from torch import Tensor, nn
from torch.utils.data import DataLoader

check = Checks()
acc = accelerator()
RANK, WORLD = acc.process_index, acc.num_processes


@contextmanager
def debug() -> Iterator[None]:
    state = PartialState()
    state.debug = True
    try:
        yield
    finally:
        state.debug = False


def here(lines: int) -> str:
    """A line of this file, so many below the one that asks."""
    return f"debugging.py:{sys._getframe(1).f_lineno + lines}"


# Debug mode


@check
def different_operations() -> None:
    pairs: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
        (lambda: acc.gather(torch.ones(2)), acc.wait_for_everyone),
        (acc.check_trigger, lambda: acc.gather_for_metrics([RANK])),
        (lambda: utils.gather_object([RANK]), lambda: acc.broadcast(torch.ones(2))),
        (lambda: acc.reduce(torch.ones(2), "mean"), lambda: acc.reduce(torch.ones(2), "max")),
        (lambda: utils.broadcast_object_list([1]), lambda: utils.broadcast_object_list([1, 2])),
        (lambda: acc.pad_across_processes(torch.ones(2)), lambda: acc.main_process_first().__enter__()),
    ]
    with debug():
        for ours, theirs in pairs:
            with raises(DistributedOperationException, "the processes do not agree: rank 0: "):
                (ours if RANK == 0 else theirs)()
        assert acc.gather(torch.tensor([RANK])).tolist() == list(range(WORLD)), "they are out of step"


@check
def what_is_said_of_them() -> None:
    with debug():
        place = here(2)
        with raises(DistributedOperationException, f"rank 1: wait_for_everyone at tests/runtime/workers/{place}"):
            acc.gather((torch.ones(3, 4), [RANK])) if RANK != 1 else acc.wait_for_everyone()
        others = "rank 0: " if WORLD == 2 else "ranks 0, 2: "
        with raises(DistributedOperationException, f"{others}gather of [float32 (3, 4), {{'x': int64 ()}}] at "):
            acc.gather((torch.ones(3, 4), {"x": torch.tensor(1) if RANK != 1 else torch.tensor(1.0)}))


@check
def different_lines_are_no_error() -> None:
    with debug():
        if RANK == 0:
            found = acc.gather(torch.tensor([RANK]))
        else:
            found = acc.gather(torch.tensor([RANK]))
        assert found.tolist() == list(range(WORLD))


@check
def backward_and_forward() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    one = accelerator(gradient_accumulation_steps=2)
    model, optimizer = one.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with debug():
        for _ in range(4):
            with one.accumulate(model):
                one.backward(model(torch.randn(4, 2)).sum())
                optimizer.step()
                optimizer.zero_grad()
        with raises(DistributedOperationException, "rank 0: the forward of Sequential at "):
            model(torch.randn(4, 2)) if RANK == 0 else acc.wait_for_everyone()
        loss = model(torch.randn(4, 2)).sum()
        one.gradient_state.sync_gradients = True
        with raises(DistributedOperationException, "rank 0: backward at "):
            one.backward(loss) if RANK == 0 else acc.wait_for_everyone()
        acc.wait_for_everyone()


@check
def uneven_batches_agree() -> None:
    one = accelerator(split_batches=True)
    loader = one.prepare(DataLoader(torch.arange(11.0), batch_size=4, shuffle=True))  # type: ignore[arg-type]
    with debug():
        seen = torch.cat([one.gather_for_metrics(batch) for batch in loader])
        assert sorted(seen.tolist()) == list(range(11))
        padded = acc.pad_across_processes(torch.ones(2, RANK + 1), dim=1)
        assert padded.shape == (2, WORLD)
        assert utils.gather_object([RANK] * RANK) == [rank for rank in range(WORLD) for _ in range(rank)]


@check
def one_that_does_not_come() -> None:
    from accelift.diagnosis import agreement

    known = agreement.of(PartialState())
    before, known._patience = known._patience, 1.0
    try:
        with debug():
            if RANK == 0:
                with raises(DistributedOperationException, "rank 1 has not come to gather at "):
                    acc.gather(torch.ones(2))
            else:
                known._count += 1
        if RANK == 0:  # in debug mode or not
            with raises(DistributedOperationException, "rank 1 has not come to the prepare of Linear at "):
                acc.prepare(nn.Linear(2, 2))
        else:
            known._count += 1
    finally:
        known._patience = before
    acc.wait_for_everyone()


@check
def debug_is_an_argument() -> None:
    assert PartialState().debug is False
    Accelerator(debug=True)
    assert PartialState().debug is True
    Accelerator()
    assert PartialState().debug is True
    Accelerator(debug=False)
    assert PartialState().debug is False


# What prepare notices


@check
def models_that_are_not_alike() -> None:
    last = WORLD - 1
    size = 3 if last == RANK else 2
    with raises(ValueError, f"rank {last}: '1.weight', float32 (3, 2); make them alike"):
        acc.prepare(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, size)))
    more = [nn.Linear(2, 2)] if last == RANK else []
    with raises(ValueError, f"rank {last}: '1.weight', float32 (2, 2)"):
        acc.prepare(nn.Sequential(nn.Linear(2, 2), *more))
    frozen = nn.Linear(2, 2)
    frozen.bias.requires_grad_(last != RANK)
    with raises(ValueError, f"rank {last}: 'bias', float32 (2,), frozen"):
        acc.prepare(frozen)
    with raises(ValueError, f"rank {last}: a Conv1d;"):
        acc.prepare(nn.Conv1d(2, 2, 1) if last == RANK else nn.Linear(2, 2))
    acc.prepare(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))


@check
def loose_parameters_that_are_not_alike() -> None:
    loose = nn.Parameter(torch.ones(2 + (RANK == 1)))
    with raises(ValueError, "rank 1: 'parameter 0', float32 (3,)"):
        acc.prepare(torch.optim.SGD([loose], lr=0.1))


@check
def unused_parameters() -> None:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)  # type: ignore[no-any-return]

    x = torch.ones(3, 2)
    model = accelerator().prepare(Part())
    with raises(RuntimeError, "idle.weight, idle.bias of Part got no gradient"):
        for _ in range(2):
            model(x).sum().backward()
    one = accelerator()
    model = one.prepare(Part())
    for _ in range(3):
        one.backward(model(x).sum())
    one = accelerator(kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)])
    model = one.prepare(Part())
    for _ in range(3):
        model(x).sum().backward()


@check
def schedules_over_epochs() -> None:
    def epochs(one: Accelerator, inside: bool, said: int) -> None:
        optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
        loader = DataLoader(torch.arange(8.0), batch_size=1)  # type: ignore[arg-type]
        loader, optimizer, schedule = one.prepare(loader, optimizer, schedule)
        with warned("StepLR.step() was called outside of the loops", said if RANK == 0 else 0):
            for _ in range(3):
                for _ in loader:
                    optimizer.step()
                    if inside:
                        schedule.step()
                if not inside:
                    schedule.step()
        assert not any(key.startswith("_accelift") for key in schedule.state_dict())

    epochs(accelerator(), inside=False, said=1)
    epochs(accelerator(), inside=True, said=0)
    epochs(accelerator(split_batches=False, step_scheduler_with_optimizer=False), inside=False, said=0)
    epochs(accelerator(), inside=True, said=0)


@check
def ordinary_preparation_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = accelerator()
        model = nn.Linear(2, 2)
        one.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
        body = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        body[0].requires_grad_(False)
        one.prepare(body, torch.optim.SGD([*body.parameters(), nn.Parameter(torch.ones(1))], lr=0.1))
        one.prepare(torch.optim.SGD(nn.Linear(3, 3).parameters(), lr=0.1))


if __name__ == "__main__":
    check.main()
