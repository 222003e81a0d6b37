"""Training on several processes computes what plain PyTorch computes on one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from accelift import (
    Accelerator,
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    GradientAccumulationPlugin,
    GradScalerKwargs,
)
from runtime_checks import Checks, accelerator, close, raises, snapshot, warned
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

check = Checks()
SPLIT = DataLoaderConfiguration(split_batches=True)


def dataset(samples: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 6, generator=generator)
    return TensorDataset(x, torch.randint(0, 3, (samples,), generator=generator))


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)


Loop = Callable[[Any, Any, Any, Callable[[Tensor], None]], Iterable[None]]


def one_step(model: Any, optimizer: Any, loader: Any, backward: Callable[[Tensor], None]) -> Any:
    """The plainest of loops; yields after every optimizer step."""
    for x, y in loader:
        optimizer.zero_grad()
        backward(F.cross_entropy(model(x), y))
        optimizer.step()
        yield


def train(
    samples: int,
    batch_size: int = 8,
    acc: Accelerator | None = None,
    loop: Loop = one_step,
    epochs: int = 2,
    backward: Callable[[Tensor], None] | None = None,
) -> list[Tensor]:
    """Train from the same start; returns the parameters after every step."""
    torch.manual_seed(3)
    model = network()
    optimizer = sgd(model)
    loader = DataLoader(dataset(samples), batch_size=batch_size, shuffle=True)
    author = model
    if acc is not None:
        model, optimizer, loader = acc.prepare(model, optimizer, loader)
        backward = backward or acc.backward
    backward = backward or (lambda loss: loss.backward())
    history = []
    for _ in range(epochs):
        for _ in loop(model, optimizer, loader, backward):
            history.append(snapshot(author))
    return history


@check
def plain_loop() -> None:
    close(train(64, epochs=3), train(64, acc=accelerator(dataloader_config=SPLIT), epochs=3))


@check
def every_size_of_tail() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    for samples in range(64, 81):
        close(train(samples), train(samples, acc=acc))


@check
def batch_that_does_not_divide() -> None:
    for batch_size in (5, 7, 13):
        acc = accelerator(split_batches=True)
        close(train(40, batch_size), train(40, batch_size, acc=acc))


@check
def batch_smaller_than_the_job() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    with warned("cannot be shared out", times=int(acc.is_main_process)):
        result = train(12, 1, acc=acc)
    close(train(12, 1), result)


@check
def whole_batches_in_turn() -> None:
    # Two processes with batches of 8 are one with batches of 16.
    world = accelerator().num_processes
    close(train(32 * world, 8 * world), train(32 * world, 8, acc=accelerator()))


@check
def sum_reduced_loss() -> None:
    def loop(reduction_backward: Any) -> Loop:
        def steps(model: Any, optimizer: Any, loader: Any, backward: Any) -> Any:
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y, reduction="sum") / 20
                reduction_backward(loss)
                optimizer.step()
                yield

        return steps

    for samples in (64, 66, 71, 73):
        acc = accelerator(dataloader_config=SPLIT)
        plain = train(samples, loop=loop(lambda loss: loss.backward()))
        ours = train(samples, acc=acc, loop=loop(lambda loss, a=acc: a.backward(loss, reduction="sum")))
        close(plain, ours)


def train_by_hand(acc: Accelerator | None, samples: int, reduction: str = "mean") -> list[Tensor]:
    """Train on batches of shuffled indices; what else is drawn differs from process to process."""
    torch.manual_seed(3)
    model = author = network()
    optimizer = sgd(model)
    x, y = dataset(samples).tensors
    if acc is not None:
        model, optimizer = acc.prepare(model, optimizer)
    history = []
    for _ in range(2):
        order = torch.randperm(samples)
        for start in range(0, samples, 8):
            picked = order[start : start + 8]
            if acc is not None:
                picked = acc.split_batch(picked)
            loss = F.cross_entropy(model(x[picked]), y[picked], reduction=reduction) / (8 if reduction == "sum" else 1)
            optimizer.zero_grad()
            if acc is None:
                loss.backward()
            else:
                acc.backward(loss, reduction=reduction)
                with torch.random.fork_rng(enabled=acc.is_main_process):
                    torch.rand(1)  # the other generators go ways of their own
            optimizer.step()
            history.append(snapshot(author))
    return history


@check
def batches_made_by_hand() -> None:
    for samples in (64, 69, 71, 73):
        for reduction in ("mean", "sum"):
            plain = train_by_hand(None, samples, reduction)
            close(plain, train_by_hand(accelerator(), samples, reduction))


@check
def parts_of_a_batch_made_by_hand() -> None:
    acc = accelerator()
    rows = 3 * acc.num_processes + 1
    numbers = torch.arange(rows)
    # What the main process has is dealt, in the order of the processes, each row once.
    x, y = acc.split_batch(numbers + acc.process_index, (numbers * 2).numpy())
    assert y.tolist() == [2 * n for n in x.tolist()]
    assert acc.gather_for_metrics(x).tolist() == list(range(rows))
    words = [str(n) for n in range(rows)]
    assert acc.split_batch(words) == [str(n) for n in x.tolist()]
    given = acc.split_batch(torch.ones(rows, 2).requires_grad_())  # of which gradients can be taken
    assert torch.autograd.grad(given.pow(2).sum(), given)[0].tolist() == [[2, 2]] * len(x)
    with raises(ValueError, "these have 4 and 5"):
        acc.split_batch(torch.zeros(4), torch.zeros(5))
    for wrong in (torch.tensor(1.0), "text", 3):
        with raises(TypeError, "with a row for each sample"):
            acc.split_batch(wrong)
    with raises(ValueError, "nothing to share out"):
        acc.split_batch()


@check
def loader_after_batches_made_by_hand() -> None:
    acc = accelerator(split_batches=True)
    acc.split_batch(torch.arange(2 * acc.num_processes + 1))  # shares of several sizes
    close(train(40, 8 * acc.num_processes), train(40, 8 * acc.num_processes, acc=acc))


class TwoHeads(nn.Module):
    """Its loss may use one of the outputs only, like the discriminators of some GANs."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.left, self.right = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x).tanh()
        return self.left(hidden), self.right(hidden)


