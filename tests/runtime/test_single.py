"""On one process everything is plain PyTorch, bit for bit."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from accelift import (
    Accelerator,
    DataLoaderConfiguration,
    GradientAccumulationPlugin,
    GradScalerKwargs,
    PartialState,
)
from runtime_checks import same, snapshot
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    TensorDataset,
    WeightedRandomSampler,
)

Backward = Callable[[Tensor], None]


class Noisy(Dataset[tuple[Tensor, Tensor]]):
    """Draws its augmentation from the generator that dropout and shuffling draw from."""

    def __len__(self) -> int:
        return 43

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = torch.arange(6.0) * index / 100 + torch.randn(6)
        return x, torch.tensor(index % 3)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 3))


def shuffled() -> DataLoader[Any]:
    return DataLoader(Noisy(), batch_size=8, shuffle=True)


def plain_step(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
    for x, y in loader:
        optimizer.zero_grad()
        backward(F.cross_entropy(model(x), y))
        optimizer.step()
        yield


def train(
    acc: Accelerator | None,
    make_loader: Callable[[], Any] = shuffled,
    loop: Any = plain_step,
    epochs: int = 2,
    make_optimizer: Any = lambda model: torch.optim.Adam(model.parameters(), 1e-2),
) -> list[Tensor]:
    """Train from the same start; returns the parameters after every step."""
    torch.manual_seed(0)
    model = author = network()
    optimizer, loader = make_optimizer(model), make_loader()
    backward: Backward = lambda loss: loss.backward()  # noqa: E731
    if acc is not None:
        model, optimizer, loader = acc.prepare(model, optimizer, loader)
        backward = acc.backward
    history = []
    for _ in range(epochs):
        for _ in loop(model, optimizer, loader, backward):
            history.append(snapshot(author))
    history.append(torch.rand(4))  # the generator, too, is where it would be
    return history


class Authors(DataLoader[Any]):
    """A loader with a mind of its own."""

    def __iter__(self) -> Any:
        for x, y in super().__iter__():
            yield x * 2, y

    def __len__(self) -> int:
        return super().__len__() + 1


class Endless(IterableDataset[Any]):
    """A stream that goes on where the last loop left it."""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        self.position += 1
        return torch.full((6,), self.position / 50), torch.tensor(self.position % 3)


LOADERS: dict[str, Callable[[], Any]] = {
    "shuffled": shuffled,
    "sequential": lambda: DataLoader(Noisy(), batch_size=8),
    "dropped last": lambda: DataLoader(Noisy(), batch_size=8, shuffle=True, drop_last=True),
    "own generator": lambda: DataLoader(Noisy(), 8, shuffle=True, generator=torch.Generator().manual_seed(9)),
    "weighted": lambda: DataLoader(Noisy(), 8, sampler=WeightedRandomSampler(torch.arange(1.0, 44.0), 30)),
    "replacement": lambda: DataLoader(Noisy(), 8, sampler=RandomSampler(Noisy(), True, 70)),
    "batch sampler": lambda: DataLoader(Noisy(), batch_sampler=[[0, 5, 7], [3], [40, 2, 1, 9]]),
    "no batches": lambda: DataLoader(TensorDataset(torch.randn(5, 4, 6), torch.randint(0, 3, (5, 4))), batch_size=None),
    "subclass": lambda: Authors(Noisy(), batch_size=8, shuffle=True),
    "workers": lambda: DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=2),
    "persistent workers": lambda: DataLoader(
        Noisy(), batch_size=8, shuffle=True, num_workers=1, persistent_workers=True
    ),
}


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("split", [True, False])
def test_loaders(name: str, split: bool) -> None:
    config = DataLoaderConfiguration(split_batches=split)
    same(train(None, LOADERS[name]), train(Accelerator(dataloader_config=config), LOADERS[name]))


def test_a_launcher_of_one_process_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = train(None)
    for name, value in {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    acc = Accelerator()
    assert not torch.distributed.is_initialized()
    model = network()
    assert acc.prepare(model) is model
    same(plain, train(acc))


def test_loop_that_is_left_early() -> None:
    def loop(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
        for i, _ in enumerate(plain_step(model, optimizer, loader, backward)):
            yield
            if i == 2:
                break

    same(train(None, loop=loop, epochs=3), train(Accelerator(), loop=loop, epochs=3))

    def stream() -> Any:
        return DataLoader(Endless(), batch_size=4)

    ours = train(Accelerator(gradient_accumulation_steps=1), stream, loop, epochs=3)
    same(train(None, stream, loop, epochs=3), ours)


def test_iterators_by_hand() -> None:
    # A seed is drawn when the iterator is made, and the order when the first batch is.
    def loop(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
        iterator = iter(loader)
        torch.rand(3)
        yield from plain_step(model, optimizer, [next(iterator)], backward)
        torch.rand(3)
        yield from plain_step(model, optimizer, zip_first(iterator, iter(loader)), backward)

    same(train(None, loop=loop), train(Accelerator(), loop=loop))


def zip_first(one: Iterator[Any], other: Iterator[Any]) -> Iterator[Any]:
    for first, _ in zip(one, other, strict=False):
        yield first


def by_hand(steps: int, flush: bool, count_on: bool) -> Any:
    seen = [0]

    def loop(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
        for i, (x, y) in enumerate(loader):
            backward(F.cross_entropy(model(x), y) / steps)
            seen[0] += 1
            number = seen[0] if count_on else i + 1
            if number % steps == 0 or (flush and i + 1 == len(loader)):
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
                optimizer.zero_grad()
            yield

    return loop


def managed(acc: Accelerator) -> Any:
    def loop(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
        for x, y in loader:
            with acc.accumulate(model):
                backward(F.cross_entropy(model(x), y))
                if acc.sync_gradients:
                    acc.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
                optimizer.zero_grad()
            yield

    return loop


IDIOMS: dict[str, tuple[dict[str, bool], dict[str, bool]]] = {
    "every k or last": ({}, {"flush": True, "count_on": False}),
    "every k": ({"carry_over": True}, {"flush": False, "count_on": False}),
    "global step": ({"sync_with_dataloader": False}, {"flush": False, "count_on": True}),
}


@pytest.mark.parametrize("steps", [2, 3, 4])
@pytest.mark.parametrize("idiom", IDIOMS)
@pytest.mark.parametrize("left_early", [False, True])
def test_accumulation(idiom: str, steps: int, left_early: bool) -> None:
    plugin, hand = IDIOMS[idiom]
    acc = Accelerator(gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=steps, **plugin))

    def maybe_left(loop: Any) -> Any:
        def inner(*arguments: Any) -> Iterator[None]:
            for i, _ in enumerate(loop(*arguments)):
                yield
                if left_early and i == 4:
                    break

        return inner

    plain = train(None, loop=maybe_left(by_hand(steps, **hand)), epochs=3)
    same(plain, train(acc, loop=maybe_left(managed(acc)), epochs=3))


class WithoutLength(Sampler[list[int]]):
    def __iter__(self) -> Iterator[list[int]]:
        return iter([[0, 1], [2, 3], [4, 5], [6, 7], [8]])


def test_accumulation_finds_the_end_without_a_length() -> None:
    def with_length() -> Any:
        return DataLoader(Noisy(), batch_sampler=list(WithoutLength()))

    def without() -> Any:
        return DataLoader(Noisy(), batch_sampler=WithoutLength())

    acc = Accelerator(gradient_accumulation_steps=2)
    plain = train(None, with_length, by_hand(2, flush=True, count_on=False))
    same(plain, train(acc, without, managed(acc)))


def test_accumulation_steps_come_from_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    assert Accelerator().gradient_accumulation_steps == 4
    assert Accelerator(gradient_accumulation_steps=2).gradient_accumulation_steps == 2


def test_clipping() -> None:
    def clipped(clip: Any) -> Any:
        def loop(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
            for x, y in loader:
                optimizer.zero_grad()
                backward(F.cross_entropy(model(x), y))
                norms.append(clip(model.parameters()))
                optimizer.step()
                yield

        return loop

    norms: list[Any] = []
    acc = Accelerator()
    for ours, theirs in (
        (lambda p: acc.clip_grad_norm_(p, 0.1), lambda p: nn.utils.clip_grad_norm_(p, 0.1)),
        (
            lambda p: acc.clip_grad_norm_(p, 0.1, norm_type=1),
            lambda p: nn.utils.clip_grad_norm_(p, 0.1, norm_type=1),
        ),
        (lambda p: acc.clip_grad_value_(p, 0.01), lambda p: nn.utils.clip_grad_value_(p, 0.01)),
    ):
        norms.clear()
        plain, plain_norms = train(None, loop=clipped(theirs)), list(norms)
        norms.clear()
        same(plain, train(acc, loop=clipped(ours)))
        assert norms == plain_norms


def test_bfloat16_is_autocast_by_hand() -> None:
    def hand(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                out = model(x)
            backward(F.cross_entropy(out.float(), y))
            optimizer.step()
            yield

    same(train(None, loop=hand), train(Accelerator(mixed_precision="bf16")))


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("steps", [1, 3])
def test_float16_is_scaling_by_hand(clip: bool, steps: int) -> None:
    start = 2.0**18 if steps == 1 else 2.0**20  # overflows at first
    kwargs = GradScalerKwargs(init_scale=start, growth_interval=4)
    acc = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=steps, kwargs_handlers=[kwargs])
    scaler = torch.amp.GradScaler("cpu", init_scale=start, growth_interval=4)
    skipped: dict[str, list[bool]] = {"hand": [], "ours": []}

    def hand(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
        for i, (x, y) in enumerate(loader):
            with torch.autocast("cpu", torch.float16):
                out = model(x)
            loss = F.cross_entropy(out.float(), y)
            scaler.scale(loss / steps if steps > 1 else loss).backward()
            if (i + 1) % steps == 0 or i + 1 == len(loader):
                if clip:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                before = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                skipped["hand"].append(scaler.get_scale() < before)
                optimizer.zero_grad()
            yield

    def ours(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
        for x, y in loader:
            with acc.accumulate(model):
                backward(F.cross_entropy(model(x), y))
                if clip and acc.sync_gradients:
                    acc.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
                optimizer.zero_grad()
                if acc.sync_gradients:
                    skipped["ours"].append(acc.optimizer_step_was_skipped)
            yield

    same(train(None, loop=hand), train(acc, loop=ours))
    assert skipped["ours"] == skipped["hand"]
    assert True in skipped["hand"] and False in skipped["hand"]
    assert acc.scaler is not None and acc.scaler.get_scale() == scaler.get_scale()


def test_one_scale_for_the_steps_of_two_optimizers() -> None:
    kwargs = GradScalerKwargs(init_scale=8.0, growth_interval=1)
    acc = Accelerator(mixed_precision="fp16", kwargs_handlers=[kwargs])
    one, two = nn.Linear(2, 1), nn.Linear(2, 1)
    optimizers = [torch.optim.SGD(model.parameters(), lr=1.0) for model in (one, two)]
    prepared_one, prepared_two, *optimizers = acc.prepare(one, two, *optimizers)
    before = [snapshot(one), snapshot(two)]
    x = torch.ones(1, 2)
    acc.backward((prepared_one(x) + prepared_two(x)).sum())
    for optimizer in optimizers:  # by now the scale would have doubled, were it updated here
        optimizer.step()
    for model, start in zip((one, two), before, strict=True):
        assert torch.allclose(start - snapshot(model), torch.ones(3), atol=1e-6)
    assert acc.scaler is not None and acc.scaler.get_scale() == 16.0


def test_closures() -> None:
    def lbfgs(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

    returned: list[Any] = []

    def loop(model: Any, optimizer: Any, loader: Any, backward: Backward) -> Iterator[None]:
        for x, y in loader:

            def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                backward(loss)
                return loss

            returned.append(optimizer.step(closure))
            yield

    plain = train(None, loop=loop, make_optimizer=lbfgs)
    same(plain, train(Accelerator(), loop=loop, make_optimizer=lbfgs))
    half = len(returned) // 2
    assert torch.equal(torch.stack(returned[:half]), torch.stack(returned[half:]))


class Custom(torch.optim.SGD):
    def hello(self) -> str:
        return "hello"


@pytest.mark.parametrize("steps", [1, 2])
def test_optimizer_stays_the_object_it_is(steps: int) -> None:
    acc = Accelerator(gradient_accumulation_steps=steps)
    model = network()
    optimizer = Custom(model.parameters(), lr=0.1, momentum=0.9)
    group, called = optimizer.param_groups[0], []
    optimizer.register_step_post_hook(lambda *_: called.append("hook"))
    prepared = acc.prepare(optimizer)
    assert prepared is optimizer and acc.prepare(optimizer) is optimizer
    assert prepared.hello() == "hello" and prepared.param_groups[0] is group
    for index in range(4):
        with acc.accumulate(model):
            acc.backward(model(torch.ones(2, 6)).sum())
            prepared.step()
            assert len(called) == (index + 1) // steps
            prepared.zero_grad()
            assert (model[0].weight.grad is None) == acc.sync_gradients
    for twin in (copy.deepcopy(prepared), pickle.loads(pickle.dumps(prepared))):
        assert "step" not in vars(twin) and twin.state_dict()["state"].keys() == {0, 1, 2, 3}
        twin.step()


@pytest.mark.parametrize("first", ["scheduler", "prepare"])
def test_scheduler_made_before_or_after_prepare(first: str, recwarn: pytest.WarningsRecorder) -> None:
    acc = Accelerator(gradient_accumulation_steps=2)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    if first == "scheduler":
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        acc.prepare(optimizer)
    else:
        acc.prepare(optimizer)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    assert acc.prepare(scheduler) is scheduler
    before = snapshot(model)
    rates = []
    for index in range(4):
        with acc.accumulate(model):
            acc.backward(model(torch.ones(2, 6)).sum())
            optimizer.step()
            scheduler.step()
            assert torch.equal(before, snapshot(model)) == (index == 0)
            rates.append(scheduler.get_last_lr()[0])
    assert rates == [1.0, 0.5, 0.5, 0.25] and scheduler.last_epoch == 2
    assert type(scheduler).__name__ == "StepLR" and scheduler.base_lrs == [1.0]
    assert "step" not in scheduler.state_dict()
    for twin in (copy.deepcopy(scheduler), pickle.loads(pickle.dumps(scheduler))):
        assert type(twin) is torch.optim.lr_scheduler.StepLR and twin.last_epoch == 2
    assert not [w for w in recwarn if "lr_scheduler" in str(w.message)]


def test_scheduler_follows_skipped_steps() -> None:
    acc = Accelerator(mixed_precision="fp16", kwargs_handlers=[GradScalerKwargs(init_scale=2.0**24)])
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    model, optimizer, scheduler = acc.prepare(model, optimizer, scheduler)
    acc.backward(model(torch.full((1, 2), float("inf"))).sum())
    optimizer.step()
    scheduler.step()
    assert acc.optimizer_step_was_skipped and scheduler.last_epoch == 0


def test_plateau_gets_its_metric() -> None:
    acc = Accelerator(gradient_accumulation_steps=2)
    optimizer = torch.optim.SGD(network().parameters(), lr=1.0)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    optimizer, plateau = acc.prepare(optimizer, plateau)
    for metric in (1.0, 2.0, 3.0):
        plateau.step(metric)
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_schedulers_of_a_world_of_one_are_left_alone() -> None:
    optimizer = torch.optim.SGD(network().parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    Accelerator().prepare(optimizer, scheduler)
    assert type(scheduler) is torch.optim.lr_scheduler.StepLR
    acc = Accelerator(gradient_accumulation_steps=2, step_scheduler_with_optimizer=False)
    assert type(acc.prepare(scheduler)) is torch.optim.lr_scheduler.StepLR


def test_autocasting_model_is_the_authors_in_all_but_class() -> None:
    author = network()
    acc = Accelerator(mixed_precision="bf16")
    model = acc.prepare(author)
    assert model is not author and isinstance(model, nn.Sequential)
    assert acc.prepare(author) is model and acc.prepare(model) is model
    assert repr(model) == repr(author) and list(model.state_dict()) == list(author.state_dict())
    model.eval()
    assert not author.training
    model.note = "x"
    assert author.note == "x"
    x = torch.randn(2, 6)
    with torch.no_grad():
        assert model(x).dtype == torch.float32 and not torch.equal(model(x), author(x))
        assert acc.unwrap_model(model, keep_fp32_wrapper=False) is author
        assert torch.equal(acc.unwrap_model(model)(x), model(x))
        # Unwrapping did not change the live one.
        assert not torch.equal(model(x), author(x))
        twin = copy.deepcopy(model)
        assert torch.equal(twin(x), model(x)) and twin[0].weight is not model[0].weight
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert type(torch.load(file, weights_only=False)) is nn.Sequential


def test_outputs_in_containers_are_float32() -> None:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> dict[str, Any]:
            y = self.layer(x)
            assert y.dtype == torch.bfloat16
            return {"y": (y, [y]), "n": torch.tensor(1), "name": "text"}

    out = Accelerator(mixed_precision="bf16").prepare(Many())(torch.ones(1, 2))
    assert out["y"][0].dtype == out["y"][1][0].dtype == torch.float32
    assert out["n"].dtype == torch.int64 and out["name"] == "text"


def test_precision_comes_from_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert Accelerator().mixed_precision == "bf16"
    acc = Accelerator(mixed_precision="no")
    assert acc.mixed_precision == "no" and acc.scaler is None
    with acc.autocast():
        assert not torch.is_autocast_enabled("cpu")
    with Accelerator().autocast():
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16


def test_gathering_returns_the_input_itself() -> None:
    acc = Accelerator()
    value = {"x": torch.tensor(1.0), "names": ["a"]}
    assert acc.gather(value["x"]) is value["x"] and value["x"].shape == ()
    assert acc.gather_for_metrics(value) is value
    assert acc.batch_mean(value) is value
    assert acc.gather_for_metrics(value["names"], use_gather_object=True) is value["names"]
    for same_again in (acc.reduce, acc.broadcast, acc.pad_across_processes):
        assert same_again(value["x"]) is value["x"]
    assert acc.reduce(value["x"], scale=2.0).item() == 2.0
    acc.set_trigger()
    assert acc.check_trigger() and not acc.check_trigger()


def test_other_objects_pass_through_prepare() -> None:
    acc = Accelerator()
    other = object()
    model = network()
    assert acc.prepare(other) is other
    assert acc.prepare(model, other, None) == (model, other, None)
    assert acc.unwrap_model(model) is model
    assert acc.unwrap_model(None) is None  # type: ignore[arg-type]
    assert acc.free_memory(model, other) == [None, None]


def test_two_accelerators_do_not_meet() -> None:
    one, other = Accelerator(gradient_accumulation_steps=2), Accelerator()
    loader = one.prepare(shuffled())
    for _ in loader:
        with one.accumulate():
            break
    assert not one.sync_gradients and other.sync_gradients
    for _ in loader:
        assert one.gradient_state.in_dataloader and not other.gradient_state.in_dataloader


def test_accelerators_can_be_pickled() -> None:
    acc = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=2)
    model, loader = acc.prepare(nn.Linear(1, 1), shuffled())
    for _ in loader:
        twin = pickle.loads(pickle.dumps(acc))
        assert twin.mixed_precision == "fp16" and twin.gradient_accumulation_steps == 2
        assert not twin.gradient_state.in_dataloader and acc.gradient_state.in_dataloader
        assert vars(twin.state) is vars(acc.state) and twin.prepare(model) is model
        break


def test_micro_batches_outside_of_loops() -> None:
    acc = Accelerator(gradient_accumulation_steps=4)
    for _ in acc.prepare(DataLoader(range(3))):
        with acc.accumulate():
            pass
    assert acc.sync_gradients  # at the last batch, after which counting begins anew
    outside = []
    for _ in range(4):
        with acc.accumulate():
            outside.append(acc.sync_gradients)
    assert outside == [False, False, False, True]


def test_loader_that_was_iterated_before() -> None:
    plain = DataLoader(range(4), batch_size=2, num_workers=1, persistent_workers=True)
    first = [batch.tolist() for batch in plain]
    prepared = Accelerator().prepare(plain)
    assert [batch.tolist() for batch in prepared] == first
    assert prepared._iterator is not plain._iterator
    assert [batch.tolist() for batch in plain] == first


def test_state_is_shared() -> None:
    assert vars(PartialState()) is vars(PartialState())
    assert Accelerator().state.device is PartialState().device
    state = PartialState()
    assert (state.num_processes, state.process_index, state.backend) == (1, 0, None)
    assert state.is_main_process and state.is_last_process and not state.use_distributed
    state.wait_for_everyone()
    with state.main_process_first(), state.local_main_process_first():
        pass
    assert state.on_main_process(lambda: 1)() == 1


def test_optimizer_state_follows_its_parameters() -> None:
    # The meta device stands in for an accelerator.
    from accelift.optimizer import prepare_optimizer

    parameter = nn.Parameter(torch.ones(3, device="meta"))
    optimizer = torch.optim.Adam([parameter])
    optimizer.state[parameter] = {
        "step": torch.tensor(1.0),
        "exp_avg": torch.ones(3),
        "exp_avg_sq": torch.ones(3),
    }
    group = optimizer.param_groups[0]
    prepare_optimizer(optimizer, Accelerator().gradient_state, None, device_placement=True)
    assert optimizer.param_groups[0] is group
    state = optimizer.state[parameter]
    assert state["exp_avg"].device.type == state["exp_avg_sq"].device.type == "meta"
    assert state["step"].device.type == "cpu"


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_a_scheduler_finds_the_step_that_it_has_marked(several: bool, late: bool, recwarn: Any) -> None:
    from accelift.optimizer import prepare_optimizer

    optimizer = torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)
    early = None if late else torch.optim.lr_scheduler.StepLR(optimizer, 1)
    prepare_optimizer(optimizer, Accelerator().gradient_state, None, device_placement=True, several=several)
    scheduler = early or torch.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    scheduler.step()
    assert [str(w.message) for w in recwarn if "lr_scheduler" in str(w.message)] == []
