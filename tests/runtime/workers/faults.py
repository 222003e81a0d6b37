"""Where DistributedDataParallel alone would let the processes' models drift apart, without a word."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from accelift import Accelerator
from runtime_checks import Checks, accelerator, close, snapshot
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from training import SPLIT, WithLoss, dataset, network, sgd

check = Checks()
Backward = Callable[..., None]
Steps = Callable[[Any, Any, Any, Backward], Iterator[None]]


def trained(
    acc: Accelerator | None,
    make: Callable[[], nn.Module],
    steps: Steps,
    make_optimizer: Callable[[nn.Module], torch.optim.Optimizer] = sgd,
    samples: int = 44,
    batch_size: int = 8,
) -> list[Tensor]:
    """Train from the same start; returns the parameters after every step."""
    torch.manual_seed(3)
    author = model = make()
    optimizer = make_optimizer(model)
    loader = DataLoader(dataset(samples), batch_size=batch_size, shuffle=True)
    backward: Backward = lambda loss, **more: loss.backward(**more)  # noqa: E731
    if acc is not None:
        model, optimizer, loader = acc.prepare(model, optimizer, loader)
        backward = acc.backward
    return [snapshot(author) for _ in steps(model, optimizer, loader, backward)]


def compare(make: Callable[[], nn.Module], steps: Callable[[Accelerator | None], Steps], **more: Any) -> None:
    """Assert that several processes compute what one computes."""
    acc = accelerator(dataloader_config=SPLIT)
    plain, ours = trained(None, make, steps(None), **more), trained(acc, make, steps(acc), **more)
    close(plain, ours, 1e-5)
    moved = (plain[0] - plain[-1]).abs()
    assert moved.min() > 0, "not every parameter was trained, so little is shown"


def with_loss(loss_of: Callable[[Any, Tensor, Tensor], Tensor]) -> Callable[[Accelerator | None], Steps]:
    """The plainest of loops, around a way to compute the loss."""

    def steps(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
        for x, y in loader:
            optimizer.zero_grad()
            backward(loss_of(model, x, y))
            optimizer.step()
            yield

    return lambda acc: steps


# Models that are not called as they were prepared


@check
def method_of_the_unwrapped_model() -> None:
    def steps(acc: Accelerator | None) -> Steps:
        unwrap = (lambda model: model) if acc is None else acc.unwrap_model
        return with_loss(lambda model, x, y: unwrap(model).training_loss(x, y)["loss"])(acc)

    compare(WithLoss, steps)


class Parts(nn.Module):
    """A container without a forward."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.heads = nn.Linear(6, 8), nn.ModuleDict({"one": nn.Linear(8, 3), "two": nn.Linear(8, 3)})


@check
def submodules_of_a_prepared_container() -> None:
    def loss_of(model: Any, x: Tensor, y: Tensor) -> Tensor:
        hidden = model.body(x).tanh()
        return F.cross_entropy(model.heads["one"](hidden), y) + F.cross_entropy(model.heads["two"](hidden), y)

    compare(Parts, with_loss(loss_of))


@check
def one_submodule_in_turn() -> None:
    """Each step reaches some parameters only."""

    def steps(acc: Accelerator | None) -> Steps:
        turn = [0]

        def loss_of(model: Any, x: Tensor, y: Tensor) -> Tensor:
            turn[0] += 1
            return F.cross_entropy(model.heads["one" if turn[0] % 2 else "two"](model.body(x).tanh()), y)

        return with_loss(loss_of)(acc)

    compare(Parts, steps)


@check
def items_of_a_prepared_container() -> None:
    def loss_of(model: Any, x: Tensor, y: Tensor) -> Tensor:
        assert len(model) == 3
        for index in range(len(model)):
            x = model[index](x)
        return F.cross_entropy(x, y)

    compare(network, with_loss(loss_of))


@check
def modules_in_a_list_and_in_a_dict() -> None:
    class Trained(nn.ModuleList):
        pass

    def loss_in_list(model: Any, x: Tensor, y: Tensor) -> Tensor:
        for layer in model:
            x = layer(x)
        return F.cross_entropy(x, y)

    def loss_in_dict(model: Any, x: Tensor, y: Tensor) -> Tensor:
        assert "a" in model and "c" not in model
        return F.cross_entropy(model["b"](model["a"](x)), y)

    compare(lambda: Trained([nn.Linear(6, 4), nn.Linear(4, 3)]), with_loss(loss_in_list))
    compare(lambda: nn.ModuleDict({"a": nn.Linear(6, 4), "b": nn.Linear(4, 3)}), with_loss(loss_in_dict))


# Graphs that are used twice