def train_heads(acc: Accelerator | None, losses: Callable[[int, Any, Tensor, Tensor], list[Tensor]]) -> list[Tensor]:
    """Train a model of two heads with the losses of each step, backward run for each of them in turn."""
    torch.manual_seed(3)
    model = author = TwoHeads()
    optimizer = sgd(model)
    loader = DataLoader(dataset(40), batch_size=8, shuffle=True)
    if acc is not None:
        model, optimizer, loader = acc.prepare(model, optimizer, loader)
    history = []
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        found = losses(step, model, x, y)
        for loss in found:
            last = loss is found[-1]
            if acc is None:
                loss.backward(retain_graph=not last)
            else:
                acc.backward(loss, retain_graph=not last)
        optimizer.step()
        history.append(snapshot(author))
    return history


@check
def outputs_that_the_loss_leaves_out() -> None:
    def losses(step: int, model: Any, x: Tensor, y: Tensor) -> list[Tensor]:
        left, right = model(x)
        return [F.cross_entropy(right if step % 2 else left, y)]

    close(train_heads(None, losses), train_heads(accelerator(split_batches=True), losses))
    handler = DistributedDataParallelKwargs(gradient_as_bucket_view=True)
    with raises(RuntimeError, "right.weight, right.bias of TwoHeads got no gradient in the last backward"):
        train_heads(accelerator(split_batches=True, kwargs_handlers=[handler]), losses)
    handler = DistributedDataParallelKwargs(find_unused_parameters=True)
    close(train_heads(None, losses), train_heads(accelerator(split_batches=True, kwargs_handlers=[handler]), losses))


