"""How batches are shared out, without any processes: every rank of every job is asked."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from accelift.data.share import Plan, Share, share_out
from torch.utils.data import BatchSampler

WORLDS = (1, 2, 3, 4, 7)


def deal(batches: Any, world: int, **plan: Any) -> list[list[tuple[list[Any], Share]]]:
    """For every rank, its part of every step and everyone's share."""
    return [[(list(part), share) for part, share in Plan(rank, world, **plan).deal(batches)] for rank in range(world)]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 5, 7, 8, 12, 13])
def test_split_deals_the_batches_of_one_process(world: int, batch_size: int) -> None:
    for samples in range(60):
        for drop_last in (False, True):
            batches = list(BatchSampler(range(samples), batch_size, drop_last))
            ranks = deal(batches, world, split=True, batch_size=batch_size)
            for step, batch in enumerate(batches):
                parts = [ranks[rank][step][0] for rank in range(world)]
                shares = {ranks[rank][step][1] for rank in range(world)}
                assert len(shares) == 1, "the processes disagree"
                share = shares.pop()
                assert share.counts == tuple(map(len, parts)) == share.dealt
                if share.replicated:
                    assert parts == [batch] * world
                else:
                    assert list(chain(*parts)) == batch
                    assert max(share.counts) - min(share.counts) <= 1
                    assert list(share.counts) == sorted(share.counts, reverse=True)
            lengths = {Plan(r, world, True, None, batch_size).length(len(batches), samples) for r in range(world)}
            assert lengths == {len(batches)}


@pytest.mark.parametrize("world", WORLDS)
def test_weights_make_the_mean_exact(world: int) -> None:
    for samples in range(1, 50):
        for batch_size in (samples, 2 * samples):
            share = share_out(samples, world, batch_size)
            values = [float(i * i) for i in range(samples)]
            starts = [sum(share.counts[:rank]) for rank in range(world)]
            means = []
            for rank, (start, count) in enumerate(zip(starts, share.counts, strict=True)):
                part = values if share.replicated else values[start : start + count]
                means.append(share.weights[rank] * sum(part) / len(part))
            assert sum(means) / world == pytest.approx(sum(values) / samples)


def test_short_batches_are_replicated() -> None:
    assert share_out(8, 4, 8) == Share((2, 2, 2, 2), (2, 2, 2, 2))
    assert share_out(4, 4, 4) == Share((1, 1, 1, 1), (1, 1, 1, 1)), "the batch is full"
    assert share_out(4, 4, 8).replicated, "one sample each is too few for BatchNorm"
    assert share_out(9, 4, 16) == Share((3, 2, 2, 2), (3, 2, 2, 2))
    assert share_out(3, 4, 3).replicated, "someone would go without"
    assert share_out(7, 4, None).replicated and not share_out(8, 4, None).replicated


def padded_by_hand(samples: list[int], start: list[int], each: int, world: int) -> list[list[int]]:
    filled = list(samples)
    while len(filled) < each * world:
        filled += start
    return [filled[rank * each : (rank + 1) * each] for rank in range(world)]


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("split", [True, False])
def test_padding_repeats_samples_from_the_start(world: int, split: bool) -> None:
    each = 3
    batch_size = each * world if split else each
    step_size = each * world
    for samples in range(1, 40):
        batches = list(BatchSampler(range(samples), batch_size, drop_last=False))
        ranks = deal(batches, world, split=split, even=True, batch_size=batch_size)
        steps = [list(range(samples))[i : i + step_size] for i in range(0, samples, step_size)]
        for index, step in enumerate(steps):
            parts = [ranks[rank][index][0] for rank in range(world)]
            assert parts == padded_by_hand(step, steps[0], each, world)
            share = ranks[0][index][1]
            real = [part[:count] for part, count in zip(parts, share.counts, strict=True)]
            assert list(chain(*real)) == step
            assert share.dealt == (each,) * world
            assert share.padded == (len(step) < step_size)
        for rank in range(world):
            plan = Plan(rank, world, split, True, batch_size)
            assert plan.length(len(batches), samples) == len(ranks[rank]) == len(steps)


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("split", [True, False])
def test_uneven_gives_everything_once(world: int, split: bool) -> None:
    batch_size = 3 * world if split else 3
    for samples in range(40):
        for drop_last in (False, True):
            batches = list(BatchSampler(range(samples), batch_size, drop_last))
            plan = {"split": split, "even": False, "batch_size": batch_size}
            ranks = deal(batches, world, drop_last=drop_last, **plan)
            dealt = sorted(n for rank in ranks for part, _ in rank for n in part)
            complete = samples - samples % (3 * world) if drop_last else samples
            assert dealt == list(range(complete))
            for rank in range(world):
                length = Plan(rank, world, drop_last=drop_last, **plan).length(len(batches), samples)
                assert length == len(ranks[rank])


