"""Loaders that deal exactly, that the main process reads for all, and that end unevenly."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from accelift import Accelerator, DataLoaderConfiguration, DistributedDataParallelKwargs, GradientAccumulationPlugin
from accelift.data_loader import (
    BatchSamplerShard,
    DataLoaderDispatcher,
    SeedableRandomSampler,
    prepare_data_loader,
    skip_first_batches,
)
from resume_checks import Still, Stream
from runtime_checks import Checks, accelerator, close, raises, snapshot, warned
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, SubsetRandomSampler, TensorDataset

check = Checks()


def everyones(mine: Any) -> list[Any]:
    found: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, mine)
    return found


def configured(**config: Any) -> Accelerator:
    return accelerator(dataloader_config=DataLoaderConfiguration(**config))


class Counted(Dataset[int]):
    """Numbers, and how many were read."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.read = 0

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> int:
        self.read += 1
        return index


# The exact tail


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def data(samples: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 6, generator=generator)
    return TensorDataset(x, torch.randint(0, 3, (samples,), generator=generator))


def train(loader: Any, acc: Accelerator | None = None) -> list[Tensor]:
    """Two epochs from the same start; the parameters after every step."""
    model = author = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if acc is not None:
        model, optimizer, loader = acc.prepare(model, optimizer, loader)
    history = []
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward() if acc is None else acc.backward(loss)
            optimizer.step()
            history.append(snapshot(author))
    return history


@check
def exact_tail_of_batches_in_turn() -> None:
    acc = configured(even_batches="exact")
    size = 4
    whole = size * acc.num_processes
    for samples in (1, size, whole - 1, whole, whole + 1, whole + size + 1, 3 * whole - 2):
        torch.manual_seed(samples)
        ours = train(DataLoader(data(samples), size, shuffle=True), acc)
        torch.manual_seed(samples)
        close(train(DataLoader(data(samples), whole, shuffle=True)), ours)


@check
def padded_tail_is_another_gradient() -> None:
    acc = configured(even_batches=True)
    samples = 4 * acc.num_processes + 1
    ours = train(DataLoader(data(samples), 4), acc)
    plain = train(DataLoader(data(samples), 4 * acc.num_processes))
    assert not torch.allclose(ours[-1], plain[-1], atol=1e-4)


@check
def exact_tail_of_batches_of_any_size() -> None:
    acc = configured(even_batches="exact")
    batches = [list(range(i, i + 1 + i % 4)) for i in range(0, 4 * 7, 4)]
    world = acc.num_processes
    unions = [list(chain(*batches[i : i + world])) for i in range(0, len(batches), world)]
    ours = train(DataLoader(data(40), batch_sampler=batches), acc)
    close(train(DataLoader(data(40), batch_sampler=unions)), ours)


@check
def exact_tail_in_metrics() -> None:
    for samples in (17, 18, 23, 1):
        acc = configured(even_batches="exact")
        loader = acc.prepare(DataLoader(Counted(samples), 3))
        seen = [acc.gather_for_metrics(batch).tolist() for batch in loader]
        assert list(chain(*seen)) == list(range(samples)) and len(seen) == len(loader)
    sampler = SubsetRandomSampler(range(0, 40, 2))
    acc = configured(even_batches="exact")
    seen = [
        acc.gather_for_metrics(batch).tolist() for batch in acc.prepare(DataLoader(Counted(40), 3, sampler=sampler))
    ]
    assert sorted(chain(*seen)) == list(range(0, 40, 2))


@check
def remainder_of_a_padded_tail() -> None:
    acc = configured()
    whole = 3 * acc.num_processes
    remainders = []
    for batch in acc.prepare(DataLoader(Counted(2 * whole + 2), 3)):
        gathered = acc.gather(batch).tolist()
        remainder = acc.gradient_state.remainder
        remainders.append(remainder)
        assert gathered[: remainder or None] == acc.gather_for_metrics(batch).tolist()
    assert remainders == [0, 0, 2]