@check
def layers_that_are_unfrozen_later() -> None:
    def steps(model: Any, optimizer: Any, loader: Any, backward: Any) -> Any:
        for x, y in loader:
            optimizer.zero_grad()
            backward(F.cross_entropy(model(x), y))
            optimizer.step()
            yield

    def train_frozen(acc: Accelerator | None) -> list[Tensor]:
        torch.manual_seed(3)
        model = author = network()
        author[0].requires_grad_(False)  # type: ignore[index]
        optimizer = torch.optim.SGD(author.parameters(), lr=0.1)
        loader = DataLoader(dataset(40), batch_size=8, shuffle=True)
        if acc is not None:
            model, optimizer, loader = acc.prepare(model, optimizer, loader)
        backward = (lambda loss: loss.backward()) if acc is None else acc.backward
        history = []
        for epoch in range(3):
            author[0].requires_grad_(epoch > 0)  # type: ignore[index]
            history += [snapshot(author) for _ in steps(model, optimizer, loader, backward)]
        return history

    close(train_frozen(None), train_frozen(accelerator(split_batches=True)))


@check
def several_backwards_after_one_forward() -> None:
    def losses(step: int, model: Any, x: Tensor, y: Tensor) -> list[Tensor]:
        return [F.cross_entropy(output, y) for output in model(x)] + [model(x)[0].square().mean()]

    close(train_heads(None, losses), train_heads(accelerator(split_batches=True), losses))


@check
def backwards_after_two_forwards() -> None:
    def losses(step: int, model: Any, x: Tensor, y: Tensor) -> list[Tensor]:
        sums = [left + right for left, right in (model(x), model(x * 2))]
        return [F.cross_entropy(both, y) for both in sums]

    close(train_heads(None, losses), train_heads(accelerator(split_batches=True), losses))


@check
def sum_reduced_loss_of_unprepared_data() -> None:
    def loss_of(model: Any) -> Tensor:
        x, y = dataset(10).tensors
        return F.cross_entropy(model(x), y, reduction="sum")

    torch.manual_seed(3)
    model = network()
    loss_of(model).backward()
    plain = torch.cat([p.grad.flatten() for p in model.parameters()])
    acc = accelerator(dataloader_config=SPLIT)
    model.zero_grad()
    model = acc.prepare(model)
    acc.backward(loss_of(model), reduction="sum")
    close([plain], [torch.cat([p.grad.flatten() for p in model.parameters()])], 1e-5)


@check
def gradient_of_a_loss_that_is_no_scalar() -> None:
    def loop(backward: Any) -> Loop:
        def steps(model: Any, optimizer: Any, loader: Any, _: Any) -> Any:
            for x, y in loader:
                optimizer.zero_grad()
                losses = F.cross_entropy(model(x), y, reduction="none")
                backward(losses, gradient=torch.full_like(losses, 1 / len(losses)))
                optimizer.step()
                yield

        return steps

    acc = accelerator(dataloader_config=SPLIT)
    plain = train(70, loop=loop(lambda losses, gradient: losses.backward(gradient)))
    close(plain, train(70, acc=acc, loop=loop(acc.backward)))


def accumulating(steps: int, flush: bool, count_on: bool) -> Loop:
    """Accumulation by hand."""
    seen = [0]

    def loop(model: Any, optimizer: Any, loader: Any, backward: Any) -> Any:
        for i, (x, y) in enumerate(loader):
            backward(F.cross_entropy(model(x), y) / steps)
            seen[0] += 1
            number = seen[0] if count_on else i + 1
            if number % steps == 0 or (flush and i + 1 == len(loader)):
                optimizer.step()
                optimizer.zero_grad()
            yield

    return loop


