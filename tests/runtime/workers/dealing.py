"""Which samples the processes are dealt, and what that does to their random generators."""

from __future__ import annotations

import copy
import inspect
import pickle
import random
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import torch
from accelift import DataLoaderConfiguration, set_seed
from runtime_checks import Checks, accelerator, raises, warned
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    TensorDataset,
)
from torch.utils.data.distributed import DistributedSampler

check = Checks()
SPLIT = DataLoaderConfiguration(split_batches=True)


class Numbers(Dataset[int]):
    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> int:
        return index


def epochs(loader: Any, count: int = 3) -> list[list[list[int]]]:
    return [[batch.tolist() for batch in loader] for _ in range(count)]


def everyones(mine: Any) -> list[Any]:
    found: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, mine)
    return found


def joined(parts: Iterable[list[Any]]) -> list[Any]:
    return list(chain.from_iterable(parts))


def same_as_one_process(make: Any, seed_all: Any, count: int = 3) -> None:
    """With a different seed on every process, they deal what the main process's seed deals."""
    acc = accelerator(dataloader_config=SPLIT)
    seed_all(0)
    plain = epochs(make(), count)
    seed_all(acc.process_index)
    parts = everyones(epochs(acc.prepare(make()), count))
    for epoch in range(count):
        assert {len(part[epoch]) for part in parts} == {len(plain[epoch])}
        for i, batch in enumerate(plain[epoch]):
            shares = [part[epoch][i] for part in parts]
            whole = all(share == batch for share in shares)
            assert whole or joined(shares) == batch, (epoch, i, batch, shares)


@check
def seeds_that_differ() -> None:
    same_as_one_process(lambda: DataLoader(Numbers(21), 8, shuffle=True), torch.manual_seed)


@check
def own_generator() -> None:
    state = {"seed": 0}

    def make() -> Any:
        generator = torch.Generator().manual_seed(state["seed"])
        return DataLoader(Numbers(21), 8, shuffle=True, generator=generator)

    same_as_one_process(make, lambda seed: state.update(seed=seed))


@check
def sampler_that_draws_late() -> None:
    # With replacement, 32 indices are drawn at a time: the second draw comes in mid-epoch.
    def make() -> Any:
        return DataLoader(Numbers(70), 8, sampler=RandomSampler(range(70), replacement=True))

    same_as_one_process(make, torch.manual_seed)
    state = {"seed": 0}

    def own() -> Any:
        generator = torch.Generator().manual_seed(state["seed"])
        sampler = RandomSampler(range(70), replacement=True, generator=generator)
        return DataLoader(Numbers(70), 8, sampler=sampler)

    same_as_one_process(own, lambda seed: state.update(seed=seed))


class PythonSampler(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        order = list(range(21))
        random.shuffle(order)
        return iter(order)

    def __len__(self) -> int:
        return 21


class NumpySampler(PythonSampler):
    def __iter__(self) -> Iterator[int]:
        yield from np.random.permutation(21).tolist()


@check
def samplers_of_python_and_numpy() -> None:
    same_as_one_process(lambda: DataLoader(Numbers(21), 8, sampler=PythonSampler()), random.seed)
    same_as_one_process(lambda: DataLoader(Numbers(21), 8, sampler=NumpySampler()), np.random.seed)


@check
def workers_and_persistent_workers() -> None:
    def make(persistent: bool) -> Any:
        return DataLoader(Numbers(21), 8, shuffle=True, num_workers=2, persistent_workers=persistent)

    same_as_one_process(lambda: make(False), torch.manual_seed, count=2)
    same_as_one_process(lambda: make(True), torch.manual_seed, count=3)


@check
def generators_in_step_stay_in_step() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    torch.manual_seed(7)
    expected = DataLoader(Numbers(21), 8, shuffle=True)
    for _ in expected:
        pass
    state = torch.get_rng_state()
    torch.manual_seed(7)
    for _ in acc.prepare(DataLoader(Numbers(21), 8, shuffle=True)):
        pass
    assert torch.equal(torch.get_rng_state(), state)


@check
def generators_out_of_step_get_their_state_back() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    torch.manual_seed(acc.process_index)
    random.seed(acc.process_index)
    own = random.getstate()
    for _ in acc.prepare(DataLoader(Numbers(21), 8, shuffle=True)):
        pass
    ours = torch.rand(3)
    torch.manual_seed(acc.process_index)
    for _ in range(2):  # the seeds of loader and sampler; a token for the latter on the other processes
        torch.empty((), dtype=torch.int64).random_()
    assert torch.equal(ours, torch.rand(3))
    assert random.getstate() == own


@check
def sequential_loaders_do_not_communicate() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    loader = acc.prepare(DataLoader(Numbers(21), 8))
    if acc.is_main_process:
        assert len(list(loader)) == 3
    acc.wait_for_everyone()


@check
def shares_are_contiguous_and_larger_ones_first() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    first = next(iter(acc.prepare(DataLoader(Numbers(20), 7)))).tolist()
    bounds = {2: [0, 4, 7], 3: [0, 3, 5, 7]}[acc.num_processes]
    rank = acc.process_index
    assert first == list(range(bounds[rank], bounds[rank + 1]))


@check
def what_the_loader_keeps() -> None:
    class Authors(DataLoader[Any]):
        def hello(self) -> str:
            return "hello"

    for config, length in ((SPLIT, 3), (None, {2: 2, 3: 1}[accelerator().num_processes])):
        acc = accelerator(dataloader_config=config)
        plain = Authors(Numbers(21), batch_size=8, shuffle=True)
        loader = acc.prepare(plain)
        assert isinstance(loader, Authors) and isinstance(loader, DataLoader)
        assert loader is not plain and type(plain) is Authors
        assert loader.batch_size == 8 and loader.drop_last is False
        assert loader.sampler is plain.sampler and loader.batch_sampler.batch_sampler is plain.batch_sampler
        assert loader.batch_sampler.sampler is plain.sampler and loader.batch_sampler.batch_size == 8
        assert loader.dataset is plain.dataset and loader.collate_fn is plain.collate_fn
        assert len(loader.sampler) == 21 and len(loader.dataset) == 21
        assert len(loader) == length == len(list(loader))
        assert loader.hello() == "hello"
        total = 8 if config is SPLIT else 8 * acc.num_processes
        assert loader.total_batch_size == total


@check
def iter_of_the_authors() -> None:
    class Doubling(DataLoader[Any]):
        def __iter__(self) -> Any:
            for batch in super().__iter__():
                yield batch * 2

    acc = accelerator(dataloader_config=SPLIT)
    parts = everyones(epochs(acc.prepare(Doubling(Numbers(16), 8)), 2))
    for epoch in range(2):
        dealt = [joined(part[epoch][i] for part in parts) for i in range(2)]
        assert dealt == [[2 * n for n in range(8)], [2 * n for n in range(8, 16)]]

    class Hoarding(DataLoader[Any]):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.hoard = super().__iter__()

        def __iter__(self) -> Any:
            for _ in range(2):
                yield next(self.hoard)

    with raises(RuntimeError, "Hoarding yields batches that it did not draw"):
        next(iter(acc.prepare(Hoarding(Numbers(16), 8))))


class EpochSampler(Sampler[int]):
    def __init__(self) -> None:
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.epoch)
        yield from torch.randperm(16, generator=generator).tolist()

    def __len__(self) -> int:
        return 16

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