def play(acc: Accelerator | None, undetached: Callable[..., None]) -> list[Tensor]:
    torch.manual_seed(4)
    g, d = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))
    authors = (g, d)
    og, od = (torch.optim.SGD(model.parameters(), 0.1) for model in authors)
    loader = DataLoader(dataset(44), batch_size=8, shuffle=True)
    backward: Backward = lambda loss, **more: loss.backward(**more)  # noqa: E731
    if acc is not None:
        g, d, og, od, loader = acc.prepare(g, d, og, od, loader)
        backward = acc.backward
    history = []
    for x, _ in loader:
        undetached(g, d, og, od, x, backward)
        history.append(snapshot(*authors))
    return history


def against(logits: Tensor, real: float) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, real))


@check
def discriminator_whose_graph_is_retained() -> None:
    def both_from_one_forward(g: Any, d: Any, og: Any, od: Any, x: Tensor, backward: Backward) -> None:
        judged = d(g(x.flip(1)))
        od.zero_grad()
        backward(against(d(x), 1) + against(judged, 0), retain_graph=True)
        og.zero_grad()
        backward(against(judged, 1))
        od.step()
        og.step()

    close(play(None, both_from_one_forward), play(accelerator(dataloader_config=SPLIT), both_from_one_forward), 1e-5)


@check
def generator_that_is_not_detached() -> None:
    def reached_by_both_losses(g: Any, d: Any, og: Any, od: Any, x: Tensor, backward: Backward) -> None:
        fake = g(x.flip(1))
        od.zero_grad()
        backward(against(d(x), 1) + against(d(fake), 0), retain_graph=True)
        od.step()
        og.zero_grad()
        backward(against(d(fake), 1))
        og.step()

    close(play(None, reached_by_both_losses), play(accelerator(dataloader_config=SPLIT), reached_by_both_losses), 1e-5)