def managed(acc: Accelerator) -> Loop:
    """The same with ``accumulate``."""

    def loop(model: Any, optimizer: Any, loader: Any, backward: Any) -> Any:
        for x, y in loader:
            with acc.accumulate(model):
                backward(F.cross_entropy(model(x), y))
                optimizer.step()
                optimizer.zero_grad()
            yield

    return loop


@check
def accumulation_in_all_idioms() -> None:
    idioms = [
        ({}, {"flush": True, "count_on": False}),
        ({"carry_over": True}, {"flush": False, "count_on": False}),
        ({"sync_with_dataloader": False}, {"flush": False, "count_on": True}),
        ({"sync_each_batch": True}, {"flush": True, "count_on": False}),
    ]
    for plugin, idiom in idioms:
        for samples in (64, 75):
            acc = accelerator(
                dataloader_config=SPLIT,
                gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=3, **plugin),
            )
            close(
                train(samples, loop=accumulating(3, **idiom), epochs=3),
                train(samples, acc=acc, loop=managed(acc), epochs=3),
            )


@check
def accumulation_communicates_once_a_step() -> None:
    acc = accelerator(dataloader_config=SPLIT, gradient_accumulation_steps=4)
    model = acc.prepare(network())
    synchronised = []
    for _ in range(8):
        with acc.accumulate(model):
            synchronised.append(model.require_backward_grad_sync)
    assert synchronised == [False, False, False, True] * 2
    assert model.require_backward_grad_sync


@check
def clipping() -> None:
    def loop(clip: Any) -> Loop:
        def steps(model: Any, optimizer: Any, loader: Any, backward: Any) -> Any:
            for x, y in loader:
                optimizer.zero_grad()
                backward(F.cross_entropy(model(x), y))
                clip(model.parameters())
                optimizer.step()
                yield

        return steps

    acc = accelerator(dataloader_config=SPLIT)
    close(
        train(70, loop=loop(lambda p: nn.utils.clip_grad_norm_(p, 0.05))),
        train(70, acc=acc, loop=loop(lambda p: acc.clip_grad_norm_(p, 0.05))),
    )
    close(
        train(70, loop=loop(lambda p: nn.utils.clip_grad_value_(p, 0.01))),
        train(70, acc=acc, loop=loop(lambda p: acc.clip_grad_value_(p, 0.01))),
    )


@check
def two_models_against_each_other() -> None:
    def play(acc: Accelerator | None) -> list[Tensor]:
        torch.manual_seed(4)
        g, d = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))
        authors = (g, d)
        og, od = torch.optim.Adam(g.parameters(), 1e-2), torch.optim.Adam(d.parameters(), 1e-2)
        loader = DataLoader(dataset(44), batch_size=8, shuffle=True)
        if acc is not None:
            g, d, og, od, loader = acc.prepare(g, d, og, od, loader)
        backward = acc.backward if acc is not None else (lambda loss: loss.backward())
        history = []
        for x, _ in loader:
            noise = x.flip(1)  # the same for a sample wherever it is
            real = torch.ones(len(x), 1)
            og.zero_grad()
            fake = g(noise)
            backward(F.binary_cross_entropy_with_logits(d(fake), real))
            og.step()
            od.zero_grad()
            on_real = F.binary_cross_entropy_with_logits(d(x), real)
            on_fake = F.binary_cross_entropy_with_logits(d(fake.detach()), 1 - real)
            backward((on_real + on_fake) / 2)
            od.step()
            history.append(snapshot(*authors))
        return history

    # Adam divides by the root of tiny squares, so noise of 1e-8 in a gradient grows.
    close(play(None), play(accelerator(dataloader_config=SPLIT)), 1e-5)


