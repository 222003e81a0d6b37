"""A pass over a loader goes on in its middle with the very batches that would have come."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from accelift import Accelerator, DataLoaderConfiguration
from accelift.data_loader import skip_first_batches
from resume_checks import LOADERS, SAMPLES, Still, Stream, check_resumed, states, through_a_file
from torch.utils.data import DataLoader


def accelerator(stateful: bool = False, steps: int = 1) -> Accelerator:
    config = DataLoaderConfiguration(use_stateful_dataloader=stateful)
    return Accelerator(dataloader_config=config, gradient_accumulation_steps=steps)


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("name", LOADERS)
def test_in_the_middle(name: str, stateful: bool) -> None:
    check_resumed(lambda: accelerator(stateful), LOADERS[name], (0, 2), stateful)
    check_resumed(lambda: accelerator(stateful), LOADERS[name], (1, 3), stateful)


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("name", ["sequential", "shuffled", "dropped last", "persistent workers"])
def test_at_the_last_batch(name: str, stateful: bool) -> None:
    last = len(LOADERS[name]())
    check_resumed(lambda: accelerator(stateful), LOADERS[name], (1, last), stateful)


@pytest.mark.parametrize("stateful", [False, True])
def test_batches_of_a_stream_that_are_fetched_ahead(stateful: bool) -> None:
    check_resumed(lambda: accelerator(stateful, steps=2), lambda: DataLoader(Stream(), 8), (1, 3), stateful)


def shuffled() -> DataLoader[Any]:
    return DataLoader(Still(), 8, shuffle=True)


def test_twice() -> None:
    acc = accelerator(stateful=True)
    torch.manual_seed(1)
    loader = acc.prepare(shuffled())
    iterator = iter(loader)
    batches = [next(iterator) for _ in range(2)]
    state = loader.state_dict()
    batches += list(iterator)
    loader.load_state_dict(state)
    assert loader.state_dict()["position"] == 2, "saved before the loop begins again"
    iterator = iter(loader)
    assert torch.equal(next(iterator), batches[2])
    again = loader.state_dict()
    assert again["position"] == 3
    torch.manual_seed(99)
    other = acc.prepare(shuffled())
    other.load_state_dict(through_a_file(again))
    rest = list(other)
    assert len(rest) == len(batches) - 3 and all(map(torch.equal, rest, batches[3:]))


def test_draws_between_making_an_iterator_and_its_first_batch() -> None:
    acc = accelerator(stateful=True)
    torch.manual_seed(1)
    loader = acc.prepare(shuffled())
    iterator = iter(loader)
    torch.rand(5)
    next(iterator)
    state = loader.state_dict()
    rest = list(iterator)
    torch.manual_seed(99)
    other = acc.prepare(shuffled())
    other.load_state_dict(state)
    assert all(map(torch.equal, list(other), rest)) and len(rest) == 5


def test_where_the_script_says() -> None:
    # A script may count otherwise than the loader; the order is still that of the pass.
    acc = accelerator()
    torch.manual_seed(1)
    loader = acc.prepare(shuffled())
    iterator = iter(loader)
    batches = [next(iterator) for _ in range(4)]
    state = loader.state_dict()
    torch.manual_seed(99)
    other = acc.prepare(shuffled())
    other.load_state_dict(state)
    assert torch.equal(next(iter(acc.skip_first_batches(other, 2))), batches[2])


def test_a_plain_loop_begins_anew_unless_it_is_told_otherwise() -> None:
    acc = accelerator()
    loader = acc.prepare(DataLoader(Still(), 8))
    iterator = iter(loader)
    next(iterator)
    loader.load_state_dict(loader.state_dict())
    assert len(list(loader)) == 6


def test_between_two_passes() -> None:
    acc = accelerator(stateful=True)
    loader = acc.prepare(DataLoader(Still(), 8, shuffle=True, generator=torch.Generator().manual_seed(4)))
    for _ in loader:
        pass
    state = through_a_file(loader.state_dict())
    assert state["position"] == 0
    expected = list(loader)
    again = acc.prepare(DataLoader(Still(), 8, shuffle=True, generator=torch.Generator()))
    again.load_state_dict(state)
    assert all(map(torch.equal, list(again), expected)), "the state of its own generator is not restored"
    for _ in loader:
        break
    assert loader.state_dict()["position"] == 0, "a pass that was left is not gone on with"


def test_states_that_do_not_fit() -> None:
    acc = accelerator()
    loader = acc.prepare(shuffled())
    foreign: list[Any] = [{}, {"epoch": 3}, None, [1]]
    for state in foreign:
        with pytest.raises(ValueError, match="this is not the state of a prepared loader"):
            loader.load_state_dict(state)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    with pytest.raises(ValueError, match="a loader that dealt 4 batches in a step, while this one deals 1"):
        loader.load_state_dict(state | {"batches_per_step": 4})
    loader.load_state_dict(state | {"batches_per_step": 4, "position": 0})
    with pytest.raises(ValueError, match="0 random generators of its own, while this one has 1"):
        acc.prepare(DataLoader(Still(), 8, generator=torch.Generator())).load_state_dict(state)


class Recording(Still):
    read: ClassVar[list[float]] = []

    def __getitem__(self, index: int) -> torch.Tensor:
        self.read.append(index)
        return super().__getitem__(index)


def test_skipped_batches_are_not_fetched() -> None:
    acc = accelerator()
    torch.manual_seed(1)
    plain = [batch[:, 0].tolist() for batch in shuffled()]
    torch.manual_seed(1)
    loader = acc.skip_first_batches(acc.prepare(DataLoader(Recording(), 8, shuffle=True)), 4)
    assert Recording.read == []
    assert [batch[:, 0].tolist() for batch in loader] == plain[4:]
    assert Recording.read == plain[4] + plain[5]


def test_skipping_in_loaders_of_all_kinds() -> None:
    numbers = list(range(SAMPLES))
    for prepare in (lambda loader: loader, accelerator().prepare):
        loader = prepare(DataLoader(numbers, 8))
        skipping = skip_first_batches(loader, 4)
        assert len(skipping) == 2 and skipping.dataset is loader.dataset
        for _ in range(2):
            assert [batch.tolist() for batch in skipping] == [numbers[32:40], numbers[40:]]
        assert len(skip_first_batches(skipping, 1)) == 1
        assert list(skip_first_batches(loader, 9)) == [] and len(skip_first_batches(loader, 9)) == 0
        assert len(list(skip_first_batches(loader))) == 6
    stream = skip_first_batches(accelerator().prepare(DataLoader(Stream(), 8)), 5)
    assert [batch[:, 0].tolist() for batch in stream] == [[40.0, 41.0, 42.0]]


def test_what_a_loader_that_skips_tells() -> None:
    acc = accelerator(steps=4)
    loader = acc.prepare(DataLoader(list(range(SAMPLES)), 8))
    told = []
    for _ in acc.skip_first_batches(loader, 2):
        with acc.accumulate():
            told.append((loader.state_dict()["position"], loader.end_of_dataloader, acc.sync_gradients))
    # The fourth of the pass ends a step, as if none had been skipped; so does the last.
    assert told == [(3, False, False), (4, False, True), (5, False, False), (6, True, True)]


def test_making_a_pass_again_leaves_the_generators_alone() -> None:
    acc = accelerator(stateful=True)
    loader = acc.prepare(shuffled())
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    torch.manual_seed(5)
    before = states()
    loader.load_state_dict(state)
    list(loader)
    assert states() == before
