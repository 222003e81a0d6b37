"""Prepared loaders, their samplers and the state of accumulation, on one process."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from accelift import Accelerator, DataLoaderConfiguration, GradientAccumulationPlugin
from accelift.data_loader import (
    BatchSamplerShard,
    DataLoaderShard,
    IterableDatasetShard,
    SeedableRandomSampler,
    get_sampler,
    prepare_data_loader,
    skip_first_batches,
)
from accelift.state import GradientState
from runtime_checks import same
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler


class Counted(Dataset[int]):
    """Numbers, and which of them were read."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> int:
        self.read.append(index)
        return index


class Numbers(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(10)


@pytest.fixture(autouse=True)
def fresh_gradient_state() -> Iterator[None]:
    GradientState._reset_state()
    yield
    GradientState._reset_state()


# The state of accumulation


def test_the_state_without_arguments_is_the_newest_accelerators() -> None:
    before = GradientState()
    first = Accelerator(gradient_accumulation_steps=2)
    assert before.num_steps == GradientState().num_steps == 2, "made before there was an Accelerator"
    second = Accelerator(gradient_accumulation_steps=5)
    assert GradientState().num_steps == second.gradient_state.num_steps == 5
    assert first.gradient_state.num_steps == 2
    GradientState._reset_state()
    assert GradientState().num_steps == 1 and second.gradient_state.num_steps == 5


def test_two_accelerators_do_not_disturb_each_other() -> None:
    one, two = Accelerator(gradient_accumulation_steps=2), Accelerator(gradient_accumulation_steps=3)
    due: list[tuple[bool, bool]] = []
    for _ in one.prepare(DataLoader(Counted(12), 2)):
        with one.accumulate():
            for _ in two.prepare(DataLoader(Counted(2))):
                with two.accumulate():
                    pass
            due.append((one.sync_gradients, two.sync_gradients))
        assert two.gradient_state.active_dataloader is None
    assert due == [(False, True), (True, True)] * 3


def test_what_the_state_tells() -> None:
    acc = Accelerator()
    state = acc.gradient_state
    outer, inner = acc.prepare(DataLoader(Counted(7), 2), DataLoader(Counted(4), 2))
    assert state.active_dataloader is None and state.dataloader_references == [None] and state.remainder == -1
    for index, _ in enumerate(outer):
        assert state.active_dataloader is outer and state.in_dataloader and state.remainder == 0
        assert state.end_of_dataloader == outer.end_of_dataloader == (index == 3)
        for _ in inner:
            assert state.active_dataloader is inner and state.dataloader_references == [None, outer, inner]
            break
    assert state.active_dataloader is None and not state.in_dataloader and not state.end_of_dataloader
    state._set_sync_gradients(False)
    assert not acc.sync_gradients
    assert state.plugin_kwargs == {"num_steps": 1} and "GradientState(" in repr(state)


def test_settings_of_accumulation_by_hand() -> None:
    acc = Accelerator()
    acc.gradient_accumulation_steps = 3
    assert acc.gradient_accumulation_steps == GradientState().num_steps == 3
    optimizer = acc.prepare(torch.optim.SGD(nn.Linear(1, 1).parameters()))
    acc.gradient_accumulation_steps = 3
    with pytest.raises(ValueError, match="comes too late: optimizers and loaders are prepared for 3"):
        acc.gradient_accumulation_steps = 2
    acc.sync_gradients = False
    assert not acc.gradient_state.sync_gradients
    with pytest.raises(ValueError, match="num_steps=0"):
        Accelerator().gradient_accumulation_steps = 0
    del optimizer


@pytest.mark.parametrize("leave", ["break", "error"])
def test_a_loop_that_is_left_leaves_no_loader_active(leave: str) -> None:
    acc = Accelerator()
    loader = acc.prepare(DataLoader(Counted(8), 2))
    try:
        for _ in loader:
            if leave == "break":
                break
            raise KeyError
    except KeyError:
        gc.collect()
    assert acc.gradient_state.passes == [] and not loader.end_of_dataloader


class WithoutLength(Sampler[list[int]]):
    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.drawn = 0

    def __iter__(self) -> Iterator[list[int]]:
        for index in range(self.batches):
            self.drawn += 1
            yield [2 * index, 2 * index + 1]


def leftover(loader: Any, steps: int, acc: Accelerator | None) -> list[Tensor]:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = []
    if acc is not None:
        prepared, optimizer, loader = acc.prepare(model, optimizer, loader)
        for batch in loader:
            with acc.accumulate(prepared):
                acc.backward(prepared(batch.float()).square().mean())
                optimizer.step()
                optimizer.zero_grad()
            history.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
        return history
    batches = list(loader)
    for index, batch in enumerate(batches):
        (model(batch.float()).square().mean() / min(steps, len(batches) - index // steps * steps)).backward()
        if (index + 1) % steps == 0 or index + 1 == len(batches):
            optimizer.step()
            optimizer.zero_grad()
        history.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    return history


@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize("steps", [2, 3, 7])
def test_leftover_micro_batches_by_their_true_number(steps: int, length: bool) -> None:
    plugin = GradientAccumulationPlugin(num_steps=steps, average_leftover=True)
    points = torch.rand(40, 2)
    for batches in range(1, 9):
        plain = DataLoader(points, batch_sampler=list(WithoutLength(batches)))
        ours = plain if length else DataLoader(points, batch_sampler=WithoutLength(batches))
        acc = Accelerator(gradient_accumulation_plugin=plugin)
        same(leftover(plain, steps, None), leftover(ours, steps, acc))


def test_leftover_micro_batches_are_counted_by_indices() -> None:
    dataset, sampler = Counted(40), WithoutLength(10)
    plugin = GradientAccumulationPlugin(num_steps=4, average_leftover=True)
    acc = Accelerator(gradient_accumulation_plugin=plugin)
    next(iter(acc.prepare(DataLoader(dataset, batch_sampler=sampler))))
    assert dataset.read == [0, 1] and sampler.drawn == 4
    with pytest.raises(ValueError, match=r"IterableDataset has no length; .* leave average_leftover out\."):
        acc.prepare(DataLoader(Numbers(), 2))


@pytest.mark.parametrize("contradiction", [{"carry_over": True}, {"sync_with_dataloader": False}])
def test_leftovers_that_there_are_not(contradiction: dict[str, bool]) -> None:
    with pytest.raises(ValueError, match="needs a step at the end of each pass"):
        GradientAccumulationPlugin(num_steps=2, average_leftover=True, **contradiction)


# Loaders


@pytest.mark.parametrize("steps", [1, 2])
def test_data_is_not_fetched_ahead(steps: int) -> None:
    acc = Accelerator(gradient_accumulation_steps=steps)
    for sampler in (None, WithoutLength(4)):
        dataset = Counted(8)
        plain = DataLoader(dataset, 2) if sampler is None else DataLoader(dataset, batch_sampler=sampler)
        for index, _ in enumerate(acc.prepare(plain), 1):
            assert len(dataset.read) == 2 * index


@pytest.mark.parametrize("config", [{}, {"split_batches": True}, {"dispatch_batches": True}, {"even_batches": "exact"}])
def test_one_process_reads_everything(config: dict[str, Any]) -> None:
    acc = Accelerator(dataloader_config=DataLoaderConfiguration(**config))
    plain = DataLoader(Counted(7), 3, sampler=[6, 5, 4, 3, 2])
    loader = acc.prepare(plain)
    assert [batch.tolist() for batch in loader] == [[6, 5, 4], [3, 2]] and len(loader) == 2
    assert loader.batch_sampler is plain.batch_sampler and loader.sampler is plain.sampler
    assert loader.total_dataset_length == 7 and loader.total_batch_size == 3
    assert sum(len(acc.gather_for_metrics(batch)) for batch in loader) == 5


def test_prepared_loaders_are_made_of_others() -> None:
    with pytest.raises(TypeError, match=r"made from a DataLoader, by accelerator\.prepare"):
        DataLoaderShard(Counted(3))


def test_settings_that_are_not_possible() -> None:
    with pytest.raises(ValueError, match='give True, False or "exact"'):
        DataLoaderConfiguration(even_batches="even")  # type: ignore[arg-type]
    loader = DataLoader(Counted(3))
    with pytest.raises(ValueError, match=r"slice_fn_for_dispatch=\.\.\.\) is not offered"):
        prepare_data_loader(loader, slice_fn_for_dispatch=print)
    with pytest.raises(ValueError, match=r"torch_device_mesh=\.\.\.\) is not offered"):
        prepare_data_loader(loader, torch_device_mesh=1)
    with pytest.raises(ValueError, match="the main process sends to all others"):
        prepare_data_loader(loader, num_processes=2, dispatch_batches=True)
    with pytest.raises(TypeError, match="takes a DataLoader, not a list"):
        skip_first_batches([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"num_batches=-1\) is not possible"):
        skip_first_batches(loader, -1)


@pytest.mark.parametrize("split", [False, True])
def test_loaders_for_any_process(split: bool) -> None:
    parts = []
    for rank in (0, 1):
        loader = DataLoader(Counted(8), 4)
        parts.append([b.tolist() for b in prepare_data_loader(loader, None, 2, rank, split_batches=split)])
    halves = [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    assert parts == (halves if split else [[[0, 1, 2, 3]], [[4, 5, 6, 7]]])


@pytest.mark.parametrize("kind", [Counted(9), Numbers()])
def test_workers_end_with_their_loader(kind: Any) -> None:
    loader = prepare_data_loader(DataLoader(kind, 2, num_workers=1, persistent_workers=True), None, 2, 0)
    for _ in loader:
        pass
    gone = [weakref.ref(loader), weakref.ref(getattr(loader._iterator, "_iterator", loader._iterator))]
    gc.disable()  # which would come too late, maybe in a worker of another loader
    try:
        del loader
        assert [reference() for reference in gone] == [None, None]
    finally:
        gc.enable()


# Samplers


def test_seedable_sampler_goes_by_seed_and_epoch() -> None:
    sampler = SeedableRandomSampler(range(10), data_seed=5)
    orders = [list(sampler) for _ in range(3)]
    for epoch, order in enumerate(orders):
        generator = torch.Generator().manual_seed(5 + epoch)
        assert order == list(RandomSampler(range(10), generator=generator))
    assert sampler.epoch == 3 and sampler.initial_seed == 5
    sampler.set_epoch(1)
    iterator = iter(sampler)
    next(iterator)
    assert list(sampler) == orders[2], "a pass that was left early is followed by the next epoch"
    torch.manual_seed(8)
    state = torch.get_rng_state()
    assert SeedableRandomSampler(range(10)).initial_seed == 8
    list(sampler)
    assert torch.equal(torch.get_rng_state(), state), "the global generator is left alone"


def test_seedable_sampler_takes_the_place_of_a_shuffling_one() -> None:
    acc = Accelerator(dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=3))
    plain = DataLoader(Counted(10), 4, shuffle=True)
    loader = acc.prepare(plain)
    assert isinstance(get_sampler(loader), SeedableRandomSampler) and type(get_sampler(plain)) is RandomSampler
    order = torch.randperm(10, generator=torch.Generator().manual_seed(3)).tolist()
    assert [n for batch in loader for n in batch.tolist()] == order
    loader.set_epoch(0)
    assert [n for batch in loader for n in batch.tolist()] == order
    weighted = torch.utils.data.WeightedRandomSampler([1.0] * 10, 10)
    assert acc.prepare(DataLoader(Counted(10), 4, sampler=weighted)).sampler is weighted


def test_shards_by_themselves() -> None:
    batches = BatchSampler(range(10), 3, drop_last=False)
    shards = [BatchSamplerShard(batches, 2, rank) for rank in (0, 1)]
    assert [list(shard) for shard in shards] == [[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 0, 1]]]
    assert [len(shard) for shard in shards] == [2, 2] and shards[0].batch_size == 3
    for shard in shards:
        shard.even_batches = False
    assert [list(shard) for shard in shards] == [[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9]]]
    with pytest.raises(ValueError, match="the batch size is 3"):
        BatchSamplerShard(batches, 2, 0, split_batches=True)
    exact = [list(BatchSamplerShard(batches, 2, rank, True, "exact")) for rank in (0, 1)]
    assert exact == [[[0, 1], [3, 4], [6, 7], [9]], [[2], [5], [8], [9]]]
    streams = [list(IterableDatasetShard(Numbers(), 2, num_processes=2, process_index=rank)) for rank in (0, 1)]
    assert streams == [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 0, 1]]