class WithLoss(nn.Module):
    """A model whose loss is a method, which calls the model itself."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()
        self.scale = 1.0
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.net(x) * self.scale

    def training_loss(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"loss": F.cross_entropy(self(x), y)}

    def describe(self) -> str:
        return f"scale {self.scale}"


@check
def method_that_computes_the_loss() -> None:
    def run(acc: Accelerator | None) -> list[Tensor]:
        torch.manual_seed(3)
        author = model = WithLoss()
        optimizer = sgd(model)
        loader = DataLoader(dataset(44), batch_size=8, shuffle=True)
        if acc is not None:
            model, optimizer, loader = acc.prepare(model, optimizer, loader)
        backward = acc.backward if acc is not None else (lambda loss: loss.backward())
        history = []
        for x, y in loader:
            optimizer.zero_grad()
            backward(model.training_loss(x, y)["loss"])
            optimizer.step()
            history.append(snapshot(author))
        assert author.calls == len(history)
        return history

    close(run(None), run(accelerator(dataloader_config=SPLIT)))


@check
def names_of_the_model() -> None:
    acc = accelerator()
    author = WithLoss()
    model = acc.prepare(author)
    assert isinstance(model, DistributedDataParallel)
    assert model.scale == 1.0
    assert model.describe() == "scale 1.0"
    model.scale = 0.5
    assert author.scale == 0.5 and "scale" not in vars(model)
    model.brand_new = "seen by forward"
    assert author.brand_new == "seen by forward"
    with raises(AttributeError, "no attribute 'nothing'"):
        _ = model.nothing
    with torch.no_grad():
        loss = model.training_loss(torch.randn(2, 6), torch.tensor([0, 1]))["loss"]
    assert not loss.requires_grad
    assert acc.unwrap_model(model) is author
    assert set(model.state_dict()) == set(author.state_dict())
    model.load_state_dict(author.state_dict())
    assert set(acc.get_state_dict(model)) == set(author.state_dict())


@check
def hidden_names_are_told() -> None:
    class Clash(nn.Linear):
        def __init__(self) -> None:
            super().__init__(2, 2)
            self.dim = 512
            self.device = torch.device("cpu")

        def gather(self) -> None: ...

    acc = accelerator()
    with warned("dim, gather of Clash cannot be reached", times=int(acc.is_main_process)):
        acc.prepare(Clash())
    with warned("cannot be reached", times=0):
        acc.prepare(WithLoss())


@check
def copy_of_a_prepared_model() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    model = acc.prepare(WithLoss())
    twin = copy.deepcopy(model)
    twin.scale = 3.0
    assert model.scale == 1.0 and acc.unwrap_model(twin).scale == 3.0
    mine = torch.full((2, 6), float(acc.process_index))
    acc.backward(twin(mine).sum())
    mean = acc.reduce(mine, "mean")
    grads = [p.grad.clone() for p in twin.parameters()]
    twin.zero_grad()
    (acc.unwrap_model(twin)(mine).sum()).backward()
    close(
        [g.flatten() for g in grads],
        [acc.reduce(p.grad, "mean").flatten() for p in twin.parameters()],
    )
    assert mean.mean().item() == (acc.num_processes - 1) / 2


@check
def model_that_is_frozen_is_not_wrapped() -> None:
    acc = accelerator()
    frozen = network().requires_grad_(False)
    assert acc.prepare(frozen) is frozen
    assert acc.prepare_model(network(), evaluation_mode=True).__class__ is nn.Sequential


@check
def preparing_again_changes_nothing() -> None:
    acc = accelerator()
    author = network()
    model = acc.prepare(author)
    assert acc.prepare(model) is model
    assert acc.prepare(author) is model
    loader = acc.prepare(DataLoader(dataset(8)))
    assert acc.prepare(loader) is loader
    with raises(ValueError, "same model twice"):
        acc.prepare(author, author)


@check
def parameters_without_part_in_the_loss() -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.other = nn.Linear(6, 3), nn.Linear(6, 3)

        def forward(self, x: Tensor, other: bool) -> Tensor:
            return (self.other if other else self.used)(x)

    def run(acc: Accelerator | None) -> list[Tensor]:
        torch.manual_seed(3)
        author = model = Branch()
        optimizer = sgd(model)
        loader = DataLoader(dataset(40), batch_size=8, shuffle=True)
        if acc is not None:
            model, optimizer, loader = acc.prepare(model, optimizer, loader)
        backward = acc.backward if acc is not None else (lambda loss: loss.backward())
        history = []
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            backward(F.cross_entropy(model(x, bool(i % 2)), y))
            optimizer.step()
            history.append(snapshot(author))
        return history

    unused = DistributedDataParallelKwargs(find_unused_parameters=True)
    close(run(None), run(accelerator(dataloader_config=SPLIT, kwargs_handlers=[unused])))


@check
def batch_norm_gets_no_tail_of_one_sample() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    model, loader = acc.prepare(model, DataLoader(dataset(11), batch_size=8))
    model.train()
    sizes = []
    for x, y in loader:
        acc.backward(F.cross_entropy(model(x), y))
        sizes.append(len(x))
    assert sizes[0] < 8 and sizes[1] == 3, sizes


@check
def loaders_with_different_shares() -> None:
    def run(acc: Accelerator) -> None:
        model = acc.prepare(network())
        even, uneven = acc.prepare(DataLoader(dataset(24), batch_size=8), DataLoader(dataset(15), batch_size=5))
        for (x, y), _ in zip(even, uneven, strict=True):
            acc.backward(F.cross_entropy(model(x), y))

    acc = accelerator(dataloader_config=SPLIT)
    with warned("several loaders are being iterated"):
        run(acc)
    acc = accelerator(dataloader_config=SPLIT)
    model, outer, inner = acc.prepare(
        network(), DataLoader(dataset(24), batch_size=8), DataLoader(dataset(5), batch_size=5)
    )
    with warned("several loaders are being iterated", times=0):
        for x, y in outer:
            for inner_x, _ in inner:
                acc.gather_for_metrics(inner_x)
            acc.backward(F.cross_entropy(model(x), y))


@check
def means_of_batches_are_those_of_one_process() -> None:
    """Full batches, smaller last ones, ones that are replicated; also of shares that are dealt by hand."""
    acc = accelerator(dataloader_config=SPLIT)
    for samples in (64, 65, 66, 70, 73, 75, 79):
        plain = [x.double() for x, _ in DataLoader(dataset(samples), batch_size=16)]
        ours, columns = [], []
        for x, _ in acc.prepare(DataLoader(dataset(samples), batch_size=16)):
            ours.append(acc.batch_mean(x.double().square().mean()))
            columns.append(acc.batch_mean(x.double().mean(0)))
        close([x.square().mean() for x in plain], ours, 1e-12)
        close([x.mean(0) for x in plain], columns, 1e-12)
    whole = torch.arange(11.0)
    x = acc.split_batch(whole)
    close([whole.mean()], [acc.batch_mean(x.mean())], 1e-6)
    both = acc.batch_mean({"a": x.mean(), "b": (x.mean(), 2 * x.mean())})
    close([whole.mean(), 2 * whole.mean()], [both["a"], both["b"][1]], 1e-6)


@check
def means_of_last_batches_after_their_loops() -> None:
    """Also of loops that are left, and where another loop ran in between; what all processes have stays."""
    acc = accelerator(dataloader_config=SPLIT)
    data = dataset(16 + 2 * acc.num_processes + 1)
    loader, other = acc.prepare(DataLoader(data, batch_size=16), DataLoader(dataset(16), batch_size=16))
    for x, _ in loader:
        mean = x.double().square().mean()
    last = data.tensors[0][16:].double().square().mean()
    close([last], [acc.batch_mean(mean)], 1e-12)
    close([torch.tensor(3.0)], [acc.batch_mean(torch.tensor(3.0))], 1e-6)
    for place, (x, _) in enumerate(loader):
        mean = x.double().square().mean()
        if place == 1:
            break
    close([last], [acc.batch_mean(mean)], 1e-12)
    for x, _ in loader:
        for _ in other:
            pass
        mean = acc.batch_mean(x.double().square().mean())
    close([last], [mean], 1e-12)


@check
def means_of_batches_that_some_processes_do_not_get() -> None:
    acc = accelerator(dataloader_config=DataLoaderConfiguration(even_batches=False))
    for x, _ in acc.prepare(DataLoader(dataset(4 * acc.num_processes + 1), batch_size=4)):
        if len(x) == 4:
            acc.batch_mean(x.mean())
        else:
            with raises(RuntimeError, "batch_mean would wait for ever"):
                acc.batch_mean(x.mean())


@check
def means_of_batches_outside_of_a_loop() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    mine = torch.tensor(float(acc.process_index))
    close([torch.tensor((acc.num_processes - 1) / 2)], [acc.batch_mean(mine)])
    with raises(ValueError, "mean of torch.int64"):
        acc.batch_mean(torch.tensor(1))


@check
def half_precision() -> None:
    for precision in ("bf16", "fp16"):
        start = [GradScalerKwargs(init_scale=16.0)]
        acc = accelerator(dataloader_config=SPLIT, mixed_precision=precision, kwargs_handlers=start)
        result = train(64, acc=acc)
        everyone = acc.gather(result[-1][None])
        assert torch.equal(everyone, result[-1].expand_as(everyone)), "ranks have diverged"
        close(train(64), result, 2e-2)  # as precise as 8 bits are


@check
def overflow_is_skipped_on_every_process() -> None:
    acc = accelerator(dataloader_config=SPLIT, mixed_precision="fp16")
    author = network()
    model, optimizer = acc.prepare(author, sgd(author))
    before = snapshot(author)
    huge = torch.full((2, 6), 1e30 if acc.process_index == 1 else 1.0)
    acc.backward(model(huge).sum())
    optimizer.step()
    assert acc.optimizer_step_was_skipped and optimizer.step_was_skipped
    assert torch.equal(before, snapshot(author))


@check
def no_sync_keeps_gradients_local() -> None:
    acc = accelerator()
    model = acc.prepare(nn.Linear(1, 1, bias=False))
    mine = torch.full((1, 1), float(acc.process_index))
    with acc.no_sync(model):
        model(mine).sum().backward()
    weight = acc.unwrap_model(model).weight
    assert weight.grad.item() == acc.process_index
    model(mine).sum().backward()
    assert weight.grad.item() == acc.num_processes - 1  # twice the mean


@check
def scheduler_in_turn_and_in_split() -> None:
    for split, per_step in ((True, 1), (False, accelerator().num_processes)):
        acc = accelerator(split_batches=split)
        model = network()
        optimizer = sgd(model, lr=1.0)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
        optimizer.step()
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        acc.prepare(model, optimizer, scheduler, plateau)
        for step in range(3):
            optimizer.step()
            scheduler.step()
            assert scheduler.last_epoch == per_step * (step + 1)
        plateau.step(1.0)
        plateau.step(2.0)
        assert plateau.last_epoch == 2


@check
def parameters_in_no_model() -> None:
    """A temperature of the script's own, and a loss with weights that nobody prepared."""

    def run(acc: Accelerator | None) -> list[Tensor]:
        torch.manual_seed(3)
        model = network()
        if acc is not None:
            torch.manual_seed(3 + acc.process_index)  # what is not the model's begins differently
            if acc.is_main_process:
                torch.manual_seed(3)
        criterion = nn.Linear(3, 3)
        temperature = nn.Parameter(torch.rand(()))
        if acc is None:
            torch.manual_seed(3)
            criterion, temperature = nn.Linear(3, 3), nn.Parameter(torch.rand(()))
        optimizer = torch.optim.SGD([*model.parameters(), *criterion.parameters(), temperature], lr=0.1)
        loader = DataLoader(dataset(26), batch_size=8)
        if acc is not None:
            model, optimizer, loader = acc.prepare(model, optimizer, loader)
        history = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(criterion(model(x)) * temperature, y)
            acc.backward(loss) if acc is not None else loss.backward()
            optimizer.step()
            owned = [*criterion.parameters(), temperature, *model.parameters()]
            history.append(torch.cat([p.detach().flatten() for p in owned]))
        return history

    close(run(None), run(accelerator(dataloader_config=SPLIT)))