@check
def epochs_are_passed_on() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    sampler = EpochSampler()
    loader = acc.prepare(DataLoader(Numbers(16), 8, sampler=sampler))
    loader.set_epoch(4)
    assert sampler.epoch == 4
    acc.prepare(DataLoader(Numbers(16), 8)).set_epoch(1)  # nobody asks, nothing happens


@check
def sampler_that_shards_already() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    sampler = DistributedSampler(Numbers(16), shuffle=False)
    with warned("DistributedSampler", times=int(acc.is_main_process)):
        loader = acc.prepare(DataLoader(Numbers(16), 4, sampler=sampler))
    parts = everyones([n for batch in loader for n in batch.tolist()])
    assert sorted(set(joined(parts))) == list(range(16))
    assert parts[0][:5] == list(range(0, 16, acc.num_processes))[:5]


@check
def settings_that_contradict() -> None:
    even = DataLoaderConfiguration(split_batches=True, even_batches=True)
    acc = accelerator(dataloader_config=even)
    with raises(ValueError, "the batch size is 7"):
        acc.prepare(DataLoader(Numbers(16), 7))
    with raises(ValueError, "the batch size is not known"):
        acc.prepare(DataLoader(Numbers(16), batch_sampler=[[0, 1], [2]]))
    if "in_order" in inspect.signature(DataLoader).parameters:  # since torch 2.6
        with raises(ValueError, "in_order=False"):
            acc.prepare(DataLoader(Numbers(16), 6, num_workers=2, in_order=False))


@check
def prepared_loaders_stay_where_they_are() -> None:
    loader = accelerator().prepare(DataLoader(Numbers(4)))
    with raises(TypeError, "cannot be copied or pickled"):
        pickle.dumps(loader)
    with raises(TypeError, "cannot be copied or pickled"):
        copy.copy(loader)


class Draws(IterableDataset[float]):
    """A stream of random numbers, which says that it was read to its end."""

    def __iter__(self) -> Iterator[float]:
        for _ in range(19):
            yield float(torch.rand(()))


@check
def random_streams_under_one_seed() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    for workers in (0, 2):
        set_seed(3)
        plain = [batch.tolist() for batch in DataLoader(Draws(), 8, num_workers=workers)]
        set_seed(3)
        loader = acc.prepare(DataLoader(Draws(), 8, num_workers=workers))
        parts = everyones([batch.tolist() for batch in loader])
        for i, batch in enumerate(plain):
            shares = [part[i] for part in parts]
            assert all(s == batch for s in shares) or joined(shares) == batch, (workers, i)


@check
def streams_of_workers_do_not_depend_on_seeds() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    set_seed(acc.process_index)
    loader = acc.prepare(DataLoader(Draws(), 6, num_workers=1, persistent_workers=True, drop_last=True))
    for _ in range(2):
        parts = everyones([n for batch in loader for n in batch.tolist()])
        assert len(set(joined(parts))) == sum(map(len, parts)) == 18


@check
def end_of_the_loader() -> None:
    class NoLength:
        def __iter__(self) -> Iterator[list[int]]:
            return iter([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])

    acc = accelerator(dataloader_config=SPLIT, gradient_accumulation_steps=2)
    known = DataLoader(Numbers(12), 4)
    for loader in (
        known,
        DataLoader(Numbers(12), batch_sampler=NoLength()),
        DataLoader(Draws(), 7),
    ):
        prepared = acc.prepare(loader)
        ends = []
        for _ in prepared:
            with acc.accumulate():
                ends.append((prepared.end_of_dataloader, acc.sync_gradients))
        assert ends == [(False, False), (False, True), (True, True)], ends


@check
def several_tensors_on_the_way() -> None:
    data = TensorDataset(torch.arange(12), torch.arange(12) * 2)
    acc = accelerator(dataloader_config=SPLIT)
    for x, y in acc.prepare(DataLoader(data, 6, shuffle=True)):
        assert isinstance(x, Tensor) and torch.equal(2 * x, y)


if __name__ == "__main__":
    check.main()