@check
def exact_tail_needs_batches() -> None:
    with raises(ValueError, "batch_size=None, whose items cannot be cut"):
        configured(even_batches="exact").prepare(DataLoader(Counted(3), batch_size=None))


@check
def leftover_micro_batches() -> None:
    def steps(acc: Accelerator | None, samples: int, loader: Any) -> list[Tensor]:
        model = author = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        number = len(loader)
        history = []
        if acc is not None:
            model, optimizer, loader = acc.prepare(model, optimizer, loader)
            for x, y in loader:
                with acc.accumulate(model):
                    acc.backward(F.cross_entropy(model(x), y))
                    optimizer.step()
                    optimizer.zero_grad()
                history.append(snapshot(author))
            return history
        for index, (x, y) in enumerate(loader):
            (F.cross_entropy(model(x), y) / min(4, number - index // 4 * 4)).backward()
            if (index + 1) % 4 == 0 or index + 1 == number:
                optimizer.step()
                optimizer.zero_grad()
            history.append(snapshot(author))
        return history

    for samples in (48, 49, 61, 75):
        plugin = GradientAccumulationPlugin(num_steps=4, average_leftover=True)
        config = DataLoaderConfiguration(split_batches=True)
        acc = accelerator(gradient_accumulation_plugin=plugin, dataloader_config=config)
        close(steps(None, samples, DataLoader(data(samples), 8)), steps(acc, samples, DataLoader(data(samples), 8)))


# The main process reads for all


@dataclass
class Parcel:
    """A batch of the author's, which is no container that anybody knows."""

    numbers: Tensor
    names: list[str]
    empty: Tensor
    flags: Tensor


def parcels(indices: list[int]) -> Parcel:
    numbers = torch.tensor(indices)
    names = [f"sample {index}" for index in indices]
    return Parcel(numbers, names, torch.empty(0, 3), numbers % 2 == 0)


def unpack(batch: Any) -> Any:
    if isinstance(batch, Parcel):
        assert batch.empty.shape == (0, 3) and batch.flags.dtype == torch.bool
        assert batch.numbers.untyped_storage().nbytes() == batch.numbers.nbytes, "the whole message is kept alive"
        assert [flag == (n % 2 == 0) for flag, n in zip(batch.flags.tolist(), batch.numbers.tolist(), strict=True)]
        return [int(name.removeprefix("sample ")) for name in batch.names]
    return batch.tolist() if isinstance(batch, Tensor) else batch


DISPATCHED: dict[str, Any] = {
    "shuffled": lambda samples: DataLoader(Counted(samples), 6, shuffle=True),
    "objects": lambda samples: DataLoader(Counted(samples), 6, shuffle=True, collate_fn=parcels),
    "dropped last": lambda samples: DataLoader(Counted(samples), 6, drop_last=True),
    "batch sampler": lambda samples: DataLoader(Counted(samples), batch_sampler=[[0], [1, 2, 3], [4, 5, 6, 7, 8], [9]]),
    "no batches": lambda samples: DataLoader(Counted(samples), batch_size=None, shuffle=True),
    "workers": lambda samples: DataLoader(Counted(samples), 6, shuffle=True, num_workers=2),
    "stream": lambda samples: DataLoader(Numbers(samples), 6, collate_fn=parcels),
    "stream of workers": lambda samples: DataLoader(Numbers(samples), 6, num_workers=2, persistent_workers=True),
}


class Numbers(IterableDataset[int]):
    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[int]:
        yield from range(self.samples)


def dealt(acc: Accelerator, make: Any, samples: int) -> list[Any]:
    torch.manual_seed(samples)
    loader = acc.prepare(make(samples))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: list[Any] = [[unpack(batch) for batch in loader] for _ in range(2)]
    return [found, None if isinstance(loader.dataset, IterableDataset) else len(loader)]


@check
def dispatched_is_what_each_would_read() -> None:
    for settings in ({"split_batches": True}, {}, {"even_batches": False}):
        for name, make in DISPATCHED.items():
            for samples in (37,) if "workers" in name else (37, 48):
                own = dealt(configured(**settings), make, samples)
                assert own[1] in (None, *map(len, own[0])), f"{name}, {samples} samples, {settings}: {own}"
                sent = dealt(configured(dispatch_batches=True, **settings), make, samples)
                assert own == sent, f"{name}, {samples} samples, {settings}: {own} against {sent}"


@check
def dispatched_is_read_on_the_main_process() -> None:
    acc = configured(dispatch_batches=True, split_batches=True)
    dataset = Counted(30)
    loader = acc.prepare(DataLoader(dataset, 6))
    assert isinstance(loader, DataLoaderDispatcher) and isinstance(loader, DataLoader)
    shares = [acc.gather_for_metrics(batch).tolist() for batch in loader]
    assert list(chain(*shares)) == list(range(30))
    assert dataset.read == (30 if acc.is_main_process else 0)
    assert len(loader) == 5 and loader.total_dataset_length == 30 and loader.total_batch_size == 6


@check
def dispatched_end_is_known() -> None:
    class NoLength:
        def __iter__(self) -> Iterator[list[int]]:
            return iter([[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11], [12, 13, 14, 15, 16, 17]])

    config = DataLoaderConfiguration(dispatch_batches=True, split_batches=True)
    acc = accelerator(gradient_accumulation_steps=2, dataloader_config=config)
    for loader in (DataLoader(Counted(18), batch_sampler=NoLength()), DataLoader(Numbers(18), 6)):
        prepared = acc.prepare(loader)
        ends = []
        for _ in prepared:
            with acc.accumulate():
                ends.append((prepared.end_of_dataloader, acc.sync_gradients))
        assert ends == [(False, False), (False, True), (True, True)], ends


class Broken(Counted):
    def __getitem__(self, index: int) -> int:
        if index == 7:
            raise OSError("sample 7 is not readable")
        return index


@check
def errors_of_the_reader_reach_everybody() -> None:
    acc = configured(dispatch_batches=True)
    for workers in (0, 1):
        loader = acc.prepare(DataLoader(Broken(40), 2, num_workers=workers))
        with raises(OSError if acc.is_main_process else RuntimeError, "sample 7 is not readable"):
            for _ in loader:
                pass
        assert acc.gradient_state.active_dataloader is None

    def unsendable(indices: list[int]) -> Any:
        return lambda: indices

    loader = acc.prepare(DataLoader(Counted(40), 2, collate_fn=unsendable))
    with raises(Exception if acc.is_main_process else RuntimeError, "pickle"):
        next(iter(loader))
    # The processes are still in step.
    assert acc.gather(torch.tensor([acc.process_index])).tolist() == list(range(acc.num_processes))
    assert len(list(acc.prepare(DataLoader(Counted(40), 2)))) == -(-20 // acc.num_processes)


# Uneven ends


@check
def joined_ends_train_on_everything() -> None:
    acc = configured(even_batches=False)
    world = acc.num_processes
    for samples in (4 * world + 2, 4 * world + 4, 9 * world + 1):
        model = author = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        model, optimizer, loader = acc.prepare(model, optimizer, DataLoader(data(samples), 4))
        history = []
        with acc.join_uneven_inputs([model]):
            for x, y in loader:
                optimizer.zero_grad()
                acc.backward(F.cross_entropy(model(x), y))
                optimizer.step()
                history.append(snapshot(author))
        if acc.is_main_process:
            plain = train(DataLoader(data(samples), 4 * world))
            close(plain[: len(history)], history)
        acc.wait_for_everyone()


@check
def join_overrides_what_loaders_do() -> None:
    acc = configured()
    world = acc.num_processes
    loader = acc.prepare(DataLoader(Counted(2 * world + 1), 1))
    stream = acc.prepare(DataLoader(Numbers(2 * world + 1), 1))
    model = acc.prepare(nn.Linear(1, 1))
    frozen = acc.prepare(nn.Linear(1, 1).requires_grad_(False))
    assert [len(list(one)) for one in (loader, stream)] == [3, 3]
    joined = acc.join_uneven_inputs([model, frozen], even_batches=False)
    with warned("only supported for map-style datasets"), joined:
        assert loader.batch_sampler.even_batches is False
        lengths = everyones([len(list(one)) for one in (loader, stream)])
    assert lengths == [[3 if rank == 0 else 2, 3] for rank in range(world)]
    assert loader.batch_sampler.even_batches is True and len(list(loader)) == 3
    with warned("join", times=0), acc.join_uneven_inputs([model]):
        pass  # loaders that deal evenly have nothing to join
    unprepared = acc.join_uneven_inputs([nn.Linear(1, 1)], even_batches=False)
    with raises(TypeError, "models that accelerator.prepare returned, not a Linear"), unprepared:
        pass


@check
def too_few_samples_for_everybody() -> None:
    acc = configured()
    main, world = acc.is_main_process, acc.num_processes
    with warned("samples are repeated", times=int(main)):
        loader = acc.prepare(DataLoader(Counted(1), 4))
    assert len(list(loader)) == 1
    with warned("are dealt nothing", times=int(main)):
        assert len(list(configured(even_batches=False).prepare(DataLoader(Counted(1), 4)))) == (1 if main else 0)
    with warned("deals nothing at all", times=int(main)):
        assert list(acc.prepare(DataLoader(Counted(world - 1), 1, drop_last=True))) == []
    for config in ({"split_batches": True}, {"even_batches": "exact"}):
        with warned("a DataLoader has only", times=0):
            loader = configured(**config).prepare(DataLoader(Counted(1), 4))
        assert [batch.tolist() for batch in loader] == [[0]]
    with warned("a DataLoader has only", times=0):
        acc.prepare(DataLoader(Counted(world), 1), DataLoader(Counted(0), 1))


# Gradients


@check
def gradients_kept_apart_are_averaged_at_last() -> None:
    for unused in (False, True):
        acc = accelerator(kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=unused)])
        author = nn.Linear(1, 1, bias=False)
        nn.init.ones_(author.weight)
        model = acc.prepare(author)
        own = torch.full((1, 1), float(acc.process_index + 1))
        mean = (acc.num_processes + 1) / 2
        with acc.no_sync(model):
            first, second = model(own).sum(), model(own).sum()
        acc.backward(first)
        assert author.weight.grad.item() == acc.process_index + 1, "averaged too early"
        with acc.trigger_sync_in_backward(model):
            acc.backward(second)
        assert abs(author.weight.grad.item() - 2 * mean) < 1e-6
        author.weight.grad = None
        acc.backward(model(own).sum())
        assert abs(author.weight.grad.item() - mean) < 1e-6, "the next backward is an ordinary one"


@check
def a_loss_of_something_else_changes_nothing() -> None:
    # DDP is told to expect gradients in every backward, also in one that has nothing to do with the model.
    acc = accelerator()
    author = nn.Linear(1, 1, bias=False)
    model = acc.prepare(author)
    own = torch.full((1, 1), float(acc.process_index + 1))
    acc.backward(model(own).sum())
    author.weight.grad = None
    acc.backward(nn.Linear(1, 1)(own).sum())
    with acc.no_sync(model):
        acc.backward(model(own).sum())
    assert author.weight.grad.item() == acc.process_index + 1


# Samplers


@check
def seedable_samplers_agree() -> None:
    acc = configured(use_seedable_sampler=True, split_batches=True)
    torch.manual_seed(11 + acc.process_index)  # the main process's counts
    loader = acc.prepare(DataLoader(Counted(20), 6, shuffle=True))
    assert isinstance(loader.sampler, SeedableRandomSampler)
    epochs = [[acc.gather_for_metrics(batch).tolist() for batch in loader] for _ in range(3)]
    for number, epoch in enumerate(epochs):
        order = torch.randperm(20, generator=torch.Generator().manual_seed(11 + number)).tolist()
        assert list(chain(*epoch)) == order
    loader.set_epoch(1)
    assert [acc.gather_for_metrics(batch).tolist() for batch in loader] == epochs[1]


@check
def synchronised_when_a_pass_begins() -> None:
    generator = torch.Generator().manual_seed(acc_rank())
    sampler = torch.utils.data.RandomSampler(Counted(12), generator=generator)
    acc = accelerator(rng_types=["torch", "generator"])
    loader = acc.prepare(DataLoader(Counted(12), 3, sampler=sampler))
    torch.manual_seed(acc.process_index)
    iter(loader)
    assert len(set(everyones(torch.rand(1).item()))) == 1
    torch.manual_seed(acc.process_index)
    iter(accelerator().prepare(DataLoader(Counted(12), 3)))
    assert len(set(everyones(torch.rand(1).item()))) == acc.num_processes


def acc_rank() -> int:
    return accelerator().process_index


@check
def the_batch_sampler_shows_what_is_dealt() -> None:
    acc = configured()
    plain = DataLoader(Counted(20), 3, shuffle=True)
    loader = acc.prepare(plain)
    shard = loader.batch_sampler
    assert isinstance(shard, BatchSamplerShard) and shard.batch_sampler is plain.batch_sampler
    assert shard.even_batches is True and len(shard) == len(loader) and shard.sampler is plain.sampler
    assert shard.batch_size == 3 and shard.drop_last is False
    shard.temperature = 5
    assert plain.batch_sampler.temperature == 5, "what is set goes to the author's"
    parts = everyones(list(acc.prepare(DataLoader(Counted(20), 3)).batch_sampler))
    assert len(parts[0]) == len(loader) and parts[0][0] == [0, 1, 2] and parts[1][0] == [3, 4, 5]


# Going on with other processes


@check
def state_of_the_main_process_will_do() -> None:
    acc = configured(split_batches=True, use_stateful_dataloader=True)
    torch.manual_seed(acc.process_index)
    loader = acc.prepare(DataLoader(Still(), 8, shuffle=True))
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    state = everyones(loader.state_dict())[0]
    rest = [batch.tolist() for batch in iterator]
    torch.manual_seed(50 + acc.process_index)
    again = acc.prepare(DataLoader(Still(), 8, shuffle=True))
    again.load_state_dict(state)
    assert [batch.tolist() for batch in again] == rest and rest

    # One process goes on where these left off.
    alone = prepare_data_loader(DataLoader(Still(), 8, shuffle=True), num_processes=1, process_index=0)
    alone.load_state_dict(state)
    whole = [batch.tolist() for batch in skip_first_batches(alone, 3)]
    parts = everyones(rest)
    for index, batch in enumerate(whole):
        shares = [part[index] for part in parts]
        assert all(share == batch for share in shares) or list(chain(*shares)) == batch

    in_turn = configured().prepare(DataLoader(Still(), 8, shuffle=True))
    with raises(ValueError, "go on with as many processes as before"):
        in_turn.load_state_dict(state)


@check
def skipping_without_a_state() -> None:
    for config in ({"split_batches": True}, {"dispatch_batches": True}, {}):
        acc = configured(**config)
        torch.manual_seed(2)
        whole = [batch.tolist() for batch in acc.prepare(DataLoader(Still(), 4, shuffle=True))]
        torch.manual_seed(2)
        loader = acc.skip_first_batches(acc.prepare(DataLoader(Still(), 4, shuffle=True)), 2)
        assert [batch.tolist() for batch in loader] == whole[2:] and len(loader) == len(whole) - 2
        stream = acc.skip_first_batches(acc.prepare(DataLoader(Stream(), 4)), 2)
        assert len(list(stream)) == len(whole) - 2


if __name__ == "__main__":
    check.main()