@check
def parameters_in_no_model_while_accumulating() -> None:
    def run(acc: Accelerator | None) -> list[Tensor]:
        torch.manual_seed(3)
        model, temperature = network(), nn.Parameter(torch.tensor(0.5))
        optimizer = torch.optim.SGD([{"params": model.parameters()}, {"params": [temperature]}], lr=0.1)
        loader = DataLoader(dataset(32), batch_size=8)
        if acc is not None:
            model, optimizer, loader = acc.prepare(model, optimizer, loader)
        history = []
        for index, (x, y) in enumerate(loader):
            if acc is not None:
                with acc.accumulate(model):
                    acc.backward(F.cross_entropy(model(x) * temperature, y))
                    optimizer.step()
                    optimizer.zero_grad()
            else:
                (F.cross_entropy(model(x) * temperature, y) / 2).backward()
                if index % 2:
                    optimizer.step()
                    optimizer.zero_grad()
            history.append(torch.stack([temperature.detach(), next(model.parameters()).detach().sum()]))
        return history

    close(run(None), run(accelerator(dataloader_config=SPLIT, gradient_accumulation_steps=2)))


@check
def layers_that_a_prepared_model_is_given() -> None:
    """Before its optimizer is made: one in the place of its first, and another behind its last."""

    def run(acc: Accelerator | None) -> list[Tensor]:
        torch.manual_seed(3)
        model = parts = network()
        loader = DataLoader(dataset(26), batch_size=8)
        if acc is not None:
            model, loader = acc.prepare(model, loader)
            parts = acc.unwrap_model(model)
        torch.manual_seed(4 if acc is None else 4 + acc.process_index)
        parts[0] = nn.Linear(6, 8)
        parts.append(nn.Linear(3, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if acc is not None:
            optimizer = acc.prepare(optimizer)
        history = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            acc.backward(loss) if acc is not None else loss.backward()
            optimizer.step()
            history.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
        return history

    close(run(None), run(accelerator(dataloader_config=SPLIT)))


@check
def mean_over_tokens() -> None:
    """The mean over the samples that count, which are not equally many everywhere."""

    def loss_of(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        counts = y > 0
        return F.cross_entropy(logits[counts], y[counts]), counts.sum()

    def loop(backward: Any) -> Loop:
        def steps(model: Any, optimizer: Any, loader: Any, _: Any) -> Any:
            for x, y in loader:
                optimizer.zero_grad()
                backward(*loss_of(model(x), y))
                optimizer.step()
                yield

        return steps

    acc = accelerator(dataloader_config=SPLIT)
    plain = train(29, loop=loop(lambda loss, count: loss.backward()))
    close(plain, train(29, acc=acc, loop=loop(lambda loss, count: acc.backward(loss, weight=count))))
    with raises(ValueError, "only a mean"):
        acc.backward(torch.zeros((), requires_grad=True), "sum", weight=1)


@check
def gradients_packed_in_half_precision() -> None:
    packed = accelerator(
        dataloader_config=SPLIT, kwargs_handlers=[DistributedDataParallelKwargs(comm_hook="fp16", bucket_cap_mb=20)]
    )
    plain, other = train(64), train(64, acc=packed)
    close(plain, other, tolerance=0.05)
    assert not torch.equal(plain[-1], other[-1]), "nothing was packed"


if __name__ == "__main__":
    check.main()