def test_custom_batches_in_turn_stay_whole() -> None:
    batches = [[0, 1, 2], [3], [4, 5], [6, 7, 8, 9], [10]]
    ranks = deal(batches, 2, split=False, even=True, fixed=False)
    assert [part for part, _ in ranks[0]] == [[0, 1, 2], [4, 5], [10]]
    assert [part for part, _ in ranks[1]] == [[3], [6, 7, 8, 9], [0, 1, 2]]
    assert [share.counts for _, share in ranks[0]] == [(3, 1), (2, 4), (1, 0)]
    assert ranks[0][2][1].dealt == (1, 3)
    assert [share.weights[0] for _, share in ranks[0]] == [1.5, 2 / 3, 1.0]


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("fixed", [True, False])
def test_exact_deals_in_turn_and_everything_once(world: int, fixed: bool) -> None:
    size = 3
    for samples in range(1, 50):
        batches = list(BatchSampler(range(samples), size, drop_last=False))
        ranks = deal(batches, world, split=False, batch_size=size, fixed=fixed)
        unions = [list(chain(*batches[i : i + world])) for i in range(0, len(batches), world)]
        assert {len(rank) for rank in ranks} == {len(unions)}
        for index, union in enumerate(unions):
            share = ranks[0][index][1]
            parts = [rank[index][0] for rank in ranks]
            assert parts == [union] * world if share.replicated else list(chain(*parts)) == union
            means = [share.weights[rank] * sum(part) / len(part) for rank, part in enumerate(parts)]
            assert sum(means) / world == pytest.approx(sum(union) / len(union))
            if len(union) == size * world:
                assert parts == batches[index * world : (index + 1) * world], "whole batches stay whole"
        length = Plan(0, world, False, None, size, fixed).length(len(batches), samples)
        assert length == len(unions)


@pytest.mark.parametrize("even", [True, False, None])
@pytest.mark.parametrize("split", [True, False])
def test_all_parts_are_those_of_each(split: bool, even: bool | None) -> None:
    world, size = 3, 6
    for samples in range(1, 50):
        batches = list(BatchSampler(range(samples), size, drop_last=False))
        ranks = [iter(rank) for rank in deal(batches, world, split=split, even=even, batch_size=size)]
        for parts, share in Plan(0, world, split, even, size).deal_all(batches):
            if share.replicated:
                assert all(next(rank) == (parts[0], share) for rank in ranks)
            else:
                assert [next(ranks[rank])[0] for rank in share.receivers] == [list(part) for part in parts]
        assert [list(rank) for rank in ranks] == [[]] * world


def test_nothing_is_read_ahead() -> None:
    read = []

    def batches() -> Any:
        for batch in ([0, 1], [2, 3], [4, 5]):
            read.append(batch)
            yield batch

    next(Plan(0, 2, split=True, batch_size=2).deal(batches()))
    assert read == [[0, 1]]
    read.clear()
    next(Plan(0, 2, split=False, batch_size=2).deal(batches()))
    assert read == [[0, 1], [2, 3]]
