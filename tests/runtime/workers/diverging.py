"""Parameters that become different on the processes, and the causes that are named; and what only looks like it."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelift import Accelerator
from accelift.diagnosis.divergence import DivergenceError, checksum
from runtime_checks import Checks, accelerator, raises
from torch import Tensor, nn
from torch.nn import functional as F

check = Checks()
acc = accelerator()
RANK, WORLD = acc.process_index, acc.num_processes
STEPS = 3


class Net(nn.Module):
    def __init__(self, normalized: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.norm = nn.BatchNorm1d(5) if normalized else nn.Identity()
        self.last = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(torch.relu(self.first(x))))  # type: ignore[no-any-return]


def batch() -> Tensor:
    """Not the same on any two processes."""
    return torch.randn(6, 4) * (RANK + 1)


def training(every: int = 1, **arguments: Any) -> tuple[Accelerator, Any, Any]:
    """An Accelerator that checks, with a prepared model and optimizer."""
    one = accelerator(check_divergence=every, **arguments)
    model = Net()
    return one, *one.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


def steps(one: Accelerator, optimizer: Any, loss: Callable[[], Tensor], count: int = STEPS) -> None:
    for _ in range(count):
        optimizer.zero_grad()
        one.backward(loss())
        optimizer.step()


@contextmanager
def diverging(*parts: str) -> Iterator[None]:
    """Assert that divergence is noticed, and what is said of it."""
    try:
        yield
    except DivergenceError as error:
        for part in parts:
            assert part in str(error), f"{part!r} is not in {error}"
        assert "\n" not in str(error) and str(error).endswith(".")
    else:
        raise AssertionError("nothing was noticed")


# What diverges


@check
def other_values_at_the_start() -> None:
    one, model, optimizer = training()
    if RANK == 1:
        nn.init.zeros_(model.module.last.weight)
    with diverging("before the first optimizer step", "'last.weight' of Net", "ranks 0 and 1", "before prepare"):
        steps(one, optimizer, lambda: model(batch()).sum())


@check
def other_learning_rates() -> None:
    one, model, optimizer = training()
    optimizer.param_groups[0]["lr"] = 0.1 / (RANK + 1)
    with diverging("after 1 optimizer steps", "'first.weight' of Net", "the lr of SGD is 0.1 on rank 0 and 0.05 on"):
        steps(one, optimizer, lambda: model(batch()).sum())


@check
def other_optimizer_states() -> None:
    one, model, optimizer = training(every=2)
    steps(one, optimizer, lambda: model(batch()).sum(), 2)
    if RANK == 1:
        for state in optimizer.state.values():
            state["momentum_buffer"].zero_()
    with diverging("after 4 optimizer steps", "the state that SGD keeps for it"):
        steps(one, optimizer, lambda: model(batch()).sum(), 2)


@check
def values_that_the_script_changes() -> None:
    one, model, optimizer = training(every=3)
    steps(one, optimizer, lambda: model(batch()).sum(), 2)
    with torch.no_grad():
        model.module.first.bias.add_(torch.tensor(1e-6) * RANK)
    with diverging("after 3 optimizer steps", "'first.bias' of Net", "the script itself"):
        steps(one, optimizer, lambda: model(batch()).sum(), 1)


@check
def gradients_without_a_backward() -> None:
    one, model, optimizer = training()
    with diverging("torch.autograd.grad"):
        parameters = list(model.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(model(batch()).sum(), parameters), strict=True):
            parameter.grad = gradient
        optimizer.step()
    del one


@check
def losses_of_the_unwrapped_model() -> None:
    one, model, optimizer = training()
    with diverging("of the unwrapped one", "accelerator.backward(loss)"):
        one.unwrap_model(model)(batch()).sum().backward()
        optimizer.step()


@check
def a_second_backward() -> None:
    one, model, optimizer = training()
    with diverging("a second backward"):
        output = model(batch())
        output.sum().backward(retain_graph=True)
        output.square().sum().backward()
        optimizer.step()
    del one


class Center(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.center = nn.Parameter(torch.zeros(2))

    def forward(self, output: Tensor) -> Tensor:
        return (output - self.center).square().mean()


@check
def a_loss_with_parameters_that_is_not_prepared() -> None:
    one = accelerator(check_divergence=1)
    center, model = Center(), one.prepare(Net())
    optimizer = torch.optim.Adam([*model.parameters(), *center.parameters()])
    with diverging("'center' of Center", "Adam was not prepared, and the parameter is in no prepared model"):
        steps(one, optimizer, lambda: center(model(batch())))


@check
def a_parameter_of_no_prepared_model() -> None:
    one = accelerator(check_divergence=1)
    center = Center()
    optimizer = one.prepare(torch.optim.SGD(center.parameters(), lr=0.1))
    with diverging("'center' of Center", "in no prepared model", "loss.backward() does not average"):
        for _ in range(STEPS):
            optimizer.zero_grad()
            center(batch()[:, :2]).backward()
            optimizer.step()


@check
def layers_unfrozen_later() -> None:
    one = accelerator(check_divergence=1)
    model = Net()
    model.first.requires_grad_(False)
    model, optimizer = one.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    steps(one, optimizer, lambda: model(batch()).sum())
    model.module.first.requires_grad_(True)
    steps(one, optimizer, lambda: model(batch()).sum())  # which accelerator.backward averages
    with diverging("'first.weight' of Net", "it was frozen when its model was prepared"):
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(batch()).sum().backward()
            optimizer.step()


@check
def an_optimizer_that_is_not_prepared() -> None:
    one = accelerator(check_divergence=1, gradient_accumulation_steps=2)
    model = one.prepare(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with diverging("SGD was not prepared, so"):
        for _ in range(STEPS):
            with one.accumulate(model):
                one.backward(model(batch()).sum())
                optimizer.step()


@check
def steps_under_no_sync() -> None:
    one, model, optimizer = training()
    with diverging("a backward that averages nothing, under no_sync"), one.no_sync(model):
        one.backward(model(batch()).sum())
        optimizer.step()


@check
def gradients_changed_after_the_average() -> None:
    one, model, optimizer = training()
    with diverging("changed after that"):
        one.backward(model(batch()).sum())
        model.module.last.bias.grad.mul_(RANK + 1)
        optimizer.step()


@check
def other_parameters() -> None:
    one, model, optimizer = training()
    if RANK == 1:
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    with diverging("rank 0: 4 of them; rank 1: 5 of them" if WORLD == 2 else "rank 1: 5 of them"):
        optimizer.step()
    del one, model


# What does not


@check
def ordinary_training() -> None:
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        one = accelerator(check_divergence=1)
        model = Net()
        model, optimizer = one.prepare(model, kind(model.parameters(), lr=0.1))
        schedule = one.prepare(torch.optim.lr_scheduler.StepLR(optimizer, 1))
        for _ in range(STEPS):
            steps(one, optimizer, lambda model=model: model(batch()).square().mean(), 1)
            one.clip_grad_norm_(model.parameters(), 1.0)
            schedule.step()


@check
def gans() -> None:
    one = accelerator(check_divergence=1)
    made, judge = nn.Linear(2, 4), Net()
    made, judge, first, second = one.prepare(
        made, judge, torch.optim.Adam(made.parameters()), torch.optim.Adam(judge.parameters())
    )
    for _ in range(STEPS):
        fake = made(torch.randn(6, 2))
        second.zero_grad()
        one.backward(judge(batch()).mean() - judge(fake.detach()).mean())
        second.step()
        first.zero_grad()
        one.backward(judge(fake).mean())
        first.step()


@check
def accumulation() -> None:
    one, model, optimizer = training(gradient_accumulation_steps=2)
    for _ in range(2 * STEPS):
        with one.accumulate(model):
            one.backward(model(batch()).square().mean())
            optimizer.step()
            optimizer.zero_grad()


@check
def batch_statistics() -> None:
    one = accelerator(check_divergence=1)
    model = Net(normalized=True)
    model, optimizer = one.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    steps(one, optimizer, lambda: model(batch()).square().mean())
    means = acc.gather(model.module.norm.running_mean[None])
    assert not torch.equal(means[0], means[1]), "the statistics should have differed"


@check
def moving_averages() -> None:
    one, model, optimizer = training()
    average = copy.deepcopy(one.unwrap_model(model))
    for _ in range(STEPS):
        steps(one, optimizer, lambda: model(batch()).square().mean(), 1)
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast + 0.01 * RANK, 0.1)  # each process's own


@check
def methods_and_parts_of_the_model() -> None:
    one, model, optimizer = training()
    steps(one, optimizer, lambda: one.unwrap_model(model)(batch()).sum())
    steps(one, optimizer, lambda: F.relu(model.module.first(batch())).sum())
    loose = nn.Parameter(torch.ones(4) * RANK)
    other = one.prepare(torch.optim.SGD([loose], lr=0.1))
    steps(one, other, lambda: (loose * batch()).sum())


@check
def optimizers_of_nothing_that_is_prepared() -> None:
    one, _, _ = training()
    mine = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
    if RANK == 0:  # a collective operation would hang
        mine(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    del one


@check
def what_is_given_up() -> None:
    one, model, optimizer = training()
    del one
    gc.collect()
    if RANK == 0:  # nobody compares any more
        model.module(batch()).sum().backward()
        optimizer.step()


@check
def settings() -> None:
    for wrong in (-1, 1.5):
        with raises(ValueError, "check_divergence="):
            accelerator(check_divergence=wrong)
    one = accelerator(check_divergence=0)
    model = Net()
    model, optimizer = one.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1 + RANK))
    steps(one, optimizer, lambda: model(batch()).sum())


@check
def sums_of_bits() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.int8):
        values = torch.arange(6).to(dtype)
        changed = values.clone()
        changed[3] += 1
        assert checksum(values) == checksum(values.clone()) != checksum(changed)
        assert checksum(values.view(2, 3).t()) == checksum(values)
    assert checksum(torch.eye(3).to_sparse()) == checksum(torch.eye(3))


if __name__ == "__main__":
    check.main()
