"""gather_for_metrics gives every process what one process would have."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import torch
from accelift import DataLoaderConfiguration
from runtime_checks import Checks, accelerator, raises
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

check = Checks()
SPLIT = DataLoaderConfiguration(split_batches=True)
SIZES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 40)


def numbers(samples: int) -> TensorDataset:
    return TensorDataset(torch.arange(samples), torch.arange(samples) * 10.0)


def all_equal(ours: Any, plain: Any) -> None:
    if isinstance(plain, Tensor):
        assert ours.dtype == plain.dtype and ours.shape == plain.shape, (ours, plain)
        assert torch.equal(ours, plain), (ours, plain)
    elif isinstance(plain, dict):
        assert type(ours) is type(plain) and ours.keys() == plain.keys()
        for key in plain:
            all_equal(ours[key], plain[key])
    elif isinstance(plain, (list, tuple)) and not (plain and isinstance(plain[0], (str, int))):
        assert type(ours) is type(plain) and len(ours) == len(plain), (ours, plain)
        for a, b in zip(ours, plain, strict=True):
            all_equal(a, b)
    else:
        assert ours == plain, (ours, plain)


def compare(make: Any, outputs: Any = lambda batch: batch, **arguments: Any) -> None:
    """Each batch's gathered outputs are those of the plain loader's batch, in the same order."""
    acc = accelerator(**(arguments or {"dataloader_config": SPLIT}))
    torch.manual_seed(5)
    plain = [outputs(batch) for _ in range(2) for batch in make()]
    torch.manual_seed(5)
    ours = []
    for _ in range(2):
        for batch in acc.prepare(make()):
            ours.append(acc.gather_for_metrics(outputs(batch)))
    all_equal(ours, plain)


@check
def batches_of_every_size() -> None:
    for samples in SIZES:
        for batch_size in (1, 2, 3, 5, 8):
            compare(lambda s=samples, b=batch_size: DataLoader(numbers(s), batch_size=b))


@check
def shuffled() -> None:
    compare(lambda: DataLoader(numbers(21), batch_size=8, shuffle=True))


@check
def subset_and_weighted_samplers() -> None:
    compare(lambda: DataLoader(numbers(101), 8, sampler=SubsetRandomSampler(range(0, 100, 2))))
    weights = torch.arange(1, 41) / 40.0
    compare(lambda: DataLoader(numbers(40), 8, sampler=WeightedRandomSampler(weights, 29)))


@check
def dropped_last_batch() -> None:
    compare(lambda: DataLoader(numbers(21), batch_size=8, drop_last=True))


@check
def batch_sampler_of_varying_sizes() -> None:
    batches = [[0, 1, 2, 3, 4, 5, 6], [7], [8, 9, 10], [11, 12], [13, 14, 15, 16, 17]]
    compare(lambda: DataLoader(numbers(18), batch_sampler=batches))
    compare(lambda: DataLoader(numbers(18), batch_sampler=[tuple(b) for b in batches]))
    compare(lambda: DataLoader(numbers(18), batch_sampler=[torch.tensor(b) for b in batches]))
    compare(lambda: DataLoader(numbers(18), batch_sampler=map_without_len(batches)))


class map_without_len:
    """Batches without a length, and each of them an iterator."""

    def __init__(self, batches: list[list[int]]) -> None:
        self.batches = batches

    def __iter__(self) -> Any:
        return map(iter, self.batches)


@check
def several_rows_for_each_sample() -> None:
    def flattened(batch: Any) -> Any:
        return batch[1].repeat_interleave(3), torch.stack([batch[0], batch[0]]).t().reshape(-1)

    for samples in SIZES:
        compare(lambda s=samples: DataLoader(numbers(s), batch_size=8), flattened)


@check
def rows_that_depend_on_the_data() -> None:
    def tokens(batch: Any) -> Any:
        return torch.cat([torch.full((1 + int(n) % 3,), int(n)) for n in batch[0]])

    # Uneven shares say their sizes; even ones must be padded by hand.
    batches = [list(range(7)), list(range(7, 24))]
    compare(lambda: DataLoader(numbers(24), batch_sampler=batches), tokens)


@check
def whole_tail_keeps_its_shape() -> None:
    # A batch that every process has is gathered as one process would: no extra dimension.
    def summary(batch: Any) -> Any:
        return {"mean": batch[1].mean(), "rows": batch[1]}

    acc = accelerator(dataloader_config=SPLIT)
    batches = [acc.gather_for_metrics(summary(b)) for b in acc.prepare(DataLoader(numbers(9), 8))]
    assert batches[1]["mean"].shape == () and batches[1]["mean"].item() == 80.0
    assert batches[0]["mean"].shape == (acc.num_processes,)


Pair = namedtuple("Pair", ["first", "second"])


@check
def containers() -> None:
    def nested(batch: Any) -> Any:
        return Pair([batch[0], {"x": batch[1]}], (batch[0] > 3, None))

    compare(lambda: DataLoader(numbers(21), batch_size=8), nested)


@check
def objects() -> None:
    def names(batch: Any) -> Any:
        return [f"sample {int(n)}" for n in batch[0]]

    compare(lambda: DataLoader(numbers(21), batch_size=8), names)
    compare(lambda: DataLoader(numbers(21), batch_size=8), lambda b: (b[1], names(b)))
    compare(lambda: DataLoader(numbers(21), batch_size=8), lambda b: {"ids": names(b)})
    acc = accelerator(dataloader_config=SPLIT)
    ours = [
        acc.gather_for_metrics(list(batch[0]), use_gather_object=True)
        for batch in acc.prepare(DataLoader(numbers(21), batch_size=8))
    ]
    all_equal(ours, [list(batch[0]) for batch in DataLoader(numbers(21), batch_size=8)])
    with raises(TypeError, "in a list"):
        acc.gather_for_metrics("name")


@check
def padded_tail() -> None:
    def flattened(batch: Any) -> Any:
        return batch[0], batch[1].repeat_interleave(2), [f"{int(n)}" for n in batch[0]]

    padding = DataLoaderConfiguration(split_batches=True, even_batches=True)
    world = accelerator().num_processes
    for samples in SIZES:
        compare(
            lambda s=samples: DataLoader(numbers(s), batch_size=4 * world),
            flattened,
            dataloader_config=padding,
        )


def in_turn(samples: int, even: bool | None, batch_size: int = 4, **more: Any) -> list[int]:
    config = DataLoaderConfiguration(even_batches=even)
    acc = accelerator(dataloader_config=config)
    loader = acc.prepare(DataLoader(numbers(samples), batch_size=batch_size, **more))
    seen: list[int] = []
    sizes = []
    for n, _ in loader:
        sizes.append(len(n))
        seen += acc.gather_for_metrics(n).tolist()
    if even is not False:
        assert all(size == batch_size for size in sizes)
    assert len(sizes) == len(loader)
    return seen


@check
def whole_batches_in_turn() -> None:
    for samples in SIZES:
        assert in_turn(samples, None) == list(range(samples))
        assert in_turn(samples, True) == list(range(samples))
    world = accelerator().num_processes
    assert in_turn(8 * world + 1, None, drop_last=True) == list(range(8 * world))
    assert in_turn(8 * world, False) == list(range(8 * world))
    # The last step: a full batch for everyone but the last process, which has a short one.
    assert in_turn(8 * world - 2, False) == list(range(8 * world - 2))


@check
def custom_batches_in_turn() -> None:
    acc = accelerator()
    batches = [[0, 1, 2], [3], [4, 5], [6, 7, 8, 9], [10, 11]]
    loader = acc.prepare(DataLoader(numbers(12), batch_sampler=batches))
    seen: list[int] = []
    for n, _ in loader:
        seen += acc.gather_for_metrics(n).tolist()
    assert seen == list(range(12)), seen


class Stream(IterableDataset[int]):
    def __init__(self, samples: int, known: bool) -> None:
        self.samples = samples
        if known:
            self.__class__ = KnownStream

    def __iter__(self) -> Any:
        return iter(range(self.samples))


class KnownStream(Stream):
    def __len__(self) -> int:
        return self.samples


@check
def streams() -> None:
    for samples in SIZES:
        for workers in (0, 1) if samples == 23 else (0,):
            compare(lambda s=samples, w=workers: DataLoader(Stream(s, False), 8, num_workers=w))
    compare(lambda: DataLoader(Stream(21, True), 8, drop_last=True))


@check
def streams_in_turn() -> None:
    acc = accelerator()
    for samples in SIZES:
        loader = acc.prepare(DataLoader(Stream(samples, True), batch_size=4))
        seen: list[int] = []
        steps = 0
        for n in loader:
            assert len(n) == 4
            steps += 1
            seen += acc.gather_for_metrics(n).tolist()
        assert seen == list(range(samples)) and steps == len(loader)


@check
def loaders_that_do_not_batch() -> None:
    compare(lambda: DataLoader(numbers(5), batch_size=None), lambda item: item[1])
    compare(lambda: DataLoader(Stream(5, True), batch_size=None), lambda item: torch.tensor(item))
    acc = accelerator()
    for samples in (5, 6):
        seen = []
        for item, _ in acc.prepare(DataLoader(numbers(samples), batch_size=None)):
            assert item.shape == ()
            seen += acc.gather_for_metrics(item[None]).tolist()
        assert seen == list(range(samples))


class Bulk(Dataset[Tensor]):
    """Loads whole batches at once."""

    def __getitem__(self, indices: list[int]) -> Tensor:
        return torch.tensor(indices) * 2


@check
def batch_sampler_in_the_place_of_the_sampler() -> None:
    def bulk() -> Any:
        sampler = BatchSampler(RandomSampler(range(21)), 8, drop_last=False)
        return DataLoader(Bulk(), sampler=sampler, batch_size=None)

    compare(bulk)
    acc = accelerator()
    loader = acc.prepare(bulk())
    assert loader.total_batch_size == 8 * acc.num_processes
    dealt = [len(acc.gather_for_metrics(batch)) for batch in loader]
    assert sum(dealt) == 21 and len(dealt) == len(loader)


@check
def only_the_current_batch_counts() -> None:
    acc = accelerator(dataloader_config=SPLIT)
    outer, inner = acc.prepare(DataLoader(numbers(16), 8), DataLoader(numbers(7), 5))
    for n, _ in outer:
        seen: list[int] = []
        for m, _ in inner:
            seen += acc.gather_for_metrics(m).tolist()
        assert seen == list(range(7))
        assert acc.gradient_state.active_dataloader is outer
        assert len(acc.gather_for_metrics(n)) == 8
    for _ in inner:
        break
    assert not acc.gradient_state.in_dataloader
    try:
        for _ in inner:
            raise KeyError
    except KeyError:
        pass
    assert not acc.gradient_state.in_dataloader
    rank = torch.tensor([acc.process_index])
    assert acc.gather_for_metrics(rank).tolist() == list(range(acc.num_processes))


@check
def a_batch_that_is_drawn_outside_of_loops() -> None:
    """Its loop is over as soon as it is drawn; the shares may still be of different sizes."""
    acc = accelerator(dataloader_config=SPLIT)
    for samples in (5, 6, 7):
        first, second = acc.gather_for_metrics(next(iter(acc.prepare(DataLoader(numbers(samples), 8)))))
        assert first.tolist() == list(range(samples)) and len(second) == samples
    part = torch.arange(acc.process_index + 1)
    assert len(acc.gather_for_metrics({"rows": part})["rows"]) == sum(range(acc.num_processes + 1))


@check
def rows_of_a_loop_that_has_ended_while_another_pass_is_open() -> None:
    """They are not dealt as the batch of the open pass was, which may be an even one."""
    acc = accelerator(dataloader_config=SPLIT)
    training, other = acc.prepare(DataLoader(numbers(32), 8), DataLoader(numbers(7), 8))
    passes = iter(training)
    next(passes)
    rows = torch.cat([first for first, _ in other])
    assert acc.gather_for_metrics(rows).tolist() == list(range(7))
    assert acc.gather_for_metrics(next(passes)[0]).tolist() == list(range(8, 16))


class Squares(Dataset[Tensor]):
    def __len__(self) -> int:
        return 21

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor(index * index)


@check
def workers() -> None:
    compare(lambda: DataLoader(Squares(), 8, shuffle=True, num_workers=2))
    sampler = BatchSampler(SequentialSampler(Squares()), 5, drop_last=False)
    compare(lambda: DataLoader(Squares(), batch_sampler=sampler, num_workers=1))


if __name__ == "__main__":
    check.main()