@check
def gradients_that_the_script_computes_itself() -> None:
    """What ``torch.autograd.grad`` gives is this process's; ``reduce`` is for that."""

    def steps(acc: Accelerator | None) -> Steps:
        def by_hand(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
            for x, y in loader:
                grads = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
                if acc is not None:
                    grads = acc.reduce(grads, "mean")
                with torch.no_grad():
                    for parameter, grad in zip(model.parameters(), grads, strict=True):
                        parameter -= 0.1 * grad
                yield

        return by_hand

    # Shares of the same size, since a mean of means is the mean only of these.
    compare(network, steps, samples=48, batch_size=12)


# Parameters that come late


@check
def model_that_was_wholly_frozen() -> None:
    def steps(acc: Accelerator | None) -> Steps:
        def unfreezing(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
            model.requires_grad_(True)
            yield from with_loss(lambda model, x, y: F.cross_entropy(model(x), y))(acc)(
                model, optimizer, loader, backward
            )

        return unfreezing

    compare(lambda: network().requires_grad_(False), steps)


@check
def group_that_is_added_later() -> None:
    def steps(acc: Accelerator | None) -> Steps:
        def adding(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
            scale = nn.Parameter(torch.full((3,), 0.5))
            optimizer.add_param_group({"params": [scale], "lr": 0.5})
            for x, y in loader:
                optimizer.zero_grad()
                backward(F.cross_entropy(model(x) * scale, y))
                optimizer.step()
                yield

        return adding

    compare(network, steps)


# What prepare returns is what it was given


@check
def value_of_a_step_with_a_closure() -> None:
    returned: dict[bool, list[Tensor]] = {}

    def lbfgs(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

    def searching(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.LBFGS(model.parameters(), max_iter=3, line_search_fn="strong_wolfe")

    for make_optimizer in (sgd, lbfgs, searching):

        def steps(acc: Accelerator | None) -> Steps:
            def with_closure(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
                for x, y in loader:
                    losses = []

                    def closure(x: Tensor = x, y: Tensor = y, losses: list[Tensor] = losses) -> Tensor:
                        optimizer.zero_grad()
                        losses.append(F.cross_entropy(model(x), y))
                        backward(losses[-1])
                        return losses[-1]

                    value = optimizer.step(closure)
                    if acc is None:
                        assert value is losses[0]
                    else:  # every process gets that of the whole batch
                        values = acc.gather(value.reshape(1))
                        assert torch.equal(values, value.expand_as(values))
                    returned[acc is not None].append(value)
                    yield

            return with_closure

        returned.update({True: [], False: []})
        compare(network, steps, make_optimizer=make_optimizer)
        assert len(returned[True]) == len(returned[False]) > 2
        assert torch.allclose(torch.stack(returned[True]), torch.stack(returned[False]), atol=1e-6)


class Custom(torch.optim.SGD):
    def hello(self) -> str:
        return "hello"


@check
def optimizers_and_schedulers_stay_what_they_are() -> None:
    for arguments in ({}, {"dataloader_config": SPLIT}, {"gradient_accumulation_steps": 2}):
        acc = accelerator(**arguments)
        author = network()
        optimizer = Custom(author.parameters(), lr=1.0)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
        group, called = optimizer.param_groups[0], []
        optimizer.register_step_post_hook(lambda *_, called=called: called.append("hook"))
        model, prepared, same_scheduler = acc.prepare(author, optimizer, scheduler)
        assert prepared is optimizer and prepared.hello() == "hello" and prepared.param_groups[0] is group
        assert same_scheduler is scheduler and isinstance(scheduler, torch.optim.lr_scheduler.StepLR)
        group["lr"] = 0.0
        before = snapshot(author)
        for _ in range(2):
            with acc.accumulate(model):
                acc.backward(model(torch.ones(2, 6)).sum())
                optimizer.step()
                scheduler.step()
        steps = 2 // acc.gradient_accumulation_steps
        assert len(called) == steps and torch.equal(before, snapshot(author)), "the group is not live"
        assert scheduler.base_lrs == [1.0] and scheduler.gamma == 0.1
        assert scheduler.last_epoch == steps * (1 if acc.split_batches else acc.num_processes)


# Copies, and models behind models


@check
def copies_carry_no_mark() -> None:
    for copied in (copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))):

        def make(copied: Any = copied) -> nn.Module:
            """A copy of a model that was prepared, by another Accelerator."""
            twin: nn.Module = copied(accelerator().unwrap_model(accelerator().prepare(network())))
            return twin

        assert isinstance(accelerator().prepare(make()), DistributedDataParallel)
        compare(make, with_loss(lambda model, x, y: F.cross_entropy(model(x), y)))


@check
def unwrapping_leaves_the_model_as_it_is() -> None:
    acc = accelerator(dataloader_config=SPLIT, mixed_precision="bf16")
    author = network()
    model = acc.prepare(author)
    x = torch.full((4, 6), acc.process_index + 0.123)
    before, attributes = model(x), dict(vars(author))
    for keep in (True, False):
        inner = acc.unwrap_model(model, keep_fp32_wrapper=keep)
        assert not isinstance(inner, DistributedDataParallel) and (inner is author) == (not keep)
    assert torch.equal(model(x), before) and not torch.equal(author(x), before), "it autocasts no more"
    assert vars(author) == attributes and isinstance(model, DistributedDataParallel)
    acc.backward(model(x).sum())
    gradients = torch.cat([parameter.grad.flatten() for parameter in author.parameters()])
    assert torch.equal(acc.reduce(gradients, "max"), acc.reduce(gradients, "min")), "it averages no more"


@check
def accelerators_side_by_side() -> None:
    """One accumulates, the other does not; they are used in turn, on loaders that are nested."""

    def run(steps: int, together: bool) -> list[Tensor]:
        torch.manual_seed(5)
        models = [network(), network()]
        optimizers = [sgd(model) for model in models]
        loaders = [DataLoader(dataset(size), batch_size=8, shuffle=True) for size in (24, 16)]
        if not together:
            history = []
            for index, (x, y) in enumerate(loaders[0]):
                (F.cross_entropy(models[0](x), y) / steps).backward()
                if (index + 1) % steps == 0 or index + 1 == len(loaders[0]):
                    optimizers[0].step()
                    optimizers[0].zero_grad()
                for x_inner, y_inner in loaders[1]:
                    optimizers[1].zero_grad()
                    F.cross_entropy(models[1](x_inner), y_inner).backward()
                    optimizers[1].step()
                    history.append(snapshot(*models))
            return history
        one = accelerator(dataloader_config=SPLIT, gradient_accumulation_steps=steps)
        other = accelerator(dataloader_config=SPLIT)
        outer, outer_optimizer, outer_loader = one.prepare(models[0], optimizers[0], loaders[0])
        inner, inner_optimizer, inner_loader = other.prepare(models[1], optimizers[1], loaders[1])
        history = []
        for x, y in outer_loader:
            with one.accumulate(outer):
                one.backward(F.cross_entropy(outer(x), y))
                outer_optimizer.step()
                outer_optimizer.zero_grad()
            for x_inner, y_inner in inner_loader:
                with other.accumulate(inner):
                    inner_optimizer.zero_grad()
                    other.backward(F.cross_entropy(inner(x_inner), y_inner))
                    inner_optimizer.step()
                assert other.sync_gradients
                history.append(snapshot(*models))
        return history

    close(run(2, together=False), run(2, together=True), 1e-5)


@check
def keys_of_a_compiled_model() -> None:
    keys = list(network().state_dict())
    acc = accelerator()
    for prepared in (
        acc.prepare(torch.compile(network(), backend="eager")),
        torch.compile(acc.prepare(network()), backend="eager"),
    ):
        assert list(acc.get_state_dict(prepared)) == keys
        assert list(acc.unwrap_model(prepared, keep_torch_compile=False).state_dict()) == keys


@check
def compiled_models_are_trained_alike() -> None:
    def compiled() -> nn.Module:
        model: nn.Module = torch.compile(network(), backend="eager")  # type: ignore[assignment]
        return model

    compare(compiled, with_loss(lambda model, x, y: F.cross_entropy(model(x), y)))


if __name__ == "__main__":
    check.main()
